package preview

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"lockstep/engine/inspect"
	"lockstep/kube/manifest"
)

// compareFields returns the deepest fields that differ. It matches the elements of lists by the
// field that names them.
func compareFields(a, b map[string]any) []inspect.Field {
	var c comparison
	c.compareMaps("", a, b)
	return c
}

// comparison collects the fields that differ.
type comparison []inspect.Field

func (c *comparison) add(in string, lines ...string) {
	*c = append(*c, inspect.Field{In: in, Lines: lines})
}

func (c *comparison) compareMaps(in string, a, b map[string]any) {
	keys := map[string]any{}
	maps.Copy(keys, a)
	maps.Copy(keys, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		x, before := a[key]
		y, after := b[key]
		switch {
		case !before:
			c.add(in, signed("+", map[string]any{key: y})...)
		case !after:
			c.add(in, signed("-", map[string]any{key: x})...)
		case !reflect.DeepEqual(x, y):
			c.compareValues(in, key, x, y)
		}
	}
}

func (c *comparison) compareValues(in, key string, x, y any) {
	at := manifest.FieldPath(in, key)
	switch x := x.(type) {
	case map[string]any:
		if y, ok := y.(map[string]any); ok {
			c.compareMaps(at, x, y)
			return
		}
	case []any:
		if y, ok := y.([]any); ok {
			c.compareLists(at, x, y)
			return
		}
	case string:
		if y, ok := y.(string); ok && strings.Contains(x, "\n") && strings.Contains(y, "\n") {
			c.add(at, textDiff(x, y)...)
			return
		}
	}
	c.add(in, append(signed("-", map[string]any{key: x}), signed("+", map[string]any{key: y})...)...)
}

// compareLists compares lists element by element if the elements have names, otherwise as text.
func (c *comparison) compareLists(in string, x, y []any) {
	name := nameField(x, y)
	if name == "" {
		c.add(in, textDiff(toYAML(x), toYAML(y))...)
		return
	}
	before := len(*c)
	next := map[string]map[string]any{}
	for _, e := range y {
		m, _ := e.(map[string]any)
		next[fmt.Sprint(m[name])] = m
	}
	for _, e := range x {
		m, _ := e.(map[string]any)
		id := fmt.Sprint(m[name])
		if other, ok := next[id]; ok {
			c.compareMaps(in+"["+id+"]", m, other)
			delete(next, id)
		} else {
			c.add(in, signed("-", []any{m})...)
		}
	}
	for _, e := range y {
		m, _ := e.(map[string]any)
		if next[fmt.Sprint(m[name])] != nil {
			c.add(in, signed("+", []any{m})...)
		}
	}
	if len(*c) == before { // only the order differs
		c.add(in, textDiff(toYAML(x), toYAML(y))...)
	}
}

// nameFields are the fields that may name the elements of a list, in order of preference.
var nameFields = []string{"name", "mountPath", "containerPort", "port", "key", "ip", "host", "type"}

// nameField returns the first of nameFields whose values are unique in both lists, or "".
func nameField(x, y []any) string {
	for _, field := range nameFields {
		if isUnique(x, field) && isUnique(y, field) {
			return field
		}
	}
	return ""
}

// isUnique reports whether all elements of a list have a field, each with a different value.
func isUnique(list []any, field string) bool {
	seen := map[string]bool{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		id, ok := m[field]
		text := fmt.Sprint(id)
		if !ok || seen[text] {
			return false
		}
		seen[text] = true
	}
	return true
}

func toYAML(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Sprintln(v)
	}
	return string(out)
}

// signed returns a value as YAML with a sign in front of each line.
func signed(sign string, v any) []string {
	var out []string
	for line := range strings.Lines(toYAML(v)) {
		out = append(out, sign+strings.TrimRight(line, "\n"))
	}
	return out
}

// hunkHeader matches the header of a hunk in a unified diff.
var hunkHeader = regexp.MustCompile(`^@@ -\d+(?:,\d+)? \+(\d+)`)

// textDiff compares texts line by line. A hunk that does not start in line 1 is preceded by its
// line number.
func textDiff(x, y string) []string {
	oneNewline := func(s string) []byte { return []byte(strings.TrimRight(s, "\n") + "\n") }
	var out []string
	for line := range strings.Lines(string(diff.Diff("a", oneNewline(x), "b", oneNewline(y)))) {
		line = strings.TrimRight(line, "\n")
		switch m := hunkHeader.FindStringSubmatch(line); {
		case m != nil && m[1] != "1":
			out = append(out, "@line "+m[1])
		case m != nil:
			out = append(out, "@")
		case len(out) > 0: // after the file names
			out = append(out, line)
		}
	}
	if len(out) > 0 && out[0] == "@" {
		out = out[1:]
	}
	if len(out) == 0 { // only the trailing newlines differ
		newlines := func(s string) string { return fmt.Sprintf("%q", s[len(strings.TrimRight(s, "\n")):]) }
		return []string{"-" + newlines(x), "+" + newlines(y)}
	}
	return out
}
