package board

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReadmeKeys keeps the table of keys in README.md the one of the screen;
// -update writes it.
func TestReadmeKeys(t *testing.T) {
	const path, begin, end = "../../README.md", "<!-- keys -->\n", "<!-- /keys -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the keys between %q and %q", path, begin, end)
	}
	want := before + begin + keyTable() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the keys in %s are not those of the screen; write them anew with -update", path)
	}
}

func keyTable() string {
	var b strings.Builder
	b.WriteString("| key | does | |\n|---|---|---|\n")
	part := ""
	for _, k := range Keys() {
		shown := k.Part
		if shown == part {
			shown = ""
		}
		part = k.Part
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Keys, k.About, shown)
	}
	return b.String()
}
