package board

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/ui/golden"
)

// TestKeysPage checks that the help page has the keys of the screen; -update writes it.
func TestKeysPage(t *testing.T) {
	golden.CompareSection(t, "../cli/help/keys.md", "keys", keyTable())
}

func keyTable() string {
	var b strings.Builder
	part := ""
	for _, k := range Keys() {
		if k.Part != part {
			fmt.Fprintf(&b, "\n## %s\n\n| key | action |\n|---|---|\n", strings.ToUpper(k.Part[:1])+k.Part[1:])
			part = k.Part
		}
		fmt.Fprintf(&b, "| %-12s | %s |\n", "`"+k.Keys+"`", strings.TrimSuffix(k.About+": "+k.More, ": "))
	}
	return b.String()
}
