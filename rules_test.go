package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockstep/engine"
)

var (
	ruleMarker = regexp.MustCompile(`(?m)^\s*// Rule ([RS][0-9]+[a-z]?):`)
	ruleCited  = regexp.MustCompile(`\b[RS][0-9]+[a-z]?\b`)
)

// TestEveryRuleIsImplementedInOnePlace: each rule has exactly one comment "// Rule R30: …" outside
// tests, where it is implemented, and at least one test names it.
func TestEveryRuleIsImplementedInOnePlace(t *testing.T) {
	markers, tested := map[string][]string{}, map[string]bool{}
	goFiles(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, id := range ruleCited.FindAllString(text, -1) {
				tested[id] = true
			}
			return
		}
		for _, m := range ruleMarker.FindAllStringSubmatch(text, -1) {
			markers[m[1]] = append(markers[m[1]], path)
		}
	})
	for _, r := range engine.Rules() {
		at := markers[r.ID]
		delete(markers, r.ID)
		switch {
		case len(at) > 1:
			t.Errorf("%s is implemented in several places: %v", r.ID, at)
		case len(at) == 0:
			t.Errorf("no comment \"// Rule %s:\" where %s is implemented", r.ID, r.Title)
		case !tested[r.ID]:
			t.Errorf("no test names %s (%s)", r.ID, r.Title)
		}
	}
	for id, at := range markers {
		t.Errorf("%s, implemented in %v, is not in engine/RULES.md", id, at)
	}
}

// TestCitedRulesExist: comments and texts cite only rules that engine/RULES.md has.
func TestCitedRulesExist(t *testing.T) {
	known := map[string]bool{}
	for _, r := range engine.Rules() {
		known[r.ID] = true
	}
	goFiles(t, func(path, text string) {
		for _, id := range ruleCited.FindAllString(text, -1) {
			if !known[id] && path != "engine/rules_test.go" {
				t.Errorf("%s cites %s, which is not in engine/RULES.md", path, id)
			}
		}
	})
}

// goFiles reads all Go files of the project.
func goFiles(t *testing.T, read func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || d.Name() == "rules_test.go": // it is about the rules themselves
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			read(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
