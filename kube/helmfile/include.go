package helmfile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// include reads the files of an entry in helmfiles.
func (r *reader) include(s *state, n *kyaml.Node, selectors, before []string) (*result, error) {
	i := include{path: n.Value, at: position{s.file[n], n.Line}, selectors: selectors}
	if n.Kind == kyaml.MappingNode {
		var err error
		if i, err = r.readInclude(s, n, selectors); err != nil {
			return nil, err
		}
	}
	if strings.Contains(i.path, "::") || strings.Contains(i.path, "://") {
		return nil, i.at.errorf("helmfiles: lockstep does not download %s; %s", i.path, useHelmfile)
	}
	entries, missing := glob(filepath.Dir(s.path), i.path)
	if handler := s.scalars["missingFileHandler"]; missing && (handler == "" || handler == "Error") {
		return nil, i.at.errorf("helmfiles: %s does not exist", i.path)
	}
	out := &result{}
	for _, entry := range entries {
		files, err := findFiles(entry)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.at, err)
		}
		start := len(out.releases)
		for _, file := range files { // files in a directory do not wait for each other
			f, err := r.readFile(file, i.over, nil, i.selectors, before)
			if err != nil {
				return nil, err
			}
			out.repositories = append(out.repositories, f.repositories...)
			out.releases = append(out.releases, f.releases...)
		}
		for _, rel := range out.releases[start:] {
			before = append(slices.Clone(before), rel.ID())
		}
	}
	return out, nil
}

// include is an entry of helmfiles. over is nil if it has no values.
type include struct {
	path      string
	at        position
	selectors []string
	over      map[string]any
}

func (r *reader) readInclude(s *state, n *kyaml.Node, selectors []string) (i include, err error) {
	i = include{at: position{s.file[n], n.Line}, selectors: selectors}
	fields, err := parseMapping(s.file[n], "helmfiles", n, helmfileKeys)
	if err != nil {
		return i, err
	}
	if fields["path"] == nil {
		return i, i.at.errorf("helmfiles: an entry needs a path")
	}
	i.path = fields["path"].Value
	if inherited := fields["selectorsInherited"]; fields["selectors"] != nil && (inherited == nil || inherited.Value != "true") {
		if err := decode(s.file[n], "selectors", fields["selectors"], &i.selectors); err != nil {
			return i, err
		}
	}
	sources, err := listItems(s.file[n], "values of helmfiles", fields["values"])
	for _, source := range sources {
		s.file[source] = s.file[n]
		more, err := s.loadValues(source, false)
		if err != nil {
			return i, err
		}
		i.over = loader.MergeMaps(i.over, more)
	}
	return i, err
}
