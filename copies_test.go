package main

import (
	"go/ast"
	"testing"
)

// TestNothingCopiesHelmsSettings: the client of a copy of helmcli.EnvSettings uses the namespace, the context and the user of the
// original, so a write through it goes to another release. command.InNamespace and command.ContextSettings make new ones.
func TestNothingCopiesHelmsSettings(t *testing.T) {
	for _, p := range loadProduct(t) {
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if star, ok := n.(*ast.StarExpr); ok && p.info.Types[star].IsValue() && p.info.Types[star].Type.String() == "helm.sh/helm/v4/pkg/cli.EnvSettings" {
					t.Errorf("%s copies Helm's settings: use command.InNamespace or command.ContextSettings", p.fset.Position(star.Pos()))
				}
				return true
			})
		}
	}
}
