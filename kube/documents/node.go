package documents

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// Resolve follows aliases. It returns nil for nil.
func Resolve(n *kyaml.Node) *kyaml.Node {
	for n != nil && n.Kind == kyaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Entries yields the keys and values of a mapping as written, without resolving aliases or merge
// keys. It yields nothing for other nodes and for nil.
func Entries(m *kyaml.Node) iter.Seq2[*kyaml.Node, *kyaml.Node] {
	return func(yield func(key, value *kyaml.Node) bool) {
		for i := 0; m != nil && m.Kind == kyaml.MappingNode && i+1 < len(m.Content); i += 2 {
			if !yield(m.Content[i], m.Content[i+1]) {
				return
			}
		}
	}
}

// Entry returns a mapping's entry for a key, or nil. If the key occurs more than once, it returns the last entry, as Helm
// does.
func Entry(m *kyaml.Node, name string) (key, value *kyaml.Node) {
	for k, v := range Entries(m) {
		if k.Value == name {
			key, value = k, v
		}
	}
	return key, value
}

// Quote returns a string as YAML in single quotes.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// JSON returns a string as JSON without escaping <, > or &.
func JSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// JSONList returns names as a JSON array, without its brackets: "db", "queue".
func JSONList(names []string) string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = JSON(name)
	}
	return strings.Join(items, ", ")
}

// JSONLists returns lists of names by name as a JSON object: {"api": ["db", "queue"]}.
func JSONLists(lists map[string][]string) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		items = append(items, JSON(name)+": ["+JSONList(lists[name])+"]")
	}
	return "{" + strings.Join(items, ", ") + "}"
}
