package trace

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep/ui/notify"
)

// TestNamesPage: the help page names all spans, events, attributes and metrics, and no others.
func TestNamesPage(t *testing.T) {
	page, err := os.ReadFile("../cli/help/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{notify.Started, notify.Approval, notify.Held, notify.Failed, notify.Done}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok {
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("telemetry.md does not have %s", name)
		}
	}
	if len(names) < 50 {
		t.Errorf("only %d names", len(names))
	}
	for _, found := range regexp.MustCompile("`((?:lockstep|k8s|error)\\.[a-z0-9_.-]+)`").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(names, found[1]) {
			t.Errorf("telemetry.md has %s, which is not sent", found[1])
		}
	}
}
