package form

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestFormsPage checks that the help page has the keys of forms; -update writes it.
func TestFormsPage(t *testing.T) {
	const path, begin, end = "../../cli/help/forms.md", "<!-- keys -->\n", "<!-- /keys -->"
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
			fmt.Fprintf(&table, "\n## %s\n\n| key | action |\n|---|---|\n", strings.ToUpper(part[:1])+part[1:])
		}
		fmt.Fprintf(&table, "| %-12s | %s |\n", "`"+k.Keys+"`", k.About)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the keys in %s differ from those of the form; run the test with -update", path)
	}
}
