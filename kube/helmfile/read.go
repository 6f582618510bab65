package helmfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// position is a line of a file.
type position struct {
	path string
	line int
}

func (p position) String() string {
	if p.path == "-" {
		return fmt.Sprintf("standard input:%d", p.line)
	}
	return fmt.Sprintf("%s:%d", p.path, p.line)
}

func (p position) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", p, fmt.Errorf(format, args...))
}

// parse parses the documents of a file.
func parse(path string, data []byte) (docs []*kyaml.Node, err error) {
	decoder := kyaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc kyaml.Node
		switch err := decoder.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, syntaxError(path, data, err)
		case len(doc.Content) == 0 || doc.Content[0].Tag == "!!null":
			continue
		}
		var whole any // fails for aliases that contain themselves or expand too much
		if err := doc.Decode(&whole); err != nil {
			return nil, syntaxError(path, data, err)
		}
		docs = append(docs, doc.Content[0])
	}
}

// needsHelmfile returns the first position that only helmfile can expand, or nil. In a file without
// the suffix .gotmpl, helmfile renders a few fields of releases as templates; everything else,
// including inline values, is literal.
func needsHelmfile(path string, docs []*kyaml.Node) *position {
	for _, doc := range docs {
		for i := 0; i+1 < len(doc.Content); i += 2 {
			key, value := doc.Content[i], resolve(doc.Content[i+1])
			switch {
			case key.Value == "defaultInherit":
				return &position{path, key.Line}
			case key.Value == "releases" && value.Kind == kyaml.SequenceNode:
				for _, release := range value.Content {
					if at := releaseNeedsHelmfile(path, resolve(release)); at != nil {
						return at
					}
				}
			case key.Value == "bases" || key.Value == "helmfiles" || key.Value == "environments":
				if n := findScalar(value, func(text string) bool { return strings.HasSuffix(text, ".gotmpl") && key.Value == "environments" }); n != nil {
					return &position{path, n.Line}
				}
			}
		}
	}
	return nil
}

// releaseNeedsHelmfile is needsHelmfile for a release.
func releaseNeedsHelmfile(path string, release *kyaml.Node) *position {
	for i := 0; i+1 < len(release.Content); i += 2 {
		key, value := release.Content[i], resolve(release.Content[i+1])
		var bad *kyaml.Node
		switch key.Value {
		case "name", "chart", "namespace", "version", "labels", "needs", "postRendererArgs":
			bad = findScalar(value, func(text string) bool { return strings.Contains(text, "{{") })
		case "values":
			for _, v := range value.Content {
				if v = resolve(v); v.Kind == kyaml.ScalarNode && (strings.Contains(v.Value, "{{") || strings.HasSuffix(v.Value, ".gotmpl")) {
					bad = v
				}
			}
			if bad == nil {
				bad = findScalar(value, isReference)
			}
		case "set", "setString":
			bad = findScalar(value, isReference)
		default:
			if key.Value == "inherit" || strings.HasSuffix(key.Value, "Template") {
				bad = key
			}
		}
		if bad != nil {
			return &position{path, bad.Line}
		}
	}
	return nil
}

// isReference reports whether helmfile would resolve a value with vals.
func isReference(text string) bool { return strings.HasPrefix(text, "ref+") }

// findScalar returns the first scalar that matches, or nil.
func findScalar(n *kyaml.Node, match func(text string) bool) *kyaml.Node {
	if n.Kind == kyaml.ScalarNode && match(n.Value) {
		return n
	}
	for _, c := range n.Content {
		if found := findScalar(c, match); found != nil {
			return found
		}
	}
	return nil
}

// parseMapping returns the entries of a mapping, and an error for keys that are not allowed.
func parseMapping(path, what string, n *kyaml.Node, allowed keys) (map[string]*kyaml.Node, error) {
	fields, err := mapEntries(path, what, n)
	if err != nil {
		return nil, err
	}
	for _, key := range sortedKeys(fields) {
		at := position{path, fields[key].Line}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				at.line = n.Content[i].Line
			}
		}
		switch advice, known := allowed[key]; {
		case !known:
			return nil, at.errorf("unknown key %q in %s; see: lockstep help helmfile", key, what)
		case advice != "" && !isEmpty(fields[key]):
			return nil, at.errorf("%s: lockstep does not support helmfile's %s; %s", what, key, advice)
		}
	}
	return fields, nil
}

// isEmpty reports whether a value is a zero value, which helmfile build prints for unset keys.
func isEmpty(n *kyaml.Node) bool {
	return n.Tag == "!!null" || n.Kind != kyaml.ScalarNode && len(n.Content) == 0 || n.Kind == kyaml.ScalarNode && (n.Value == "" || n.Value == "false" || n.Value == "0")
}

func sortedKeys(m map[string]*kyaml.Node) []string {
	all := make([]string, 0, len(m))
	for key := range m {
		all = append(all, key)
	}
	sort.Slice(all, func(i, j int) bool {
		return m[all[i]].Line < m[all[j]].Line || m[all[i]].Line == m[all[j]].Line && all[i] < all[j]
	})
	return all
}

func mapEntries(path, what string, n *kyaml.Node) (map[string]*kyaml.Node, error) {
	n = resolve(n)
	if n.Tag == "!!null" {
		return nil, nil
	}
	if n.Kind != kyaml.MappingNode {
		return nil, position{path, n.Line}.errorf("%s must be a mapping", what)
	}
	fields := map[string]*kyaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		if key.Value != "<<" {
			fields[key.Value] = value
			continue
		}
		from := []*kyaml.Node{value}
		if value.Kind == kyaml.SequenceNode {
			from = value.Content
		}
		for _, f := range from {
			merged, err := mapEntries(path, what, f)
			if err != nil {
				return nil, err
			}
			for k, v := range merged {
				if !slices.ContainsFunc(n.Content, func(c *kyaml.Node) bool { return c.Value == k }) && fields[k] == nil {
					fields[k] = v
				}
			}
		}
	}
	return fields, nil
}

// resolve follows aliases.
func resolve(n *kyaml.Node) *kyaml.Node {
	for n.Kind == kyaml.AliasNode {
		n = n.Alias
	}
	return n
}

// listItems returns the items of a sequence, or nil for null.
func listItems(path, what string, n *kyaml.Node) ([]*kyaml.Node, error) {
	if n == nil || resolve(n).Tag == "!!null" {
		return nil, nil
	}
	if n = resolve(n); n.Kind != kyaml.SequenceNode {
		return nil, position{path, n.Line}.errorf("%s must be a list", what)
	}
	out := slices.Clone(n.Content)
	for i := range out {
		out[i] = resolve(out[i])
	}
	return out, nil
}

// decode decodes a value into a Go value.
func decode(path, what string, n *kyaml.Node, into any) error {
	if err := n.Decode(into); err == nil {
		return nil
	}
	want := "a mapping"
	switch into.(type) {
	case *string:
		want = "a string"
	case *bool:
		want = "true or false"
	case *int:
		want = "a whole number"
	case *[]string:
		want = "a list of strings"
	case *map[string]string:
		want = "a mapping of strings"
	}
	return position{path, n.Line}.errorf("%s must be %s", what, want)
}

// glob returns the files that match a path relative to a directory. missing is true if none match.
func glob(folder, path string) (files []string, missing bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if _, err := os.Stat(path); err == nil {
		return []string{path}, false
	}
	files, _ = filepath.Glob(path) // an invalid pattern matches nothing
	return files, len(files) == 0
}
