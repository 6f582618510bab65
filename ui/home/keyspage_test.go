package home

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestKeysPage checks that the help page has the keys of home; -update writes it.
func TestKeysPage(t *testing.T) {
	const path, begin, end = "../cli/help/keys.md", "<!-- home -->\n", "<!-- /home -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section for the keys between %q and %q", path, begin, end)
	}
	var table strings.Builder
	part := ""
	for _, k := range Doc() {
		if k.Part != part {
			part = k.Part
			fmt.Fprintf(&table, "\n## Home: %s\n\n| key | action |\n|---|---|\n", part)
		}
		fmt.Fprintf(&table, "| %-12s | %s |\n", "`"+k.Keys+"`", strings.TrimSuffix(k.About+": "+k.More, ": "))
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the keys in %s differ from those of home; run the test with -update", path)
	}
}
