package home

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/ui/golden"
)

// TestKeysPage checks that the help page has the keys of home; -update writes it.
func TestKeysPage(t *testing.T) {
	var table strings.Builder
	part := ""
	for _, k := range Doc() {
		if k.Part != part {
			part = k.Part
			fmt.Fprintf(&table, "\n## Home: %s\n\n| key | action |\n|---|---|\n", part)
		}
		fmt.Fprintf(&table, "| %-12s | %s |\n", "`"+k.Keys+"`", strings.TrimSuffix(k.About+": "+k.More, ": "))
	}
	golden.CompareSection(t, "../cli/help/keys.md", "home", table.String())
}
