package board

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestKeysPage checks that the help page has the keys of the screen; -update writes it.
func TestKeysPage(t *testing.T) {
	const path, begin, end = "../cli/help/keys.md", "<!-- keys -->\n", "<!-- /keys -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section for the keys between %q and %q", path, begin, end)
	}
	want := before + begin + keyTable() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the keys in %s differ from those of the screen; run the test with -update", path)
	}
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
