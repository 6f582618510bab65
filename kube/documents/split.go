// Package documents reads the YAML documents of manifests: which there are, and
// what is in them, each text once.
package documents

import (
	"strings"
	"unicode"
)

const separator = "---"

// Split parts a manifest into its documents, in order, exactly as Helm's
// SplitManifests does, which also takes a separator that a document is glued to.
// Helm's goes through the text with a regular expression and makes a map of it,
// which took more time than what is then done with the parts.
func Split(manifest string) []string {
	var docs []string
	text := strings.TrimLeftFunc(manifest, unicode.IsSpace)
	from := 0 // where the present document begins
	add := func(to int) {
		if doc := strings.TrimLeftFunc(text[from:to], unicode.IsSpace); doc != "" {
			docs = append(docs, doc)
		}
	}
	for at := 0; ; {
		n := strings.Index(text[at:], separator)
		if n < 0 {
			add(len(text))
			return docs
		}
		if at += n; at > 0 && text[at-1] != '\n' { // only at the begin of a line
			at++
			continue
		}
		add(at)
		at += len(separator)
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t"))
		from = at
	}
}

// CutSource takes the comment that Helm writes above each object off a document.
func CutSource(doc string) (source, raw string) {
	line, rest, _ := strings.Cut(doc, "\n")
	source, ok := strings.CutPrefix(strings.TrimSpace(line), "# Source: ")
	if !ok {
		return "", doc
	}
	return source, rest
}
