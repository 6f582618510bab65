// Package help holds the pages that "lockstep help PAGE" prints and GitHub shows.
// It imports nothing of lockstep.
package help

import (
	"embed"
	"path"
	"regexp"
	"strings"
)

//go:embed *.md
var files embed.FS

// comment is an HTML comment; those alone on a line go with the line.
var comment = regexp.MustCompile(`(?m)^<!--.*?-->\n\n?| ?<!--.*?-->`)

// Page is one page of help.
type Page struct{ Name, Title, Text string }

// Pages are all pages, by name.
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
