package manifest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/connect"
)

// ownedByHelm returns Helm's entries in an object's managed fields.
func ownedByHelm(o metav1.Object) (all []metav1.ManagedFieldsEntry) {
	for _, m := range o.GetManagedFields() {
		if m.Manager == connect.FieldManager && m.Subresource == "" {
			all = append(all, m)
		}
	}
	return all
}

// StatusIsOlder reports whether Helm has changed an object after its status was last written, as far as the whole seconds
// of managed fields show it.
func StatusIsOlder(o metav1.Object) bool {
	var applied, written time.Time
	for _, m := range ownedByHelm(o) {
		if m.Time != nil && m.Time.After(applied) {
			applied = m.Time.Time
		}
	}
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "status" && m.Time != nil && m.Time.After(written) {
			written = m.Time.Time
		}
	}
	return applied.After(written)
}

// Fields are fields in the form of managed fields (FieldsV1): a tree whose keys are f:NAME for a field, and k:{KEYS} or
// v:VALUE for an element of a list. An empty node, or one that has the key ".", is a field itself; other nodes only
// contain fields.
type Fields map[string]any

// FieldsOf returns the union of the fields in entries of managed fields.
func FieldsOf(entries ...metav1.ManagedFieldsEntry) Fields {
	all := Fields{}
	for _, m := range entries {
		all.add(fieldsOf(m))
	}
	return all
}

// add adds the fields of a node.
func (f Fields) add(more Fields) {
	for key, node := range more {
		child, found := f[key].(map[string]any)
		added, _ := node.(map[string]any)
		switch {
		case !found:
			child = map[string]any{}
		case (len(child) == 0) != (len(added) == 0): // one of them has the field itself
			child["."] = map[string]any{}
		}
		f[key] = child
		Fields(child).add(added)
	}
}

// OfSecret returns the fields with those that the API server adds to a Secret: it copies stringData to data.
func (f Fields) OfSecret(u *unstructured.Unstructured) Fields {
	texts, _ := f.child("f:stringData")
	if texts == nil || u.GroupVersionKind() != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
		return f
	}
	all := Fields{}
	all.add(f)
	all.add(Fields{"f:data": map[string]any(texts)})
	return all
}

// child returns the fields in an element of a list or map. found is false if neither the element nor anything in it is
// among the fields.
func (f Fields) child(key string) (fields Fields, found bool) {
	child, found := f[key].(map[string]any)
	return child, found
}

// atomic reports whether a node is a field without fields of its own: a single value, or a list or map that has only one
// owner or is empty.
func (f Fields) atomic() bool { return len(f) == 0 }

// hasSelf reports whether the node with a key is a field itself. The API server counts named fields that contain fields,
// too.
func (f Fields) hasSelf(key string) bool {
	child, found := f.child(key)
	_, self := child["."]
	return found && (child.atomic() || self || strings.HasPrefix(key, "f:"))
}

// OwnsAll reports whether Helm owned all fields of an object to send. Then nobody had changed their values since Helm
// applied them: the API server gives a field to the manager that changes it.
func (b Before) OwnsAll(sent *unstructured.Unstructured) bool {
	if len(b.owned) == 0 {
		return false
	}
	fields := sent.DeepCopy().Object
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"status"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(fields, path...)
	}
	return FieldsOf(b.owned...).contain(fields)
}

// UpdatedByHelm reports whether Helm owns fields of an object by client-side apply.
func UpdatedByHelm(o metav1.Object) bool { return updatedByHelm(o) }

// UpdatedByHelm is like the function.
func (b Before) UpdatedByHelm() bool {
	return slices.ContainsFunc(b.owned, func(m metav1.ManagedFieldsEntry) bool { return m.Operation == metav1.ManagedFieldsOperationUpdate })
}

// contain reports whether everything in a value is among the fields.
func (f Fields) contain(value any) bool {
	has := func(key string, x any) bool {
		child, found := f.child(key)
		return isEmpty(x) || found && (child.atomic() || child.contain(x))
	}
	switch value := value.(type) {
	case map[string]any:
		for name, x := range value {
			if !has("f:"+name, x) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(value, func(x any) bool {
			for key := range f {
				if isKeyOf(key, x) {
					return !has(key, x)
				}
			}
			return !isEmpty(x)
		})
	}
	return false
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// isKeyOf reports whether a key identifies an element of a list. The keys of elements include defaults, such as the protocol
// of a port, which the element may lack.
func isKeyOf(key string, element any) bool {
	if text, ok := strings.CutPrefix(key, "v:"); ok {
		var value any
		return json.Unmarshal([]byte(text), &value) == nil && sameJSON(value, element)
	}
	text, ok := strings.CutPrefix(key, "k:")
	m, isMap := element.(map[string]any)
	var keys map[string]any
	if !ok || !isMap || json.Unmarshal([]byte(text), &keys) != nil {
		return false
	}
	given := 0
	for name, value := range keys {
		x, ok := m[name]
		if ok && !sameJSON(value, x) {
			return false
		}
		if ok {
			given++
		}
	}
	return given > 0
}

// sameJSON reports whether values are equal as JSON, in which all numbers have one type.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// Prune removes the fields from an object, except those that are in keep or contain such a field, as the API server does for
// the fields that a manager no longer applies. It reports whether there were any.
func (f Fields) Prune(object map[string]any, keep Fields) (changed bool) {
	for name := range maps.Clone(object) {
		key := "f:" + name
		if f.drops(key, keep) {
			delete(object, name)
			changed = true
			continue
		}
		if fields, found := f.child(key); found {
			kept, _ := keep.child(key)
			object[name], changed = fields.pruneValue(object[name], kept, changed)
		}
	}
	return changed
}

// drops reports whether the element with a key is removed as a whole.
func (f Fields) drops(key string, keep Fields) bool {
	_, kept := keep.child(key)
	return !kept && f.hasSelf(key)
}

// pruneValue prunes the value of an element. A map or list that loses all it has is null afterwards, as in the API server.
func (f Fields) pruneValue(value any, keep Fields, changed bool) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		pruned := f.Prune(value, keep)
		if pruned && len(value) == 0 {
			return nil, true
		}
		return value, pruned || changed
	case []any:
		pruned := f.pruneList(value, keep)
		if len(pruned) == 0 && len(value) > 0 {
			return nil, true
		}
		return pruned, changed || !reflect.DeepEqual(pruned, value)
	}
	return value, changed
}

// pruneList returns a list without the elements among the fields.
func (f Fields) pruneList(list []any, keep Fields) []any {
	out := []any{}
	for _, element := range list {
		key := ""
		for k := range f {
			if isKeyOf(k, element) {
				key = k
			}
		}
		if key != "" && f.drops(key, keep) {
			continue
		}
		if fields, found := f.child(key); found {
			kept, _ := keep.child(key)
			element, _ = fields.pruneValue(runtime.DeepCopyJSONValue(element), kept, false)
		}
		out = append(out, element)
	}
	return out
}
