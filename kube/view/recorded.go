package view

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/inspect"
	"lockstep/kube/mask"
)

// Sent returns an object of the revision as YAML, as its record has it, with secret values hidden.
func (v *View) Sent(_ context.Context, it inspect.Item) (string, error) {
	r := v.current()
	for _, i := range r.list {
		u, ok := i.Object.(*unstructured.Unstructured)
		if f := r.builder.Fact(i); !ok || f == nil || f.Resource.Object != it.Object {
			continue
		}
		object := u.DeepCopy().Object
		mask.Object(object, nil)
		text, err := yaml.Marshal(object)
		return v.mask.Text(string(text)), v.mask.Error(err)
	}
	return "", inspect.Unavailable("the record of the release does not have this object")
}
