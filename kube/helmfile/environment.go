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

// environment is an environment of a helmfile.
type environment struct {
	values                      []*node
	context, missingFileHandler string
}

func addEnvironments(s *state, fields map[string]*node) error {
	if fields["environments"] == nil {
		return nil
	}
	all, err := fields["environments"].entries("environments")
	if err != nil {
		return err
	}
	for name, n := range all {
		keys, err := n.mapping("environment "+name, environmentKeys)
		if err != nil {
			return err
		}
		values, err := keys["values"].items("values of environment " + name)
		if err != nil {
			return err
		}
		env := s.environments[name]
		env.values = append(env.values, values...)
		if n := keys["kubeContext"]; n != nil {
			env.context = n.Value
		}
		if n := keys["missingFileHandler"]; n != nil {
			env.missingFileHandler = n.Value
		}
		s.environments[name] = env
	}
	return nil
}

// mustExist reports whether a handler of missing files makes them an error, which is the default.
func mustExist(missingFileHandler string) bool {
	return missingFileHandler == "" || missingFileHandler == "Error"
}

// environment merges the values of the file, then those of the environment, then those from the
// including file.
func (r *reader) environment(s *state, over map[string]any) (map[string]any, error) {
	values := map[string]any{}
	env := s.environments[r.Environment]
	for _, n := range slices.Concat(s.values, env.values) {
		more, err := n.loadValues(filepath.Dir(s.path), mustExist(env.missingFileHandler))
		if err != nil {
			return nil, fmt.Errorf("values of environment %s: %w", r.Environment, err)
		}
		values = loader.MergeMaps(values, more)
	}
	return loader.MergeMaps(values, over), nil
}

// loadValues reads inline values, or those of files relative to a folder.
func (n *node) loadValues(folder string, mustExist bool) (map[string]any, error) {
	values := map[string]any{}
	if n.Kind == kyaml.MappingNode {
		return values, n.decode("values", &values)
	}
	files, missing := glob(folder, n.Value)
	if missing && mustExist {
		return nil, n.errorf("values file %s does not exist", n.Value)
	}
	for _, file := range files {
		more, err := readValues(file)
		if err != nil {
			return nil, n.errorf("%w", err)
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
