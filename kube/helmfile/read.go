package helmfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/text"
	"lockstep/kube/documents"
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
	return &located{p, fmt.Errorf(format, args...)}
}

// located is an error with its position in a helmfile.
type located struct {
	at  position
	err error
}

func (e *located) Error() string { return e.at.String() + ": " + e.err.Error() }

func (e *located) Unwrap() error { return e.err }

// Locate adds the position and the name of a release to an error, unless it has a position in a helmfile.
func Locate(at, id string, err error) error {
	if e := (*located)(nil); errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s: release %s: %w", at, id, err)
}

// wholeFile is what the top-level mapping of a helmfile is called in messages.
const wholeFile = "the helmfile"

// node is a value of a helmfile, with the file that contains it.
type node struct {
	*kyaml.Node
	path string
	// source is the file that helmfile build made a document from, "" if it does not say so.
	source string
	// ignored gets the unsupported keys that are ignored, nil for none (Options.Lenient).
	ignored *[]string
}

func (n *node) at() position { return position{n.path, n.Line} }

func (n *node) errorf(format string, args ...any) error { return n.at().errorf(format, args...) }

// of returns the node of a YAML value in the same file as n. It follows aliases.
func (n *node) of(value *kyaml.Node) *node {
	return &node{Node: documents.Resolve(value), path: n.path, ignored: n.ignored}
}

func (n *node) isNull() bool { return n == nil || n.Tag == "!!null" }

// parse parses the documents of a file.
func parse(path string, data []byte) (docs []*node, err error) {
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
		docs = append(docs, &node{Node: doc.Content[0], path: path})
	}
}

// needsHelmfile returns the position of the first template that only helmfile can expand, or nil, leaving out values of
// releases. In a file without the suffix .gotmpl, helmfile renders a few fields of releases as templates. Everything else
// is literal.
func needsHelmfile(docs []*node) *position {
	for _, doc := range docs {
		for key, value := range documents.Entries(doc.Node) {
			value = documents.Resolve(value)
			var found *kyaml.Node
			switch key.Value {
			case "defaultInherit":
				found = key
			case "releases":
				for _, release := range value.Content {
					if found == nil {
						found = releaseNeedsHelmfile(doc.of(release))
					}
				}
			case "environments":
				found = findScalar(value, isTemplateFile)
			}
			if found != nil {
				return &position{doc.path, found.Line}
			}
		}
	}
	return nil
}

// releaseNeedsHelmfile returns the first key or value of a release, except its values, that only helmfile can expand, or
// nil. It may be in a mapping that the release merges (<<).
func releaseNeedsHelmfile(release *node) (found *kyaml.Node) {
	own, err := release.entries("release") // an error is reported later
	if err != nil {
		return nil
	}
	for _, key := range []string{"name", "chart", "namespace", "version", "labels", "needs", "postRendererArgs"} {
		if value := own[key]; value != nil && found == nil {
			found = findScalar(value.Node, hasTemplate)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if isTemplateKey(key) && found == nil {
			found = own[key].Node
		}
	}
	return found
}

// valuesNeedHelmfile returns the first of a release's values that only helmfile can read, or nil: the name of a file with
// a template in it or in the file. Inline values are literal.
func valuesNeedHelmfile(own map[string]*node) *node {
	if n := own["values"]; n != nil {
		for _, item := range n.Content {
			v := n.of(item)
			if v.Kind == kyaml.ScalarNode && (hasTemplate(v.Value) || isTemplateFile(v.Value)) {
				return v
			}
		}
	}
	return nil
}

// isTemplateFile reports whether helmfile renders a file before it reads it.
func isTemplateFile(name string) bool { return strings.HasSuffix(name, ".gotmpl") }

// hasTemplate reports whether a text is a template.
func hasTemplate(text string) bool { return strings.Contains(text, "{{") }

// isTemplateKey reports whether a key of a release contains a template, or names one.
func isTemplateKey(key string) bool { return key == "inherit" || strings.HasSuffix(key, "Template") }

// isReference reports whether vals replaces text in a value with a secret.
func isReference(text string) bool { return reference.MatchString(text) }

var reference = regexp.MustCompile(`ref\+[^+:\s]*://`)

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

// mapping returns the entries of a mapping. It returns an error if a key is unknown, or unsupported and not empty. what
// names the mapping in errors.
func (n *node) mapping(what string, allowed keys) (map[string]*node, error) {
	fields, err := n.entries(what)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(fields[a].Line, fields[b].Line), strings.Compare(a, b))
	}) {
		at := fields[name].at()
		if key, _ := documents.Entry(n.Node, name); key != nil {
			at.line = key.Line
		}
		switch advice, known := allowed[name]; {
		case !known:
			return nil, at.errorf("unknown key %q in %s: helmfile %s has none; correct it, or see: "+text.Program+" help helmfile", name, what, knownVersion)
		case advice != "" && !fields[name].isEmpty() && (DefaultOf(name) == "" || fields[name].Value != DefaultOf(name)):
			refused := fmt.Errorf("lockstep does not support helmfile's %s; %s", name, advice)
			if what != wholeFile { // the position names the file
				refused = fmt.Errorf("%s: %w", what, refused)
			}
			harmless := slices.Contains(harmlessKeys, name)
			if harmless && n.ignored != nil {
				*n.ignored = append(*n.ignored, at.errorf("%s: %s has no effect: lockstep does not support it", what, name).Error())
				continue
			}
			if harmless {
				refused = fmt.Errorf("%w; or ignore it with --lenient", refused)
			}
			return nil, at.errorf("%w", refused)
		}
	}
	return fields, nil
}

// isEmpty reports whether a value is a zero value. helmfile build prints those for unset keys.
func (n *node) isEmpty() bool {
	if n.Kind != kyaml.ScalarNode {
		return len(n.Content) == 0
	}
	return n.isNull() || n.Value == "" || n.Value == "false" || n.Value == "0"
}

// entries returns the entries of a mapping, including those of merge keys (<<).
func (n *node) entries(what string) (map[string]*node, error) {
	n = n.of(n.Node)
	if n.isNull() {
		return nil, nil
	}
	if n.Kind != kyaml.MappingNode {
		return nil, n.errorf("%s must be a mapping", what)
	}
	fields := map[string]*node{}
	for key, value := range documents.Entries(n.Node) {
		if key.Value != "<<" {
			fields[key.Value] = n.of(value)
			continue
		}
		value = documents.Resolve(value)
		from := []*kyaml.Node{value}
		if value.Kind == kyaml.SequenceNode {
			from = value.Content
		}
		for _, f := range from {
			merged, err := n.of(f).entries(what)
			if err != nil {
				return nil, err
			}
			for k, v := range merged {
				if own, _ := documents.Entry(n.Node, k); own == nil && fields[k] == nil {
					fields[k] = v
				}
			}
		}
	}
	return fields, nil
}

// items returns the items of a list, nil for null.
func (n *node) items(what string) (items []*node, err error) {
	if n.isNull() {
		return nil, nil
	}
	if n.Kind != kyaml.SequenceNode {
		return nil, n.errorf("%s must be a list", what)
	}
	for _, item := range n.Content {
		items = append(items, n.of(item))
	}
	return items, nil
}

// decode decodes a value into a Go value.
func (n *node) decode(what string, into any) error {
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
	return n.errorf("%s must be %s", what, want)
}

// glob returns the files that match a path relative to a folder. missing is true if there are none.
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
