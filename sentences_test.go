package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// matchers are the functions that still match on a message, a cause, a reason or an outcome of ours, or take one apart, with
// what it is. None is added: facts travel in fields, and engine/phrase makes sentences of them.
var matchers = map[string]string{
	"engine/phrase.CauseAt":         "takes out the counts that the event has as numbers",
	"kube/diagnose.conditionCause":  "whether a condition of the object says more than its status",
	"ui/board/header.watchMark":     "Helm's status of the release",
	"ui/report.Refusal":             "whether a refusal names the group",
	"ui/report.releaseOutcome":      "the rollback of a stack's release",
	"ui/report/reportfile.setCause": "the chart and the object in front of a refusal",
}

// TestNothingMatchesOnSentences finds, by their types, the functions that pass a text of an event or of a finding to strings
// or regexp, or compare it with a constant.
func TestNothingMatchesOnSentences(t *testing.T) {
	found := map[string][]string{}
	for _, p := range loadProduct(t) {
		for _, f := range p.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					for _, at := range p.matches(fn.Body) {
						name := strings.TrimPrefix(p.types.Path(), "lockstep/") + "." + fn.Name.Name
						found[name] = append(found[name], p.fset.Position(at).String())
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if matchers[name] == "" {
			t.Errorf("%s matches on a sentence: carry the fact in a field\n\t%s", name, strings.Join(found[name], "\n\t"))
		}
	}
	for name := range matchers {
		if found[name] == nil {
			t.Errorf("%s matches on no sentence any more: delete it from the list", name)
		}
	}
}

// testSupport matches the packages that are no part of the product.
var testSupport = regexp.MustCompile(`^lockstep/kube/(e2e|bench|chaos|compat|example|throwaway)(/|$)`)

// product is a package with its types.
type product struct {
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// loadProduct loads the packages of engine, kube and ui. The types of their imports come from the build cache.
func loadProduct(t *testing.T) (packages []product) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./engine/...", "./kube/...", "./ui/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	var own []listed
	exports := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, "lockstep/") && !testSupport.MatchString(p.ImportPath) {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	for _, l := range own {
		p := product{fset: fset, info: &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}}
		for _, name := range l.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		if p.types, err = config.Check(l.ImportPath, fset, p.files, p.info); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

// matches returns where a body matches on a sentence, also through local variables.
func (p *product) matches(body *ast.BlockStmt) (at []token.Pos) {
	texts := map[types.Object]bool{} // variables that hold a sentence
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && p.isSentence(n.Rhs[i], texts) {
					texts[p.info.ObjectOf(name)] = true
				}
			}
		case *ast.CallExpr:
			if p.takesApart(n) && slices.ContainsFunc(n.Args, func(arg ast.Expr) bool { return p.isSentence(arg, texts) }) {
				at = append(at, n.Pos())
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (p.isSentence(n.X, texts) && p.isText(n.Y) || p.isSentence(n.Y, texts) && p.isText(n.X)) {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}

// isText reports whether an expression is a constant other than "".
func (p *product) isText(e ast.Expr) bool {
	value := p.info.Types[e].Value
	return value != nil && value.Kind() == constant.String && constant.StringVal(value) != ""
}

// takesApart reports whether a call is one of package strings or regexp that looks into a text.
func (p *product) takesApart(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	fn := p.info.Uses[selector.Sel]
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != "strings" && fn.Pkg().Path() != "regexp" {
		return false
	}
	for _, prefix := range []string{"Contains", "HasPrefix", "HasSuffix", "Cut", "TrimPrefix", "TrimSuffix", "Replace", "Split", "Index", "LastIndex", "Match", "Find", "EqualFold"} {
		if strings.HasPrefix(fn.Name(), prefix) {
			return true
		}
	}
	return false
}

// isSentence reports whether an expression is, or contains, a text for people.
func (p *product) isSentence(e ast.Expr, texts map[types.Object]bool) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return p.isSentence(e.X, texts)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (p.isSentence(e.X, texts) || p.isSentence(e.Y, texts))
	case *ast.Ident:
		return texts[p.info.ObjectOf(e)]
	case *ast.SelectorExpr:
		s := p.info.Selections[e]
		if s == nil || s.Kind() != types.FieldVal || s.Obj().Pkg() == nil {
			return false
		}
		owner := s.Obj().Pkg().Path()
		if c := s.Obj().Pkg().Scope().Lookup("ClusterEvent"); c != nil && fieldOf(s.Obj(), c.Type()) { // Kubernetes wrote it
			return false
		}
		return (owner == "lockstep/engine/event" || owner == "lockstep/engine/run") &&
			slices.Contains([]string{"Message", "RunMessage", "Cause", "Reason", "Outcome", "Why"}, s.Obj().Name()) && types.Identical(s.Type(), types.Typ[types.String])
	case *ast.CallExpr:
		if fn := p.info.Uses[calledName(e)]; fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "lockstep/engine/phrase" {
			return true
		}
		return slices.ContainsFunc(e.Args, func(arg ast.Expr) bool { return p.isSentence(arg, texts) })
	}
	return false
}

// fieldOf reports whether a field is one of a struct.
func fieldOf(field types.Object, t types.Type) bool {
	s, ok := t.Underlying().(*types.Struct)
	return ok && slices.ContainsFunc(slices.Collect(s.Fields()), func(f *types.Var) bool { return f.Pos() == field.Pos() })
}

// calledName returns the name of the called function.
func calledName(call *ast.CallExpr) *ast.Ident {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f
	case *ast.SelectorExpr:
		return f.Sel
	}
	return nil
}
