package manifest

import (
	"encoding/json"

	jsonpatch "github.com/evanphx/json-patch/v5"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
)

// Applied finds the previous state of objects for client-side apply: the fields of all revisions that may have applied one,
// with the values of the newest. The zero value has none.
type Applied struct {
	builder *Builder
	found   Index
	open    Index // the objects that an older revision may have applied, too
}

// NewApplied starts the search for the objects of a list. Those that do not exist have no previous state.
func NewApplied(b *Builder, list helmkube.ResourceList) *Applied {
	return &Applied{builder: b, found: Index{}, open: NewIndex(list.Filter(func(i *resource.Info) bool {
		f := b.Fact(i)
		return f == nil || !f.Before().Known || f.Before().Version != ""
	}))}
}

// Of returns an object as it was applied last, nil if no revision has it.
func (a *Applied) Of(i *resource.Info) *resource.Info {
	if a == nil {
		return nil
	}
	return a.found.Get(i)
}

// Complete reports whether older revisions add nothing.
func (a *Applied) Complete() bool { return len(a.open) == 0 }

// Add adds the objects of the next older revision. If that was deployed, it has applied them all, so nothing is left of what
// older ones applied. Of any other it is not known.
func (a *Applied) Add(list helmkube.ResourceList, deployed bool) {
	for id, i := range NewIndex(list) {
		if a.open[id] == nil {
			continue
		}
		if !deployed {
			i = a.withoutOthers(i, a.open[id])
		}
		newer := a.found[id]
		switch {
		case newer == nil:
			a.found[id] = i
		case newer.Mapping.GroupVersionKind == i.Mapping.GroupVersionKind:
			union := *newer
			if union.Object = merge(i, newer); union.Object == nil { // then the previous state is that of the old revision, as for Helm
				delete(a.found, id)
				delete(a.open, id)
				continue
			}
			a.found[id] = &union
		}
		if deployed {
			delete(a.open, id)
		}
	}
}

// withoutOthers returns an object of a revision that failed without the fields that others alone own now: they have set them since.
func (a *Applied) withoutOthers(i, target *resource.Info) *resource.Info {
	f := a.builder.Fact(target)
	u, ok := i.Object.(*unstructured.Unstructured)
	if f == nil || len(f.before.others) == 0 || !ok {
		return i
	}
	own := *i
	object := u.DeepCopy()
	Prune(object.Object, FieldsOf(f.before.others...), FieldsOf(f.before.owned...))
	own.Object = object
	return &own
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
