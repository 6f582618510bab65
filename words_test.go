package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// banned maps phrases that nobody would say to what to say instead. They are matched
// as whole words, in any case, across line breaks.
var banned = map[string]string{
	"anew":                   "again; restart",
	"once more":              "again",
	"is to be":               "must be; is",
	"are to be":              "must be; are",
	"of its own":             "its own; separate",
	"comes to its end":       "ends",
	"came to its end":        "ended",
	"that is so":             "it does; leave it out",
	"it says so":             "say what is printed",
	"in place of":            "instead of",
	"in its place":           "instead",
	"under way":              "running; in flight",
	"at work":                "running; using",
	"has become of":          "the outcome of; status",
	"becomes of":             "the outcome of; status",
	"became of":              "the outcome of; status",
	"looks whether":          "checks if",
	"look whether":           "check if",
	"looks what":             "checks",
	"look what":              "check",
	"looks at what":          "checks",
	"stand still":            "pause",
	"stands still":           "pauses",
	"as many as":             "any number of; up to",
	"for as many as like":    "any number of",
	"what is there":          "existing objects",
	"what was there":         "existing objects; the previous state",
	"what failed":            "the failed groups",
	"what has failed":        "the failed groups",
	"what cannot be":         "an invalid edit",
	"what is missing":        "name it",
	"what is in flight":      "requests in flight",
	"what it waits for":      "its dependencies",
	"there are none":         "no …",
	"nothing of":             "none of; no",
	"has ended with":         "exited with",
	"ends with code":         "exited with code",
	"ended with code":        "exited with code",
	"gone on from":           "resumed from",
	"goes on from":           "resumes from",
	"goes on":                "continues",
	"go on":                  "continue",
	"going on":               "continuing",
	"went on":                "continued",
	"give up what":           "leave … failed",
	"is given up":            "is aborted; times out",
	"cut off":                "interrupted; killed",
	"as mended":              "re-check",
	"mend":                   "fix",
	"leaves the screen":      "quits",
	"leave the screen":       "quit",
	"q leaves":               "press q to quit",
	"take away":              "remove",
	"takes away":             "removes",
	"taken away":             "removed",
	"take it away":           "remove it",
	"take them away":         "remove them",
	"left out of":            "removed from; omitted from",
	"for want of":            "because … is missing",
	"but for what":           "except",
	"brought by":             "created by; from",
	"brings no":              "has no",
	"nothing brings":         "nothing creates",
	"come in between":        "changed since",
	"begun":                  "started",
	"stands in its way":      "conflicts",
	"stand in its way":       "conflict",
	"stands in the way":      "conflicts",
	"has what it takes":      "can run the release; name the check",
	"whoever":                "say who does it",
	"it is waited":           "lockstep waits",
	"it is told":             "lockstep reports",
	"is told in":             "is reported in",
	"belongs together":       "name it",
	"on to the":              "to the; next",
	"on to where":            "next",
	"back to where":          "previous",
	"in want of":             "needs; lacks",
	"what stands":            "name it",
	"by and by":              "gradually",
	"installation of":        "install of",
	"is made of":             "is built from",
	"has to do with":         "concerns",
	"as ever":                "as usual",
	"half done":              "unfinished",
	"not those that":         "name it",
	"learnt":                 "read",
	"ought":                  "should",
	"whereof":                "of which",
	"thereof":                "of it",
	"in the end write":       "when it ends, write",
	"is at an end":           "has ended",
	"up to now":              "so far",
	"make up a name":         "generate a name",
	"it has none":            "say what is missing",
	"wants to":               "must; tries to",
	"by itself":              "automatically; the default",
	"what has changed":       "the changes",
	"what would change":      "the changes",
	"what would be done":     "the plan",
	"what is to be":          "the plan; the rest",
	"what is applied":        "applied objects",
	"what is sent":           "the objects sent",
	"what is left":           "the rest",
	"what was never started": "groups that never started",
	"what is still to come":  "pending groups",
	"what somebody":          "say who does what",
	"the letter of the":      "exactly as the … says",
}

// wordsIn matches any banned phrase.
var wordsIn = func() *regexp.Regexp {
	var parts []string
	for phrase := range banned {
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(phrase), " ", `\s+`))
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) }) // the longest match wins
	return regexp.MustCompile(`(?i)\b(` + strings.Join(parts, "|") + `)\b`)
}()

// TestWords keeps the texts that people read free of phrases that sound translated:
// all string literals, the Markdown files, and the golden screens and outputs.
func TestWords(t *testing.T) {
	check := func(path string, line int, text string) {
		for _, at := range wordsIn.FindAllStringIndex(text, -1) {
			phrase := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			t.Errorf("%s:%d: %q: say %q", path, line+strings.Count(text[:at[0]], "\n"), phrase, banned[strings.ToLower(phrase)])
		}
	}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case strings.Contains(path, "testdata/charts/"), strings.HasSuffix(path, "_test.go"):
			return nil
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			check(path, 1, string(text))
			return err
		case strings.HasSuffix(path, ".go"):
			return checkLiterals(path, check)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkLiterals passes the string literals of a file to check, without import paths and struct tags.
func checkLiterals(path string, check func(path string, line int, text string)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				text, err := strconv.Unquote(n.Value)
				if err == nil {
					check(path, files.Position(n.Pos()).Line, text)
				}
			}
		}
		return true
	})
	return nil
}
