// Package help has the pages that "lockstep help PAGE" prints. Only ui/cli imports it; it imports
// nothing of lockstep.
package help

import (
	"embed"
	"path"
	"regexp"
	"strings"
	"sync"
)

//go:embed *.md
var files embed.FS

// Page is a page of help.
type Page struct {
	Name, Title string
	source      string
}

// comment matches an HTML comment, a separate line with the empty line after it.
var comment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?ms)^<!--.*?-->\n\n?| ?<!--.*?-->`) })

// Text returns the page in Markdown, without comments.
func (p Page) Text() string { return comment().ReplaceAllString(p.source, "") }

// Pages returns all pages, sorted by name. The first line of each file is its title.
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
		title, _, _ := strings.Cut(string(data[len("# "):]), "\n")
		pages = append(pages, Page{strings.TrimSuffix(e.Name(), path.Ext(e.Name())), title, string(data)})
	}
	return pages
}
