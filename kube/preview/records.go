package preview

import (
	"cmp"
	"maps"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// Recorded is how a revision of a release differs from an earlier one, as their records say. Secret values are hidden.
type Recorded struct {
	Values  []inspect.Field  // the values that the user gave
	Objects []inspect.Change // in the order of the manifest, then those that are gone
}

// CompareRecords compares a revision with an earlier one, which may be nil.
func CompareRecords(before, after *rel1.Release) (Recorded, error) {
	var secrets mask.Mask
	old := map[plan.Object]*unstructured.Unstructured{}
	var values map[string]any
	if before != nil {
		secrets.AddRelease(before)
		values = before.Config
		for o, u := range recorded(before) {
			old[o] = u
		}
	}
	secrets.AddRelease(after)
	var out Recorded
	for _, f := range compareFields(values, after.Config) {
		out.Values = append(out.Values, inspect.Change{Fields: []inspect.Field{f}}.Masked(secrets.Diff).Fields...)
	}
	for o, u := range recorded(after) {
		c := inspect.Change{Object: o, Action: inspect.Create, Recorded: true}
		if was := old[o]; was != nil {
			c.Action = inspect.Unchanged
			if err := Compare(&c, was, u); err != nil {
				return out, err
			}
		}
		delete(old, o)
		if c.Action != inspect.Unchanged {
			out.Objects = append(out.Objects, c.Masked(secrets.Diff))
		}
	}
	if before == nil {
		return out, nil
	}
	remaining := maps.Clone(old)
	for o := range recorded(before) {
		if remaining[o] != nil {
			out.Objects = append(out.Objects, inspect.Change{Object: o, Action: inspect.Delete, Recorded: true})
			delete(remaining, o)
		}
	}
	return out, nil
}

// recorded yields the objects in the manifest of a record.
func recorded(rel *rel1.Release) func(func(plan.Object, *unstructured.Unstructured) bool) {
	return func(yield func(plan.Object, *unstructured.Unstructured) bool) {
		var reader documents.Reader
		for _, doc := range documents.Split(rel.Manifest) {
			_, doc = documents.CutSource(doc)
			value, _ := reader.Parse(doc)
			u := &unstructured.Unstructured{}
			if u.Object, _ = value.(map[string]any); u.Object == nil {
				continue // the document has no object
			}
			o := plan.Object{
				Group: u.GroupVersionKind().Group, Kind: u.GetKind(), Namespace: cmp.Or(u.GetNamespace(), rel.Namespace),
				Name: cmp.Or(u.GetName(), u.GetGenerateName()),
			}
			if !yield(o, u) {
				return
			}
		}
	}
}
