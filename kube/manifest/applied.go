package manifest

import (
	"encoding/json"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Applied finds the previous state of objects for client-side apply: the fields of all revisions that may have applied one,
// with the values of the newest. The zero value has none.
type Applied struct {
	states map[identity][]appliedState // the newest first
	open   Index                       // the objects that an older revision may have applied, too
}

// appliedState is an object of a revision.
type appliedState struct {
	info     *resource.Info
	deployed bool
}

// NewApplied starts the search for the objects of a list. Those that do not exist have no previous state.
func NewApplied(b *Builder, list helmkube.ResourceList) *Applied {
	return &Applied{states: map[identity][]appliedState{}, open: NewIndex(list.Filter(func(i *resource.Info) bool {
		f := b.Fact(i)
		return f == nil || !f.Before().Known || f.Before().Version != ""
	}))}
}

// Complete reports whether older revisions add nothing.
func (a *Applied) Complete() bool { return len(a.open) == 0 }

// Add adds the objects of the next older revision. If that was deployed, it has applied them all, so nothing is left of what
// older ones applied. Of any other it is not known.
func (a *Applied) Add(list helmkube.ResourceList, deployed bool) {
	for id, i := range NewIndex(list) {
		if a.open[id] != nil {
			a.states[id] = append(a.states[id], appliedState{i, deployed})
		}
		if deployed {
			delete(a.open, id)
		}
	}
}

// Of returns an object as it was applied last, nil if no revision has it or that cannot be said: then the previous state is that of the
// old revision, as for Helm. target is the object that is applied now, managed are the managed fields of the live one.
func (a *Applied) Of(target *resource.Info, managed []metav1.ManagedFieldsEntry) (union *resource.Info) {
	if a == nil {
		return nil
	}
	for _, s := range a.states[identityOf(target)] {
		i := s.info
		if !s.deployed {
			i = withoutOthers(i, target, managed)
		}
		switch {
		case union == nil:
			union = i
		case union.Mapping.GroupVersionKind == i.Mapping.GroupVersionKind:
			merged := merge(i, union)
			if merged == nil {
				return nil
			}
			newer := *union
			newer.Object, union = merged, &newer
		}
	}
	return union
}

// withoutOthers returns an object of a revision that failed without the fields that others alone own now: they have set them since. What
// the target lacks as a whole, a map, a list or an element of a list, is left out as a whole if they have set a field in it, or that
// would be removed with it.
func withoutOthers(i, target *resource.Info, managed []metav1.ManagedFieldsEntry) *resource.Info {
	live := &unstructured.Unstructured{}
	live.SetManagedFields(managed)
	others, own := FieldsOf(ownedByOthers(live)...), FieldsOf(ownedByHelm(live)...)
	u, ok := i.Object.(*unstructured.Unstructured)
	next, isObject := target.Object.(*unstructured.Unstructured)
	if !ok || !isObject || others.Empty() {
		return i
	}
	without := *i
	object := u.DeepCopy()
	dropTouched(object.Object, next.Object, others, own)
	Prune(object.Object, others, own)
	without.Object = object
	return &without
}

// dropTouched removes from a value the maps, lists and elements of lists that the target lacks, and in which a field is among the fields,
// but not among kept.
func dropTouched(value, target any, fields, kept *fieldpath.Set) any {
	switch value := value.(type) {
	case map[string]any:
		in, _ := target.(map[string]any)
		for name, x := range value {
			part := fieldpath.FieldNameElement(name)
			inside, found := fields.Children.Get(part)
			_, wanted := in[name]
			switch {
			case found && wanted:
				value[name] = dropTouched(x, in[name], inside, kept.WithPrefix(part))
			case found && !inside.Difference(kept.WithPrefix(part)).Empty():
				delete(value, name)
			}
		}
	case []any:
		in, _ := target.([]any)
		return slices.DeleteFunc(value, func(element any) bool {
			part, found := partOf(fields, element)
			inside, has := fields.Children.Get(part)
			if !found || !has {
				return false
			}
			n := slices.IndexFunc(in, func(x any) bool { return identifies(part, x) })
			if n < 0 {
				return hasField(element, inside, kept.WithPrefix(part))
			}
			dropTouched(element, in[n], inside, kept.WithPrefix(part))
			return false
		})
	}
	return value
}

// hasField reports whether a value has a field that is among the fields, but not among kept, and not in an element of a list: an
// element needs its own fields, and not those.
func hasField(value any, fields, kept *fieldpath.Set) bool {
	m, _ := value.(map[string]any)
	for name, x := range m {
		part := fieldpath.FieldNameElement(name)
		if fields.Members.Has(part) && !hasPart(kept, part) {
			return true
		}
		if inside, found := fields.Children.Get(part); found && hasField(x, inside, kept.WithPrefix(part)) {
			return true
		}
	}
	return false
}

// merge returns the older object with the fields of the newer one. Lists with a merge key have the elements of both. It returns nil
// if that cannot be said, because elements of a list have the same key, such as two ports of one number.
func merge(older, newer *resource.Info) *unstructured.Unstructured {
	patch := jsonpatch.MergePatch
	if typed, err := scheme.Scheme.New(older.Mapping.GroupVersionKind); err == nil {
		patch = func(from, to []byte) ([]byte, error) { return strategicpatch.StrategicMergePatch(from, to, typed) }
	}
	var objects [2][]byte
	for n, i := range []*resource.Info{older, newer} {
		object, err := json.Marshal(i.Object)
		if err == nil {
			object, err = jsonpatch.MergePatch([]byte("{}"), object) // without null fields
		}
		if err != nil {
			return nil
		}
		if same, err := patch(object, object); err != nil || !jsonpatch.Equal(same, object) {
			return nil
		}
		objects[n] = object
	}
	union, err := patch(objects[0], objects[1])
	out := &unstructured.Unstructured{}
	if err != nil || out.UnmarshalJSON(union) != nil {
		return nil
	}
	return out
}
