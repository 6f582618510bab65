package form

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/ui/golden"
)

// TestFormsPage checks that the help page has the keys of forms; -update writes it.
func TestFormsPage(t *testing.T) {
	var table strings.Builder
	part := ""
	for _, k := range Doc() {
		if k.Part != part {
			part = k.Part
			fmt.Fprintf(&table, "\n## %s\n\n| key | action |\n|---|---|\n", strings.ToUpper(part[:1])+part[1:])
		}
		fmt.Fprintf(&table, "| %-12s | %s |\n", "`"+k.Keys+"`", k.About)
	}
	golden.CompareSection(t, "../../cli/help/forms.md", "keys", table.String())
}
