package helmfile

import (
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/kube/patches"
)

// patchKeys are the keys of a release with patches, in the order in which helmfile applies them.
var patchKeys = []string{"jsonPatches", "strategicMergePatches"}

// patch is an entry of one of the patchKeys, as YAML.
type patch struct {
	at   position
	text string
}

// Patches returns the patches of an installed release, with the places of their errors. Files are read with read.
func (r Release) Patches(read readFile) (list []patches.Patch, err error) {
	for _, key := range patchKeys {
		texts, err := r.values.patches(key, read)
		if err != nil {
			return nil, err
		}
		for _, p := range texts {
			var more []patches.Patch
			where := p.at.String() + ": " + r.values.name + ": " + key
			if key == "jsonPatches" {
				more = make([]patches.Patch, 1)
				more[0], err = patches.JSON(where, []byte(p.text))
			} else {
				more, err = patches.StrategicMerge(where, []byte(p.text))
			}
			if err != nil {
				return nil, &located{p.at, err}
			}
			list = append(list, more...)
		}
	}
	return list, nil
}

// patches returns the patches under a key: mappings, or the content of files.
func (v *values) patches(key string, read readFile) (out []patch, err error) {
	what := v.name + ": " + key
	items, err := v.own[key].items(what)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		p := patch{at: item.at()}
		switch {
		case item.Kind == kyaml.MappingNode:
			if p.text, err = kyaml.String(item.Node); err != nil {
				return nil, item.errorf("%s: %w", what, err)
			}
		case hasTemplate(item.Value) || isTemplateFile(item.Value):
			return nil, item.errorf("%s: lockstep does not render templates of patches; write %s as plain YAML", what, item.Value)
		default:
			file, err := v.findFile(item, what, "file")
			if err != nil {
				return nil, err
			}
			if file == "" {
				continue
			}
			data, err := read(file)
			if err != nil {
				return nil, item.errorf("%s: %w", what, err)
			}
			p.text = string(data)
		}
		if isReference(p.text) {
			return nil, item.errorf("%s: lockstep does not resolve references (ref+) in patches; move them into the values of the chart", what)
		}
		out = append(out, p)
	}
	return out, nil
}

// packedPatches returns the patches of a release as Packed writes them.
func (r Release) packedPatches(read readFile) (map[string]any, error) {
	packed := map[string]any{}
	if r.values == nil {
		return packed, nil
	}
	for _, key := range patchKeys {
		texts, err := r.values.patches(key, read)
		if err != nil {
			return nil, err
		}
		var list []any
		for _, p := range texts {
			docs, err := parse(p.at.path, []byte(p.text))
			if err != nil {
				return nil, err
			}
			for _, doc := range docs {
				var whole any
				if err := doc.decode(key, &whole); err != nil {
					return nil, err
				}
				list = append(list, whole)
			}
		}
		if len(list) > 0 {
			packed[key] = list
		}
	}
	return packed, nil
}

// findFile returns the path of a file that an entry of a list names. It is "" if the file is missing and may be. kind is what
// the file is called in messages.
func (v *values) findFile(item *node, what, kind string) (string, error) {
	if item.Kind != kyaml.ScalarNode {
		return "", item.errorf("%s must be files or mappings", what)
	}
	files, missing := glob(v.folder, v.prefix+item.Value)
	switch {
	case missing && v.mustExist:
		return "", item.errorf("%s: %s %s does not exist", strings.TrimSuffix(what, ": values"), kind, item.Value)
	case len(files) > 1:
		return "", item.errorf("%s %s match %d files; name one", what, item.Value, len(files))
	case missing:
		return "", nil
	}
	return files[0], nil
}
