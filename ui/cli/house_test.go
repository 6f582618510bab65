package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestNothingIsPrintedHere keeps this package to flags and wiring: what commands
// have to say, package report prints.
func TestNothingIsPrintedHere(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	printers := map[string]string{"fmt": "Fprint Fprintf Fprintln Print Printf Println", "json": "NewEncoder Marshal MarshalIndent", "yaml": "Marshal", "io": "WriteString"}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f.Name(), nil, 0)
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
