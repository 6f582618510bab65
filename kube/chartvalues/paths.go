// Package chartvalues says what a new version of a chart does to somebody's values: which of them have no effect any more, which
// defaults change below them, and which values are required now (Compare). It reads values.yaml, values.schema.json and the
// templates of a chart and its subcharts, and renders nothing.
package chartvalues

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// path is the place of a value: its keys.
type path []string

var plainKey = regexp.MustCompile(`^[\w-]+$`)

// String returns the keys with dots between them. It quotes those that have more than letters, digits, "-" and "_".
func (p path) String() string {
	keys := slices.Clone(p)
	for i, key := range keys {
		if !plainKey.MatchString(key) {
			keys[i] = strconv.Quote(key)
		}
	}
	return strings.Join(keys, ".")
}

// with returns the path of a key below.
func (p path) with(keys ...string) path { return append(slices.Clip(p), keys...) }

// tree is a set of paths.
type tree struct {
	all  bool // all paths below are in it
	keys map[string]*tree
}

// at returns the tree below a path, which it adds.
func (t *tree) at(p path) *tree {
	for _, key := range p {
		if t.keys == nil {
			t.keys = map[string]*tree{}
		}
		if t.keys[key] == nil {
			t.keys[key] = &tree{}
		}
		t = t.keys[key]
	}
	return t
}

// add adds a path with everything below it.
func (t *tree) add(p path) { t.at(p).all = true }

// has reports whether a path is in the tree.
func (t *tree) has(p path) bool {
	for _, key := range p {
		if t.all {
			return true
		}
		if t = t.keys[key]; t == nil {
			return false
		}
	}
	return true
}

// merge adds all paths of another tree.
func (t *tree) merge(other *tree) {
	t.all = t.all || other.all
	for key, below := range other.keys {
		t.at(path{key}).merge(below)
	}
}

// addValues adds the paths of values. What is below a scalar, a list or an empty map is not known, so it is all in the tree.
func (t *tree) addValues(v any) {
	m, isMap := v.(map[string]any)
	if !isMap || len(m) == 0 {
		t.all = true
		return
	}
	for key, below := range m {
		t.at(path{key}).addValues(below)
	}
}

// leaves calls do for each value that is no map with keys, sorted by path.
func leaves(at path, values map[string]any, do func(path, any)) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		below, isMap := values[key].(map[string]any)
		if isMap && len(below) > 0 {
			leaves(at.with(key), below, do)
		} else {
			do(at.with(key), values[key])
		}
	}
}

// find returns the value at a path.
func find(values map[string]any, p path) (found any, ok bool) {
	found = values
	for _, key := range p {
		m, isMap := found.(map[string]any)
		if !isMap {
			return nil, false
		}
		if found, ok = m[key]; !ok {
			return nil, false
		}
	}
	return found, true
}
