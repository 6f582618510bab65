// Package documents splits manifests into YAML documents (Split), parses them (Reader) and writes
// them (Write). It also has helpers that charts, annotate and helmfile share: for YAML nodes
// (Entries, Resolve, Quote), for YAML parsers' errors (SyntaxError), and for rewriting a user's
// files (WriteAll). All of kube may import it.
package documents

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	yamlv2 "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"lockstep/engine/parallel"
)

const separator = "---"

// Write formats a parsed value (maps, lists, scalars) as YAML. Unlike sigs.k8s.io/yaml, it does not
// convert the value to JSON first, because only Go structs need that.
func Write(value any) (string, error) {
	text, err := yamlv2.Marshal(value)
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

// CutSource cuts off the comment that Helm writes at the top of each document. source is the name of
// the template, "" if there is no such comment.
func CutSource(doc string) (source, raw string) {
	line, rest, _ := strings.Cut(doc, "\n")
	source, ok := strings.CutPrefix(strings.TrimSpace(line), "# Source: ")
	if !ok {
		return "", doc
	}
	return source, rest
}

// Reader parses documents and caches them: an operation reads the same text up to eight times, and
// parsing YAML dominates the cost. It caches JSON instead of objects because callers may modify
// the objects.
//
// It may be used by several goroutines. A nil Reader has no cache.
type Reader struct{ json sync.Map }

// Value is a parsed document, or the parser's error.
type Value struct {
	Value any // nil if the document has only comments
	Err   error
}

// ParseAll parses documents, in parallel, and returns their values in order.
func (r *Reader) ParseAll(docs []string) []Value {
	values := make([]Value, len(docs))
	parallel.Each(len(docs), func(i int) { values[i].Value, values[i].Err = r.Parse(docs[i]) })
	return values
}

// Parse parses one document.
func (r *Reader) Parse(doc string) (value any, err error) {
	if r == nil {
		return parse(doc)
	}
	if data, cached := r.json.Load(doc); cached {
		return value, json.Unmarshal(data.([]byte), &value)
	}
	if value, err = parse(doc); err != nil {
		return nil, err
	}
	data, err := json.Marshal(value)
	if err == nil {
		r.json.Store(doc, data)
	}
	return value, err
}

// parse parses a document as sigs.k8s.io/yaml does, but writes and reads JSON only if a value needs to be converted.
func parse(doc string) (value any, err error) {
	err = yamlv2.Unmarshal([]byte(doc), &value)
	if plain, ok := plainJSON(value); err == nil && ok {
		return plain, nil
	}
	data, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		return nil, fmt.Errorf("invalid YAML: %w", err)
	}
	value = nil
	return value, json.Unmarshal(data, &value)
}

// plainJSON returns a value of yamlv2 with the types of JSON, and false if that would convert more than types.
func plainJSON(v any) (any, bool) {
	switch v := v.(type) {
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			name, isString := key.(string)
			plain, ok := plainJSON(e)
			if !isString || !utf8.ValidString(name) || !ok {
				return nil, false
			}
			out[name] = plain
		}
		return out, true
	case []any:
		for i, e := range v {
			plain, ok := plainJSON(e)
			if !ok {
				return nil, false
			}
			v[i] = plain
		}
		return v, true
	case string:
		return v, utf8.ValidString(v)
	case int:
		return int64(v), true
	case bool, nil:
		return v, true
	}
	return nil, false
}
