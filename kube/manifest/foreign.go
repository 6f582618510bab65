package manifest

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lockstep/kube/connect"
)

// Cleared is a live object without the fields of others that prevent an update.
type Cleared struct {
	Fields []fieldpath.Path
	// Next is the whole object that the update leaves, and Answer the one with which the API server has answered a dry run of that.
	Next, Answer *unstructured.Unstructured
}

// Foreign returns the fields and elements of lists that only a live object has, not the one to send, and that others own. It names a map
// or an element that the object to send lacks as a whole. Metadata and status are left out.
func Foreign(sent, live *unstructured.Unstructured) (paths []fieldpath.Path) {
	others := FieldsOf(ownedByOthers(live)...)
	for _, path := range foreign(nil, sent.Object, live.Object, others) {
		if name := path[0].FieldName; name != nil && !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, *name) {
			paths = append(paths, path)
		}
	}
	return paths
}

func foreign(at fieldpath.Path, sent, live any, others *fieldpath.Set) (paths []fieldpath.Path) {
	visit := func(part fieldpath.PathElement, in any, wanted bool, x any) {
		path := append(at.Copy(), part)
		inside, found := others.Children.Get(part)
		switch {
		case !wanted:
			paths = append(paths, path)
		case found:
			paths = append(paths, foreign(path, in, x, inside)...)
		}
	}
	switch live := live.(type) {
	case map[string]any:
		in, _ := sent.(map[string]any)
		for _, part := range partsOf(others) {
			if part.FieldName == nil {
				continue
			}
			if x, has := live[*part.FieldName]; has {
				next, wanted := in[*part.FieldName]
				visit(part, next, wanted, x)
			}
		}
	case []any:
		in, _ := sent.([]any)
		for _, element := range live {
			part, found := partOf(others, element)
			if !found {
				continue
			}
			n := slices.IndexFunc(in, func(x any) bool { return identifies(part, x) })
			if n < 0 {
				visit(part, nil, false, element)
			} else {
				visit(part, in[n], true, element)
			}
		}
	}
	return paths
}

// Restored returns a copy of a live object with the recorded values of the differences, and without the fields at the paths.
func Restored(live, recorded *unstructured.Unstructured, differences []Difference, without []fieldpath.Path) *unstructured.Unstructured {
	var object any = live.DeepCopy().Object
	for _, d := range differences {
		object = setAt(object, d.at.live, runtime.DeepCopyJSONValue(d.Recorded(recorded.Object)))
	}
	for _, path := range without {
		object = removeAt(object, path)
	}
	fields, _ := object.(map[string]any)
	return &unstructured.Unstructured{Object: fields}
}

// setAt sets the value at a path of names and indexes, and returns what has it. The index of an element that its list lacks is -1: it
// is added.
func setAt(in any, path []string, x any) any {
	if len(path) == 0 {
		return x
	}
	switch in := in.(type) {
	case map[string]any:
		in[path[0]] = setAt(in[path[0]], path[1:], x)
	case []any:
		switch n, err := strconv.Atoi(path[0]); {
		case err == nil && n >= 0 && n < len(in):
			in[n] = setAt(in[n], path[1:], x)
		case len(path) == 1:
			return append(in, x)
		}
	}
	return in
}

// removeAt removes what is at a path, and returns what had it.
func removeAt(in any, path fieldpath.Path) any {
	part, last := path[0], len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		if name := *part.FieldName; last {
			delete(in, name)
		} else {
			in[name] = removeAt(in[name], path[1:])
		}
	case []any:
		is := func(x any) bool { return identifies(part, x) }
		if last {
			return slices.DeleteFunc(in, is)
		}
		if n := slices.IndexFunc(in, is); n >= 0 {
			in[n] = removeAt(in[n], path[1:])
		}
	}
	return in
}

// GiveToHelm returns the managed fields of a live object if Helm's server-side apply, and nobody else, owns what is at the paths: the
// next apply removes it then. They are nil if that has never applied the object.
func GiveToHelm(live *unstructured.Unstructured, paths []fieldpath.Path) []metav1.ManagedFieldsEntry {
	wanted, taken, applied := fieldpath.NewSet(paths...), &fieldpath.Set{}, -1
	entries := live.GetManagedFields()
	for n, m := range entries {
		if m.Manager == connect.FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" {
			applied = n
			continue
		}
		fields := FieldsOf(m)
		rest := fields.RecursiveDifference(wanted)
		if taken = taken.Union(fields.Difference(rest)); rest.Equals(fields) {
			continue
		}
		setFields(&entries[n], rest)
	}
	if applied < 0 {
		return nil
	}
	setFields(&entries[applied], FieldsOf(entries[applied]).Union(taken))
	return slices.DeleteFunc(entries, func(m metav1.ManagedFieldsEntry) bool { return FieldsOf(m).Empty() })
}

func setFields(m *metav1.ManagedFieldsEntry, fields *fieldpath.Set) {
	if raw, err := fields.ToJSON(); err == nil {
		m.FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
}
