// Package help has the pages that "lockstep help PAGE" prints. Packages ui/cli and its tests
// import it; it imports nothing of lockstep.
package help

import (
	"embed"
	"path"
	"regexp"
	"strings"
)

//go:embed *.md
var files embed.FS

// comment matches an HTML comment, and the whole line if nothing else is on it.
var comment = regexp.MustCompile(`(?m)^<!--.*?-->\n\n?| ?<!--.*?-->`)

// Page is a page of help.
type Page struct{ Name, Title, Text string }

// Pages returns all pages, sorted by name.
func Pages() (pages []Page) {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are embedded
	}
	for _, e := range entries {
		data, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		text := comment.ReplaceAllString(string(data), "")
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		pages = append(pages, Page{Name: strings.TrimSuffix(e.Name(), path.Ext(e.Name())), Title: title, Text: text})
	}
	return pages
}
