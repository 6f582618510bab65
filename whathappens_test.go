package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proof is a comment that names the package and the test, or the part of a test,
// that shows a line of the page.
var proof = regexp.MustCompile(`<!-- (\S+) (Test\w+)(?:/([^>]+))? -->`)

// TestWhatHappensIsTested checks that each line of the page "What happens when …"
// names a test that exists.
func TestWhatHappensIsTested(t *testing.T) {
	page, err := os.ReadFile("ui/cli/help/what-happens.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| event") {
			continue
		}
		lines++
		proofs := proof.FindAllStringSubmatch(line, -1)
		if len(proofs) == 0 {
			t.Errorf("no test is named for: %s", line)
		}
		for _, p := range proofs {
			if tests := testsOf(t, p[1]); !strings.Contains(tests, "func "+p[2]+"(") || p[3] != "" && !strings.Contains(tests, `"`+p[3]+`"`) {
				t.Errorf("%s has no test %s %s, which is to show: %s", p[1], p[2], p[3], line)
			}
		}
	}
	if lines < 10 {
		t.Errorf("the page has %d lines", lines)
	}
}

// testsOf is the text of a package's tests.
func testsOf(t *testing.T, dir string) (text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		part, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text += string(part)
	}
	return text
}
