// Package documents splits manifests into YAML documents (Split), parses them (Reader) and writes
// them (Write). It also has what charts, annotate and helmfile share: helpers for nodes of YAML
// (Entries, Resolve, Quote), and WriteAll for the files of users. All of kube may import it.
package documents

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v2"
)

const separator = "---"

// Write formats a parsed value (maps, lists, scalars) as YAML, as sigs.k8s.io/yaml does,
// but without its conversion through JSON, which only Go structs need.
func Write(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return string(text), err
}

// Split splits a manifest into documents, in order, exactly as Helm's SplitManifests does:
// text may follow a separator on its line. Helm's regular expression is too slow for
// large manifests.
func Split(manifest string) []string {
	var docs []string
	text := strings.TrimLeftFunc(manifest, unicode.IsSpace)
	from := 0 // start of the current document
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
		if at += n; at > 0 && text[at-1] != '\n' { // only at the start of a line
			at++
			continue
		}
		add(at)
		at += len(separator)
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t"))
		from = at
	}
}

// CutSource cuts off the comment that Helm writes at the top of each document.
func CutSource(doc string) (source, raw string) {
	line, rest, _ := strings.Cut(doc, "\n")
	source, ok := strings.CutPrefix(strings.TrimSpace(line), "# Source: ")
	if !ok {
		return "", doc
	}
	return source, rest
}
