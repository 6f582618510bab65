package charts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/mask"
)

// Mask returns a mask for the secret values of the release. It never hides the names of objects, groups and
// layers. It reads r as it is now, when it first hides something.
func (r *Rendered) Mask() *mask.Mask {
	now := *r
	return mask.Deferred(now.AddSecrets)
}

// AddSecrets adds the secret values and the names of the release to a mask.
func (r *Rendered) AddSecrets(m *mask.Mask) {
	m.AddRelease(r.Release)
	for _, o := range r.Resources {
		m.AddNames(o.Chart, o.Object.String(), o.Object.Kind, o.Object.Name, o.Annotations[plan.AnnotationGroup], o.Annotations[plan.AnnotationLayer])
	}
}

// HideValues masks the secret values of a chart in an error of its templates or its schema. Such an
// error may quote values although no Secret has been rendered yet.
func HideValues(c *Chart, values map[string]any, err error) error {
	return MaskOfValues(c, values).Error(err)
}

// MaskOfValues returns a mask for the secret values of a chart: those that are named like
// credentials, and those that its templates write into Secrets.
func MaskOfValues(c *Chart, values map[string]any) *mask.Mask {
	m := &mask.Mask{}
	m.AddNames(c.Name(), c.path)
	m.AddValues(values)
	if h, err := c.Helm(); err == nil {
		m.AddChartNames(h)
		m.AddValues(h.Values)
		m.AddSecrets(valuesOfSecrets(h, []map[string]any{values})...)
	}
	return m
}

var (
	secretKind = regexp.MustCompile(`\bkind"?: *"?Secret(List)?\b`)
	secretData = regexp.MustCompile(`\b(data|stringData)"?:`)
	valueName  = regexp.MustCompile(`\.Values((?:\.\w+)+)`)
	// otherValues matches the values that a template takes apart, and includedName the name of a template that it includes.
	otherValues  = regexp.MustCompile(`(?:\b(?:with|range)\b|:=)[^}]*`)
	includedName = regexp.MustCompile(`\b(?:include|template)\s+"([^"]+)"`)
	definition   = regexp.MustCompile(`{{-?\s*define\s+"([^"]+)"`)
	// publicValue matches the names of values that are not secret, although a template that a Secret includes uses them.
	publicValue = regexp.MustCompile(`(?i)(names?|override|host|domain|image|tag|registry|repository|port|version|labels|annotations|type|mode)$`)
)

// definitions returns the texts of the templates that a chart and its subcharts define, by name.
func definitions(c *chart.Chart, found map[string]string) map[string]string {
	for _, t := range c.Templates {
		text := string(t.Data)
		at := definition.FindAllStringSubmatchIndex(text, -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			found[text[m[2]:m[3]]] = text[m[1]:end]
		}
	}
	for _, sub := range c.Dependencies() {
		definitions(sub, found)
	}
	return found
}

// included returns a text, and those of all templates that it includes, which it removes from defined.
func included(text string, defined map[string]string) string {
	for _, m := range includedName.FindAllStringSubmatch(text, -1) {
		body := defined[m[1]]
		delete(defined, m[1])
		text += included(body, defined)
	}
	return text
}

// secretParts returns the scalars in a value, except those that are named as if they were not secret.
func secretParts(name string, v any) (found []any) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			found = append(found, secretParts(key, e)...)
		}
	case []any:
		for _, e := range v {
			found = append(found, secretParts(name, e)...)
		}
	default:
		if !publicValue.MatchString(name) {
			return []any{v}
		}
	}
	return found
}

// valuesOfSecrets returns the values that the templates of a chart and its subcharts use in the
// data of Secrets, also in other templates that they include there. It looks them up in valueMaps and in the chart's own values.
func valuesOfSecrets(c *chart.Chart, valueMaps []map[string]any) (found []any) {
	valueMaps = append(slices.Clone(valueMaps), c.Values)
	defined := definitions(c, map[string]string{})
	for _, t := range c.Templates {
		for doc := range strings.SplitSeq(string(t.Data), "\n---") {
			at := secretData.FindStringIndex(doc)
			if at == nil || !secretKind.MatchString(doc) {
				continue
			}
			data := doc[at[1]:]
			more := strings.Join(otherValues.FindAllString(doc, -1), "\n") + included(data, maps.Clone(defined))[len(data):]
			for _, values := range valueMaps {
				for _, m := range valueName.FindAllStringSubmatch(data, -1) {
					if v, ok := valueAt(values, m[1]); ok {
						found = append(found, v)
					}
				}
				for _, m := range valueName.FindAllStringSubmatch(more, -1) {
					if v, ok := valueAt(values, m[1]); ok {
						found = append(found, secretParts(m[1], v)...)
					}
				}
			}
		}
	}
	for _, sub := range c.Dependencies() {
		names := []string{sub.Name()}
		for _, d := range c.Metadata.Dependencies {
			if d.Name == sub.Name() && d.Alias != "" {
				names = append(names, d.Alias)
			}
		}
		var below []map[string]any
		for _, values := range valueMaps {
			for _, name := range names {
				if v, ok := values[name].(map[string]any); ok {
					below = append(below, v)
				}
			}
		}
		found = append(found, valuesOfSecrets(sub, below)...)
	}
	return found
}

// valueAt returns the value at a path such as .a.b.
func valueAt(values map[string]any, path string) (any, bool) {
	v, ok, _ := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")[1:]...)
	return v, ok
}

// HideSecrets hides the values of Secrets, including those that are hooks, in the output of Print. It
// replaces r.Release with a copy.
func (r *Rendered) HideSecrets() {
	for i, d := range r.Docs {
		if d.Object.GetKind() == "Secret" {
			r.Docs[i].Raw = withoutValues(d.Object)
		}
	}
	rel := *r.Release
	rel.Hooks = slices.Clone(rel.Hooks)
	copies := map[*release.Hook]*release.Hook{}
	for i, h := range rel.Hooks {
		copies[h] = h
		docs, _, _, err := parseDocuments(nil, nil, h.Manifest, r.Tree.Path, true)
		isSecret := func(d Document) bool { return d.Object.GetKind() == "Secret" }
		if err != nil || !slices.ContainsFunc(docs, isSecret) {
			continue
		}
		hidden := *h
		var texts []string
		for _, d := range docs { // several of a list
			if isSecret(d) {
				d.Raw = withoutValues(d.Object)
			}
			texts = append(texts, d.Raw)
		}
		hidden.Manifest = strings.Join(texts, "---\n")
		rel.Hooks[i], copies[h] = &hidden, &hidden
	}
	for i, h := range r.ScopedHooks {
		r.ScopedHooks[i].Hook = copies[h.Hook]
	}
	r.Release = &rel
}

// withoutValues returns a Secret in YAML, without its values.
func withoutValues(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	mask.Object(u.Object, nil)
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return fmt.Sprintf("# Secret not shown: %v\n", err)
	}
	return string(text)
}
