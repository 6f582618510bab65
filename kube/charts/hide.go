package charts

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/kube/mask"
)

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
