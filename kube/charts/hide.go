package charts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/mask"
)

// Mask hides the values of what was rendered, but for the names of objects and groups.
func (r *Rendered) Mask() *mask.Mask {
	m := &mask.Mask{}
	m.Release(r.Release)
	for _, o := range r.Resources {
		m.Public(o.Chart, o.Object.String(), o.Annotations[plan.AnnotationGroup])
	}
	return m
}

// HideValues hides the secret values of a chart in an error: templates and schemas
// quote them, before there is a Secret that has them.
func HideValues(c *Chart, values map[string]any, err error) error {
	return MaskOfValues(c, values).Error(err)
}

// MaskOfValues hides what is secret among the values of a chart: what is called like a
// credential, and what its templates put into Secrets.
func MaskOfValues(c *Chart, values map[string]any) *mask.Mask {
	m := &mask.Mask{}
	m.Values(values)
	if h, err := c.Helm(); err == nil {
		m.Values(h.Values)
		m.Secrets(valuesOfSecrets(h, []map[string]any{values})...)
	}
	return m
}

var (
	secretKind = regexp.MustCompile(`\bkind"?: *"?Secret\b`)
	secretData = regexp.MustCompile(`\b(data|stringData)"?:`)
	valueName  = regexp.MustCompile(`\.Values((?:\.\w+)+)`)
)

// valuesOfSecrets are the values that the templates of a chart and its subcharts name
// where they write the data of Secrets. The values of scopes go over those of the chart.
func valuesOfSecrets(c *helmchart.Chart, scopes []map[string]any) (found []any) {
	scopes = append(slices.Clone(scopes), c.Values)
	for _, t := range c.Templates {
		for doc := range strings.SplitSeq(string(t.Data), "\n---") {
			at := secretData.FindStringIndex(doc)
			if at == nil || !secretKind.MatchString(doc) {
				continue
			}
			for _, m := range valueName.FindAllStringSubmatch(doc[at[1]:], -1) {
				for _, values := range scopes {
					if v, ok, _ := unstructured.NestedFieldNoCopy(values, strings.Split(m[1], ".")[1:]...); ok {
						found = append(found, v)
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
		for _, values := range scopes {
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

// HideSecrets hides the values of Secrets in what Print writes, those that are
// hooks included. The release is a copy then.
func (r *Rendered) HideSecrets() {
	for i, d := range r.Docs {
		if d.Object.GetKind() == "Secret" {
			r.Docs[i].Raw = withoutValues(d.Object)
		}
	}
	rel := *r.Release
	rel.Hooks = slices.Clone(rel.Hooks)
	of := map[*release.Hook]*release.Hook{}
	for i, h := range rel.Hooks {
		of[h] = h
		docs, _, _, err := parseManifest(nil, h.Manifest, r.Tree.Path, true)
		if err != nil || len(docs) != 1 || docs[0].Object.GetKind() != "Secret" {
			continue
		}
		hidden := *h
		hidden.Manifest = withoutValues(docs[0].Object)
		rel.Hooks[i], of[h] = &hidden, &hidden
	}
	for i, t := range r.Turns {
		r.Turns[i].Hook = of[t.Hook]
	}
	r.Release = &rel
}

// withoutValues is a Secret in YAML, without its values.
func withoutValues(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	mask.Object(u.Object, nil)
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return fmt.Sprintf("# a Secret that cannot be shown: %v\n", err)
	}
	return string(text)
}
