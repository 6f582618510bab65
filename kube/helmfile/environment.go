package helmfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// environment is an environment of a helmfile.
type environment struct {
	values, secrets             []*node
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
		secrets, err := keys["secrets"].items("secrets of environment " + name)
		if err != nil {
			return err
		}
		env := s.environments[name]
		env.values, env.secrets = append(env.values, values...), append(env.secrets, secrets...)
		if n := keys["kubeContext"]; n != nil {
			if err := n.decode("kubeContext of environment "+name, &env.context); err != nil {
				return err
			}
		}
		if n := keys["missingFileHandler"]; n != nil {
			env.missingFileHandler = n.Value
		}
		s.environments[name] = env
	}
	return nil
}

// mustExist reports whether a missingFileHandler makes missing files an error. That is the default.
func mustExist(missingFileHandler string) bool {
	return missingFileHandler == "" || missingFileHandler == "Error"
}

// environment merges the values of the file, those of the environment, and parentValues. The last one wins. Only conditions
// also have the secrets of the environment: hooks show their values.
func (r *reader) environment(s *state, parentValues map[string]any) (values, conditions map[string]any, err error) {
	values = map[string]any{}
	env := s.environments[r.Environment]
	for _, n := range slices.Concat(s.values, env.values) {
		more, err := n.loadValues(filepath.Dir(s.path), mustExist(env.missingFileHandler))
		if err != nil {
			return nil, nil, fmt.Errorf("values of environment %s: %w", r.Environment, err)
		}
		values = loader.MergeMaps(values, more)
	}
	conditions = values
	if len(env.secrets) > 0 && s.hasConditions() {
		secrets, err := r.environmentSecrets(s, env)
		if err != nil {
			return nil, nil, err
		}
		conditions = loader.MergeMaps(values, secrets)
	}
	return loader.MergeMaps(values, parentValues), loader.MergeMaps(conditions, parentValues), nil
}

// hasConditions reports whether releases have conditions that depend on values of the environment.
func (s *state) hasConditions() bool {
	return slices.ContainsFunc(s.releases, func(n *node) bool {
		own, err := n.entries("release")
		return err == nil && own["condition"] != nil && strings.HasSuffix(own["condition"].Value, ".enabled")
	})
}

// environmentSecrets decrypts the secrets of the environment.
func (r *reader) environmentSecrets(s *state, env environment) (map[string]any, error) {
	all := map[string]any{}
	for _, n := range env.secrets {
		what := "secrets of environment " + r.Environment
		files, missing := glob(filepath.Dir(s.path), n.Value)
		if missing && mustExist(env.missingFileHandler) {
			return nil, n.errorf("%s: file %s does not exist", what, n.Value)
		}
		for _, file := range files {
			content, err := r.programs.decrypt(r.ctx, n, file, what)
			if err != nil {
				return nil, err
			}
			all = loader.MergeMaps(all, content)
		}
	}
	return all, nil
}

// stateValues returns the values from the command line.
func (r *reader) stateValues() (map[string]any, error) {
	values := map[string]any{}
	for _, file := range r.StateValuesFiles {
		more, err := readValues(file, os.ReadFile)
		if err != nil {
			return nil, fmt.Errorf("--state-values-file: %w", err)
		}
		values = loader.MergeMaps(values, more)
	}
	return values, parseSets("--state-values-set", r.StateValuesSet, values)
}
