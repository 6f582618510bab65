package helmfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

func addEnvironments(s *state, path string, fields map[string]*kyaml.Node) error {
	if fields["environments"] == nil {
		return nil
	}
	all, err := mapEntries(path, "environments", fields["environments"])
	if err != nil {
		return err
	}
	for name, n := range all {
		env, err := parseMapping(path, "environment "+name, n, environmentKeys)
		if err != nil {
			return err
		}
		if s.environments[name] == nil {
			s.environments[name] = map[string][]*kyaml.Node{}
		}
		values, err := listItems(path, "values of environment "+name, env["values"])
		if err != nil {
			return err
		}
		for _, v := range values {
			s.file[v] = path
		}
		s.environments[name]["values"] = append(s.environments[name]["values"], values...)
		for _, key := range []string{"kubeContext", "missingFileHandler"} {
			if env[key] != nil {
				s.environments[name][key] = []*kyaml.Node{env[key]}
			}
		}
	}
	return nil
}

// environment merges the values of the file, then those of the environment, then those from the
// including file.
func (r *reader) environment(s *state, over map[string]any) (map[string]any, error) {
	values := map[string]any{}
	env := s.environments[r.Environment]
	lenient := false
	for _, handler := range env["missingFileHandler"] {
		lenient = handler.Value != "Error"
	}
	for _, n := range slices.Concat(s.values, env["values"]) {
		more, err := s.loadValues(n, lenient)
		if err != nil {
			return nil, fmt.Errorf("values of environment %s: %w", r.Environment, err)
		}
		values = loader.MergeMaps(values, more)
	}
	return loader.MergeMaps(values, over), nil
}

// loadValues reads inline values, or those of files relative to the helmfile.
func (s *state) loadValues(n *kyaml.Node, lenient bool) (map[string]any, error) {
	values := map[string]any{}
	if n.Kind == kyaml.MappingNode {
		return values, decode(s.file[n], "values", n, &values)
	}
	files, missing := glob(filepath.Dir(s.path), n.Value)
	if missing && !lenient {
		return nil, position{s.file[n], n.Line}.errorf("values file %s does not exist", n.Value)
	}
	for _, file := range files {
		more, err := readValues(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", position{s.file[n], n.Line}, err)
		}
		values = loader.MergeMaps(values, more)
	}
	return values, nil
}

func readValues(file string) (map[string]any, error) {
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, documents.ValuesError(file, err)
	}
	return values, nil
}

// stateValues returns the values from the command line.
func (r *reader) stateValues() (map[string]any, error) {
	values := map[string]any{}
	for _, file := range r.StateValuesFiles {
		more, err := readValues(file)
		if err != nil {
			return nil, fmt.Errorf("--state-values-file: %w", err)
		}
		values = loader.MergeMaps(values, more)
	}
	for _, set := range r.StateValuesSet {
		if err := parseSet(set, values); err != nil {
			return nil, fmt.Errorf("--state-values-set %s: %w", set, err)
		}
	}
	return values, nil
}
