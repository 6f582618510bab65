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

// TestEveryRuleIsDecidedInOnePlace keeps the lines "// Rule R30: …", by which a
// reader finds where a rule is decided: each rule that is built has exactly one,
// in code that is no test, and is named by at least one test.
func TestEveryRuleIsDecidedInOnePlace(t *testing.T) {
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
		case !r.Built && len(at) > 0:
			t.Errorf("%s is not built yet, says engine/RULES.md, but is decided in %v", r.ID, at)
		case !r.Built:
		case len(at) > 1:
			t.Errorf("%s is decided in several places: %v", r.ID, at)
		case len(at) == 0:
			t.Errorf("no line says \"// Rule %s:\" where %s (%s) is decided", r.ID, r.ID, r.Title)
		case !tested[r.ID]:
			t.Errorf("no test names %s (%s)", r.ID, r.Title)
		}
	}
	for id, at := range markers {
		t.Errorf("%s, decided in %v, is not in engine/RULES.md", id, at)
	}
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
		case d.IsDir() || filepath.Ext(path) != ".go" || d.Name() == "rules_test.go": // what is about the rules as such proves none
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
