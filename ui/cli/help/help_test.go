package help

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPages checks that each page has a title and no comments, and that it names only pages that exist.
func TestPages(t *testing.T) {
	names := map[string]bool{"events": true, "reports": true, "rules": true}
	for _, p := range Pages() {
		names[p.Name] = true
		if !strings.HasPrefix(p.Text(), "# "+p.Title+"\n") || p.Title == "" {
			t.Errorf("%s has no title", p.Name)
		}
		if strings.Contains(p.Text(), "<!--") {
			t.Errorf("%s prints a comment", p.Name)
		}
	}
	named := regexp.MustCompile("lockstep help ([a-z-]+)")
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(Pages(), Page{Name: "README.md", source: string(readme)}) {
		for _, m := range named.FindAllStringSubmatch(p.Text(), -1) {
			if !names[m[1]] {
				t.Errorf("%s names the page %q, which does not exist", p.Name, m[1])
			}
		}
	}
}
