// Package help has the pages that "lockstep help PAGE" prints. Only ui/cli imports it; it imports
// nothing of lockstep.
package help

import (
	"embed"
	"path"
	"strings"
)

//go:embed *.md
var files embed.FS

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
		text := withoutComments(string(data))
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		pages = append(pages, Page{Name: strings.TrimSuffix(e.Name(), path.Ext(e.Name())), Title: title, Text: text})
	}
	return pages
}

// withoutComments removes HTML comments. A comment on a separate line is removed with that line and
// the empty line after it. Every command calls this at startup, so it compiles no regular expression.
func withoutComments(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "<!--")
		if !found {
			out.WriteString(text)
			return out.String()
		}
		_, after, _ := strings.Cut(rest, "-->")
		if before == "" || strings.HasSuffix(before, "\n") {
			after = strings.TrimPrefix(strings.TrimPrefix(after, "\n"), "\n")
		}
		out.WriteString(strings.TrimSuffix(before, " "))
		text = after
	}
}
