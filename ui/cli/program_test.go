package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockstep/ui/cli/command"
)

// TestCommandsInTextsStartWithTheProgram: a text that names a command takes the name of the program from text.Program, because who has
// only a plugin of Helm or kubectl has no command lockstep. Help texts are renamed as a whole.
func TestCommandsInTextsStartWithTheProgram(t *testing.T) {
	t.Parallel()
	names := []string{"help"}
	for _, c := range newRoot(command.NewSignals(t.Context())).Commands() {
		names = append(names, c.Name())
	}
	inText := regexp.MustCompile(`\blockstep (` + strings.Join(names, "|") + `)\b`)
	for _, dir := range []string{"engine", "kube", "ui"} {
		err := filepath.WalkDir("../../"+dir, func(path string, d fs.DirEntry, err error) error {
			switch name := filepath.ToSlash(strings.TrimPrefix(path, "../../")); {
			case err != nil:
				return err
			case name == "kube/e2e" || name == "kube/sandbox" || name == "kube/throwaway" || name == "ui/report/reportfile" || name == "ui/cli/schema":
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Inspect(file, func(n ast.Node) bool { return findCommands(t, path, inText, n) })
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// findCommands reports texts in a node that name a command, and whether to look at its parts: help texts and usages of flags are none.
func findCommands(t *testing.T, path string, inText *regexp.Regexp, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		key, _ := n.Key.(*ast.Ident)
		return key == nil || key.Name != "Use" && key.Name != "Example" && key.Name != "Long" && key.Name != "Via"
	case *ast.ValueSpec:
		return !strings.HasSuffix(n.Names[0].Name, "Long") && n.Names[0].Name != "usage"
	case *ast.AssignStmt:
		to, _ := n.Lhs[0].(*ast.SelectorExpr)
		return to == nil || to.Sel.Name != "Usage" && to.Sel.Name != "Long" && to.Sel.Name != "Example"
	case *ast.CallExpr:
		of, _ := n.Fun.(*ast.SelectorExpr)
		return of == nil || !strings.HasSuffix(of.Sel.Name, "Var") && !strings.HasSuffix(of.Sel.Name, "VarP") && of.Sel.Name != "String"
	case *ast.CompositeLit:
		if len(n.Elts) > 0 {
			if first, ok := n.Elts[0].(*ast.BasicLit); ok && first.Value == `"lockstep"` {
				t.Errorf("%s: a command line begins with %s, not with text.Program", path, first.Value)
			}
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING && inText.MatchString(n.Value) {
			t.Errorf("%s: %s names a command without text.Program", path, n.Value)
		}
	}
	return true
}
