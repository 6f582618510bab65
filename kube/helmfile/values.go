package helmfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// values are a release's values as its file lists them. Files are opened only by Merge.
type values struct {
	name      string           // of the release, for errors
	own       map[string]*node // of the release: values, secrets, set, setString and patches
	folder    string
	prefix    string // valuesPathPrefix
	mustExist bool
	programs  *programs
	// embedded returns what helmfile makes of own. It is nil in the output of helmfile build.
	embedded embedded
}

// source is a source of values: a mapping, or a single value.
type source struct {
	inline map[string]any
	set    Set
	secret mask.Paths // the places of its secret values
	at     position
}

// Set is the equivalent of Helm's --set, --set-string or --set-file.
type Set struct {
	Name, Value string
	String      bool   // as with --set-string
	File        string // as with --set-file; Value is then ""
}

// sources returns the sources of the values: files and inline values, then secrets, then set and setString.
func (v *values) sources(ctx context.Context, read readFile) ([]source, error) {
	own := v.own
	if at := valuesNeedHelmfile(own); at != nil {
		return v.expanded(ctx, at.at(), read)
	}
	items, err := own["values"].items(v.name + ": values")
	if err != nil {
		return nil, err
	}
	var out []source
	for _, item := range items {
		file, content, err := v.load(item, read)
		switch {
		case err != nil:
			return nil, err
		case content != nil && file != "" && v.embedded != nil && mentions(content, isReference) && onlyHelmfile():
			return v.expanded(ctx, item.at(), read)
		case content != nil:
			out = append(out, source{inline: content, at: item.at()})
		}
	}
	secrets, err := v.secretSources(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, secrets...)
	for _, key := range []string{"set", "setString"} {
		sets, err := v.setSources(key, own[key])
		if err != nil {
			return nil, err
		}
		out = append(out, sets...)
	}
	return out, v.resolve(ctx, out)
}

// expanded returns the sources after helmfile has expanded them. at is the position of the first template or reference.
func (v *values) expanded(ctx context.Context, at position, read readFile) ([]source, error) {
	if v.embedded == nil {
		return nil, at.errorf("%s: its values have templates that helmfile build has not expanded; use: helmfile build --embed-values", v.name)
	}
	own, err := v.embedded(ctx, at)
	if err != nil {
		return nil, err
	}
	own = maps.Clone(own)
	if secrets := v.own["secrets"]; secrets != nil && findScalar(secrets.Node, hasTemplate) == nil {
		own["secrets"] = secrets // helmfile sorts the keys of encrypted files, which sops refuses
	}
	again := *v
	again.own, again.embedded = own, nil
	return again.sources(ctx, read)
}

// load returns inline values, or reads a values file. Both results are empty if the file is missing and may be.
func (v *values) load(item *node, read readFile) (file string, content map[string]any, err error) {
	switch {
	case item.Kind == kyaml.MappingNode:
		content, err = item.inline(v.name + ": values")
		return "", content, err
	case strings.Contains(item.Value, "://"):
		return "", nil, item.errorf("%s: lockstep does not download values %s; %s", v.name, item.Value, useHelmfile)
	}
	file, err = v.findFile(item, v.name+": values", "values file")
	if err != nil || file == "" {
		return "", nil, err
	}
	content, err = readValues(file, read)
	return file, content, err
}

// mentions reports whether a string in values matches.
func mentions(value any, match func(string) bool) bool {
	switch v := value.(type) {
	case string:
		return match(v)
	case map[string]any:
		for _, x := range v {
			if mentions(x, match) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return mentions(x, match) })
	}
	return false
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
func (v *values) setSources(key string, list *node) (out []source, err error) {
	what := v.name + ": " + key
	items, err := list.items(what)
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
			return nil, item.errorf("%s: an entry of %s needs a name", v.name, key)
		}
		entry := Set{Name: set.Name, Value: escapeSet.Replace(set.Value), String: key == "setString"}
		switch {
		case set.Value != "":
		case set.File != "" && key == "set":
			files, missing := glob(v.folder, set.File)
			if missing {
				return nil, item.errorf("%s: file %s does not exist", what, set.File)
			}
			entry.File = files[0]
		case len(set.Values) > 0:
			for i, x := range set.Values {
				set.Values[i] = escapeSet.Replace(x)
			}
			entry.Value = "{" + strings.Join(set.Values, ",") + "}"
		default:
			continue // as helmfile does
		}
		out = append(out, source{set: entry, at: item.at()})
	}
	return out, nil
}

// readFile is os.ReadFile, or counts what it reads.
type readFile = func(path string) ([]byte, error)

// Merge merges the values of an installed release in order, then more, which are arguments of --set. Files are read with
// read. secret are the places of values that sops or vals has decrypted.
func (r Release) Merge(ctx context.Context, more []string, read readFile) (out map[string]any, secret mask.Paths, err error) {
	if r.values == nil {
		return nil, nil, fmt.Errorf("%s: release %s takes no part and has no values", r.At, r.ID())
	}
	sources, err := r.values.sources(ctx, read)
	if err != nil {
		return nil, nil, err
	}
	out, secret = map[string]any{}, slices.Clone(r.secretPaths)
	for _, v := range sources {
		secret = append(secret, v.secret...)
		if v.inline != nil {
			out = loader.MergeMaps(out, v.inline)
		} else if err := v.set.apply(out, read); err != nil {
			return nil, nil, fmt.Errorf("set %s: %w", v.set.Name, err)
		}
	}
	slices.Sort(secret)
	return out, slices.Compact(secret), parseSets("--set", more, out)
}

// parseSets adds the arguments of a flag to values.
func parseSets(name string, arguments []string, values map[string]any) error {
	flag := documents.SetFlag{Name: name, Arguments: arguments, Parse: strvals.ParseInto}
	for _, set := range arguments {
		if err := flag.Parse(set, values); err != nil {
			return flag.Error(values, err)
		}
	}
	return nil
}

// escapeSet escapes commas and braces in a value.
var escapeSet = strings.NewReplacer(",", `\,`, "{", `\{`, "}", `\}`)

// apply sets the value in values.
func (s Set) apply(values map[string]any, read readFile) error {
	value := s.Value
	flag := documents.SetFlag{Name: "set", Parse: strvals.ParseInto}
	switch {
	case s.File != "":
		value = s.File
		flag.Parse = func(text string, to map[string]any) error {
			return strvals.ParseIntoFile(text, to, func(rs []rune) (any, error) {
				data, err := read(string(rs))
				return string(data), err
			})
		}
	case s.String:
		flag.Name, flag.Parse = "setString", strvals.ParseIntoString
	}
	flag.Arguments = []string{s.Name + "=" + value}
	err := flag.Parse(flag.Arguments[0], values)
	if file := (*fs.PathError)(nil); err == nil || errors.As(err, &file) {
		return err
	}
	return flag.Error(values, err)
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
		more, err := readValues(file, os.ReadFile)
		if err != nil {
			return nil, n.errorf("%w", err)
		}
		values = loader.MergeMaps(values, more)
	}
	return values, nil
}

func readValues(file string, read readFile) (map[string]any, error) {
	data, err := read(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file, documents.ExactSuffix) { // of Release.ValuesFile
		return documents.DecodeExact(string(data))
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, documents.ValuesError(file, data, err)
	}
	return values, nil
}
