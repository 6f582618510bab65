package mask

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-openapi/jsonpointer"
)

// Paths are the places of values that are secret whatever they are called, such as those of an encrypted file. A place is a
// JSON pointer (/db/password).
type Paths []string

// AddPaths adds the values of a release at paths, and remembers these: AddRelease then adds the values at the same places in each
// revision of the release. Paths of earlier calls still count.
func (m *Mask) AddPaths(namespace, release string, values map[string]any, paths Paths) {
	if m == nil || len(paths) == 0 {
		return
	}
	m.mu.Lock()
	if m.paths == nil {
		m.paths = map[string]Paths{}
	}
	known := m.paths[namespace+"/"+release]
	for _, p := range paths {
		if !slices.Contains(known, p) {
			known = append(slices.Clip(known), p)
		}
	}
	m.paths[namespace+"/"+release] = known
	m.mu.Unlock()
	m.AddSecrets(paths.in(values)...)
}

// PathsOf returns the places of the secret values of a release, as far as AddPaths has them.
func (m *Mask) PathsOf(namespace, release string) Paths {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paths[namespace+"/"+release]
}

// in returns the values at the paths.
func (p Paths) in(values map[string]any) (found []any) {
	for _, path := range p {
		pointer, err := jsonpointer.New(path)
		if err != nil {
			continue
		}
		if value, _, err := pointer.Get(values); err == nil && value != nil {
			found = append(found, value)
		}
	}
	return found
}

// PathsOf returns the places of all scalars in values.
func PathsOf(values map[string]any) (paths Paths) {
	Each(values, func(path string, scalar any) any {
		paths = append(paths, path)
		return scalar
	})
	return paths
}

// Each replaces each scalar in values by the result of a function, sorted by keys.
func Each(values map[string]any, replace func(path string, scalar any) any) {
	each("", values, replace)
}

func each(at string, v any, replace func(path string, scalar any) any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = each(at+"/"+jsonpointer.Escape(key), v[key], replace)
		}
	case []any:
		for n, e := range v {
			v[n] = each(at+"/"+strconv.Itoa(n), e, replace)
		}
	case nil:
	default:
		return replace(at, v)
	}
	return v
}
