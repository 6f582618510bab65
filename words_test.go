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
	"told of":                "reported",
	"taken away from":        "removed from",
	"are begun":              "are started",
	"has brought":            "has created; created",
	"have brought":           "created",
	"comes about":            "happens",
	"come about":             "happen",
	"nobody knows":           "unknown",
	"somebody else's work":   "by another run",
	"of all makes":           "of many forms",
	"such as are":            "those that are",
	"at the most":            "at most",
	"cut short":              "interrupted",
	"how manieth":            "the n-th",
	"has come of":            "the result of",
	"takes the place":        "replaces",
	"took its place":         "replaced it",
	"left alone":             "not changed",
	"what was planned":       "the plan",
	"what was sent":          "the request",
	"what is known":          "the facts; name it",
	"what is gone":           "removed objects",
	"what goes":              "removed objects",
	"what comes":             "name it",
	"what stays":             "kept objects",
	"it is said":             "lockstep reports",
	"is made again":          "is created again",
	"has the turn":           "runs; holds the slot",
}

// bannedInComments are checked in the comments of all Go files, tests included.
var bannedInComments = map[string]string{
	"taken away":           "removed; deleted",
	"was begun":            "was started",
	"are begun":            "are started",
	"is brought":           "is created; is applied",
	"brings to the":        "creates in the",
	"is gone on":           "continues",
	"comes about":          "happens",
	"come about":           "happen",
	"keeps silent":         "prints nothing",
	"nobody knows":         "unknown",
	"somebody else's work": "by another run",
	"of all makes":         "of many forms",
	"such as are":          "those that are",
	"goes by itself":       "is deleted automatically",
	"has come of":          "the result of",
	"comes of it":          "the result",
	"took its place":       "replaced it",
	"to be mended":         "to be fixed",
	"what was planned":     "the plan",
	"what has failed":      "the failed groups",
	"what is gone":         "removed objects",
	"as it was found":      "unchanged",
	"is not up to":         "does not decide",
	"from beside":          "by polling",
	"has the turn":         "runs; holds the slot",
	"is made again":        "is created again",
	"it is said":           "lockstep reports",
}

var wordsIn, wordsInComments = matcher(banned), matcher(bannedInComments)

// matcher returns an expression that matches any of the phrases.
func matcher(phrases map[string]string) *regexp.Regexp {
	var parts []string
	for phrase := range phrases {
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(phrase), " ", `\s+`))
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) }) // the longest match wins
	return regexp.MustCompile(`(?i)\b(` + strings.Join(parts, "|") + `)\b`)
}

// TestWords keeps the texts that people read free of phrases that sound translated:
// all string literals and comments, the Markdown files, and the golden screens and outputs.
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
		case strings.Contains(path, "testdata/charts/"):
			return nil
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			check(path, 1, string(text))
			return err
		case strings.HasSuffix(path, ".go"):
			return checkGo(t, path, check)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkGo checks the comments of a file, and passes its string literals to check, without
// import paths, struct tags and the literals of tests.
func checkGo(t *testing.T, path string, check func(path string, line int, text string)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	for _, c := range file.Comments {
		if phrase := wordsInComments.FindString(c.Text()); phrase != "" {
			phrase = strings.ToLower(strings.Join(strings.Fields(phrase), " "))
			t.Errorf("%s: %q: say %q", files.Position(c.Pos()), phrase, bannedInComments[phrase])
		}
	}
	if strings.HasSuffix(path, "_test.go") {
		return nil
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
