package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsDoNotPrint: only package report prints the output of commands.
func TestCommandsDoNotPrint(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("*/*.go")
	if err != nil || len(below) == 0 {
		t.Fatalf("no commands found: %v", err)
	}
	printers := map[string]string{"fmt": "Fprint Fprintf Fprintln Print Printf Println", "json": "NewEncoder Marshal MarshalIndent", "yaml": "Marshal", "io": "WriteString"}
	for _, f := range append(files, below...) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && strings.Contains(" "+printers[pkg.Name]+" ", " "+sel.Sel.Name+" ") {
					t.Errorf("%s: %s.%s", set.Position(call.Pos()), pkg.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
}
