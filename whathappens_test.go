package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proof is a comment in README.md that names the package and the test, or the
// part of a test, which show that a line is so.
var proof = regexp.MustCompile(`<!-- (\S+) (Test\w+)(?:/([^>]+))? -->`)

// TestWhatHappensIsTested ties each line of the README's "What happens when…" to
// a test that is there.
func TestWhatHappensIsTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "\n## What happens when…\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("README.md has no such section")
	}
	lines := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| what happens") {
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
		t.Errorf("the section has %d lines", lines)
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
