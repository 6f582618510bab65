package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	linked = regexp.MustCompile(`\]\(([^)#:]+)\)`)
	goName = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)$`)
	method = regexp.MustCompile(`^([A-Z]\w*)\.([A-Z]\w*)$`)
	folder = regexp.MustCompile(`^(engine|kube|ui|testdata|theme|\.ci)(/[\w.-]+)*$`)
	goFile = regexp.MustCompile(`^[\w/.-]+\.(go|md)$`)
)

// TestDocsNameWhatExists checks the folders, files, links and Go names of the documents
// for contributors, and the links of the README.
func TestDocsNameWhatExists(t *testing.T) {
	code := map[string]string{} // the Go code of each package, by its name
	goFiles(t, func(path, text string) {
		name := filepath.Base(filepath.Dir(path))
		code[name] += text
		code[""] += text
	})
	declares := func(pkg, pattern string) bool { return regexp.MustCompile(pattern).MatchString(code[pkg]) }
	for _, file := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linked.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(string(data), -1) {
			exists := true
			switch name := m[1]; {
			case folder.MatchString(name) || goFile.MatchString(name):
				_, err := os.Stat(name)
				exists = err == nil
			case goName.MatchString(name):
				n := goName.FindStringSubmatch(name)
				exists = declares(n[1], `(?m)^(func|type) `+n[2]+`\b|^\t`+n[2]+` +=`)
			case method.MatchString(name):
				n := method.FindStringSubmatch(name)
				exists = declares("", `(?m)^func \(\w+ \*?`+n[1]+`\) `+n[2]+`\(`)
			case strings.HasPrefix(name, "Test"):
				exists = declares("", `(?m)^func `+name+`\(`)
			}
			if !exists {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
}
