package helmfile

import (
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// include reads the files of an entry in helmfiles.
func (r *reader) include(s *state, n *node, selectors, after []string) (*result, error) {
	folder := filepath.Dir(s.path)
	i := include{path: n.Value, selectors: selectors}
	if n.Kind == kyaml.MappingNode {
		var err error
		if i, err = readInclude(folder, n, selectors); err != nil {
			return nil, err
		}
	}
	if strings.Contains(i.path, "::") || strings.Contains(i.path, "://") {
		return nil, n.errorf("helmfiles: lockstep does not download %s; %s", i.path, useHelmfile)
	}
	entries, missing := glob(folder, i.path)
	if missing && mustExist(s.scalars["missingFileHandler"]) {
		return nil, n.errorf("helmfiles: %s does not exist", i.path)
	}
	if missing {
		r.unread = append(r.unread, Unread{File: s.path, Missing: i.path})
	}
	out := &result{}
	for _, entry := range entries {
		files, err := findFiles(entry)
		if err != nil {
			return nil, n.errorf("%w", err)
		}
		start := len(out.releases)
		for _, file := range files { // files in a directory do not wait for each other
			f, err := r.readFile(file, i.values, nil, i.selectors, after)
			if err != nil {
				return nil, err
			}
			out.add(f)
		}
		after = append(slices.Clip(after), ids(out.releases[start:])...)
	}
	return out, nil
}

// include is an entry of helmfiles.
type include struct {
	path      string
	selectors []string
	values    map[string]any // nil if it has none
}

func readInclude(folder string, n *node, selectors []string) (i include, err error) {
	i = include{selectors: selectors}
	fields, err := n.mapping("helmfiles", helmfileKeys)
	if err != nil {
		return i, err
	}
	if fields["path"] == nil {
		return i, n.errorf("helmfiles: an entry needs a path")
	}
	i.path = fields["path"].Value
	if inherited := fields["selectorsInherited"]; fields["selectors"] != nil && (inherited == nil || inherited.Value != "true") {
		if err := fields["selectors"].decode("selectors", &i.selectors); err != nil {
			return i, err
		}
	}
	sources, err := fields["values"].items("values of helmfiles")
	for _, source := range sources {
		more, err := source.loadValues(folder, true)
		if err != nil {
			return i, err
		}
		i.values = loader.MergeMaps(i.values, more)
	}
	return i, err
}
