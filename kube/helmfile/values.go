package helmfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

// ValuesSource is a source of a release's values: a file, inline values, or a single value as with Helm's --set. Only one
// field is set.
type ValuesSource struct {
	File   string
	Inline map[string]any
	Set    Set
}

// Set is the equivalent of Helm's --set, --set-string or --set-file.
type Set struct {
	Name, Value string
	String      bool   // as with --set-string
	File        string // as with --set-file; Value is then ""
}

// valuesSources returns the sources of a release's values: files and inline values, then set and setString.
func (r *reader) valuesSources(s *state, f *fields, folder string) (out []ValuesSource, err error) {
	items, err := f.own["values"].items(f.name + ": values")
	if err != nil {
		return nil, err
	}
	handler := cmp.Or(f.text("missingFileHandler"), s.scalars["missingFileHandler"])
	for _, item := range items {
		if item.Kind == kyaml.MappingNode {
			values, err := item.inline(f.name + ": values")
			if err != nil {
				return nil, err
			}
			out = append(out, ValuesSource{Inline: values})
			continue
		}
		if item.Kind != kyaml.ScalarNode {
			return nil, item.errorf("%s: values must be files or mappings", f.name)
		}
		if strings.Contains(item.Value, "://") {
			return nil, item.errorf("%s: lockstep does not download values %s; %s", f.name, item.Value, useHelmfile)
		}
		files, missing := glob(folder, item.Value)
		if missing && mustExist(handler) {
			return nil, item.errorf("%s: values file %s does not exist", f.name, item.Value)
		}
		if len(files) > 1 {
			return nil, item.errorf("%s: values %s match %d files; name one", f.name, item.Value, len(files))
		}
		for _, file := range files {
			out = append(out, ValuesSource{File: file})
		}
	}
	for _, key := range []string{"set", "setString"} {
		sets, err := f.setSources(key, folder)
		if err != nil {
			return nil, err
		}
		out = append(out, sets...)
	}
	return out, nil
}

// inline decodes inline values with the types that they have if helmfile passes them to Helm in a file: a date, for
// example, becomes a string with a time.
func (n *node) inline(what string) (map[string]any, error) {
	var values map[string]any
	if err := n.decode(what, &values); err != nil {
		return nil, err
	}
	text, err := kyaml.Marshal(values)
	if err == nil {
		values = map[string]any{}
		err = yaml.Unmarshal(text, &values)
	}
	if err != nil {
		return nil, n.errorf("%s: %w", what, err)
	}
	return values, nil
}

// setSources returns the entries of set or setString.
func (f *fields) setSources(key, folder string) (out []ValuesSource, err error) {
	what := f.name + ": " + key
	items, err := f.own[key].items(what)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if _, err := item.mapping(what, setKeys); err != nil {
			return nil, err
		}
		var set struct {
			Name, Value, File string
			Values            []string
		}
		if err := item.decode(what, &set); err != nil {
			return nil, err
		}
		if set.Name == "" {
			return nil, item.errorf("%s: an entry of %s needs a name", f.name, key)
		}
		source := Set{Name: set.Name, Value: escapeSet.Replace(set.Value), String: key == "setString"}
		switch {
		case set.Value != "":
		case set.File != "" && key == "set":
			files, missing := glob(folder, set.File)
			if missing {
				return nil, item.errorf("%s: file %s does not exist", what, set.File)
			}
			source.File = files[0]
		case len(set.Values) > 0:
			for i, v := range set.Values {
				set.Values[i] = escapeSet.Replace(v)
			}
			source.Value = "{" + strings.Join(set.Values, ",") + "}"
		default:
			continue // as helmfile does
		}
		out = append(out, ValuesSource{Set: source})
	}
	return out, nil
}

// Merge merges the values of a release in order, then more, which are arguments of --set. read reads the files of Set.
func (r Release) Merge(more []string, read func(path string) ([]byte, error)) (map[string]any, error) {
	out := map[string]any{}
	for _, v := range r.Values {
		switch {
		case v.Inline != nil:
			out = loader.MergeMaps(out, v.Inline)
		case v.File != "":
			values, err := readValues(v.File)
			if err != nil {
				return nil, err
			}
			out = loader.MergeMaps(out, values)
		case v.Set.Name != "":
			if err := v.Set.apply(out, read); err != nil {
				return nil, fmt.Errorf("set %s: %w", v.Set.Name, err)
			}
		}
	}
	for _, set := range more {
		if err := parseSet(set, out); err != nil {
			return nil, fmt.Errorf("--set %s: %w", set, err)
		}
	}
	return out, nil
}

// escapeSet escapes commas and braces in a value.
var escapeSet = strings.NewReplacer(",", `\,`, "{", `\{`, "}", `\}`)

// apply sets the value in values.
func (s Set) apply(values map[string]any, read func(path string) ([]byte, error)) error {
	if s.File != "" {
		return strvals.ParseIntoFile(s.Name+"="+s.File, values, func(rs []rune) (any, error) {
			data, err := read(string(rs))
			return string(data), err
		})
	}
	if s.String {
		return strvals.ParseIntoString(s.Name+"="+s.Value, values)
	}
	return parseSet(s.Name+"="+s.Value, values)
}

func parseSet(set string, values map[string]any) error {
	if !strings.Contains(set, "=") {
		return errors.New("use key=value")
	}
	return strvals.ParseInto(set, values)
}

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

// mustExist reports whether a missingFileHandler makes missing files an error. That is the default.
func mustExist(missingFileHandler string) bool {
	return missingFileHandler == "" || missingFileHandler == "Error"
}

// environment merges the values of the file, those of the environment, and parentValues. The last one wins.
func (r *reader) environment(s *state, parentValues map[string]any) (map[string]any, error) {
	values := map[string]any{}
	env := s.environments[r.Environment]
	for _, n := range slices.Concat(s.values, env.values) {
		more, err := n.loadValues(filepath.Dir(s.path), mustExist(env.missingFileHandler))
		if err != nil {
			return nil, fmt.Errorf("values of environment %s: %w", r.Environment, err)
		}
		values = loader.MergeMaps(values, more)
	}
	return loader.MergeMaps(values, parentValues), nil
}

// loadValues returns inline values, or reads values files relative to a folder.
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
		return nil, documents.ValuesError(file, data, err)
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
