package manifest

import (
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

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

// ownedByOthers returns the entries of others in the managed fields of an object, except those of its status.
func ownedByOthers(o metav1.Object) (all []metav1.ManagedFieldsEntry) {
	for _, m := range o.GetManagedFields() {
		if m.Manager != connect.FieldManager && m.Subresource != "status" {
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

// FieldsOf returns the union of the fields in entries of managed fields. An entry that cannot be read has none.
func FieldsOf(entries ...metav1.ManagedFieldsEntry) *fieldpath.Set {
	all := &fieldpath.Set{}
	for _, m := range entries {
		var fields fieldpath.Set
		if m.FieldsV1 != nil && fields.FromJSON(m.FieldsV1.GetRawReader()) == nil {
			all = all.Union(&fields)
		}
	}
	return all
}

// FieldsOfSecret returns the fields of an object with those that the API server adds to a Secret: it copies stringData to data.
func FieldsOfSecret(fields *fieldpath.Set, u *unstructured.Unstructured) *fieldpath.Set {
	if u.GroupVersionKind() != secretKind {
		return fields
	}
	all := fields.Copy()
	for text := range fields.WithPrefix(fieldpath.FieldNameElement("stringData")).All() {
		all.Insert(append(fieldpath.MakePathOrDie("data"), text...))
	}
	return all
}

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// hasPart reports whether a part of a map or a list, or anything in it, is among the fields.
func hasPart(fields *fieldpath.Set, part fieldpath.PathElement) bool {
	_, inside := fields.Children.Get(part)
	return inside || fields.Members.Has(part)
}

// partsOf returns the parts of a map or a list that are among the fields or have such. A nil set has none.
func partsOf(fields *fieldpath.Set) []fieldpath.PathElement {
	if fields == nil {
		return nil
	}
	return slices.AppendSeq(slices.Collect(fields.Members.All()), fields.Children.All())
}

// partOf returns the part that identifies an element of a list.
func partOf(fields *fieldpath.Set, element any) (part fieldpath.PathElement, found bool) {
	for _, part := range partsOf(fields) {
		if identifies(part, element) {
			return part, true
		}
	}
	return part, false
}

// OwnsAll reports whether Helm owned all fields of an object to send. Then nobody had changed their values since Helm
// applied them: the API server gives a field to the manager that changes it.
func (b Before) OwnsAll(sent *unstructured.Unstructured) bool {
	if len(b.owned) == 0 {
		return false
	}
	return contain(FieldsOf(b.owned...), ownable(sent))
}

// ownable returns a copy of the fields of an object that managers can own.
func ownable(sent *unstructured.Unstructured) map[string]any {
	fields := sent.DeepCopy().Object
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"status"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(fields, path...)
	}
	return fields
}

// UpdatedByHelm reports whether Helm owns fields of an object by client-side apply.
func UpdatedByHelm(o metav1.Object) bool { return updatedByHelm(o) }

// UpdatedByHelm is like the function.
func (b Before) UpdatedByHelm() bool {
	return slices.ContainsFunc(b.owned, func(m metav1.ManagedFieldsEntry) bool { return m.Operation == metav1.ManagedFieldsOperationUpdate })
}

// contain reports whether everything in a value is among the fields. A field without parts is a single value, or a list or map that has
// only one owner.
func contain(fields *fieldpath.Set, in any) bool {
	has := func(part fieldpath.PathElement, x any) bool {
		inside, found := fields.Children.Get(part)
		return isEmpty(x) || found && contain(inside, x) || !found && fields.Members.Has(part)
	}
	switch in := in.(type) {
	case map[string]any:
		for name, x := range in {
			if !has(fieldpath.FieldNameElement(name), x) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(in, func(x any) bool {
			part, found := partOf(fields, x)
			return !isEmpty(x) && (!found || !has(part, x))
		})
	}
	return false
}

func isEmpty(x any) bool {
	switch x := x.(type) {
	case nil:
		return true
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return false
}

// identifies reports whether a part is an element of a list. Its keys include defaults, such as the protocol of a port, which the
// element may lack or have as an empty text.
func identifies(part fieldpath.PathElement, element any) bool {
	if part.Value != nil {
		return value.Equals(*part.Value, value.NewValueInterface(element))
	}
	m, isMap := element.(map[string]any)
	if part.Key == nil || !isMap {
		return false
	}
	given := false
	for _, key := range *part.Key {
		x, has := m[key.Name]
		if has && x != "" && !value.Equals(key.Value, value.NewValueInterface(x)) {
			return false
		}
		given = given || has
	}
	return given
}

// Prune removes the fields from an object, except those that are in keep or contain such a field, as the API server does for
// the fields that a manager no longer applies. It reports whether there were any.
func Prune(object map[string]any, fields, keep *fieldpath.Set) (changed bool) {
	for name := range maps.Clone(object) {
		part := fieldpath.FieldNameElement(name)
		if drops(part, fields, keep) {
			delete(object, name)
			changed = true
			continue
		}
		if inside, found := fields.Children.Get(part); found {
			object[name], changed = pruneValue(object[name], inside, keep.WithPrefix(part), changed)
		}
	}
	return changed
}

// drops reports whether a part is removed as a whole. The API server counts named fields that contain fields, too.
func drops(part fieldpath.PathElement, fields, keep *fieldpath.Set) bool {
	return !hasPart(keep, part) && (fields.Members.Has(part) || part.FieldName != nil && hasPart(fields, part))
}

// pruneValue prunes the value of an element. A map or list that loses all it has is null afterwards, as in the API server.
func pruneValue(from any, fields, keep *fieldpath.Set, changed bool) (any, bool) {
	switch from := from.(type) {
	case map[string]any:
		pruned := Prune(from, fields, keep)
		if pruned && len(from) == 0 {
			return nil, true
		}
		return from, pruned || changed
	case []any:
		pruned := pruneList(from, fields, keep)
		if len(pruned) == 0 && len(from) > 0 {
			return nil, true
		}
		return pruned, changed || !reflect.DeepEqual(pruned, from)
	}
	return from, changed
}

// pruneList returns a list without the elements among the fields.
func pruneList(list []any, fields, keep *fieldpath.Set) []any {
	out := []any{}
	for _, element := range list {
		part, found := partOf(fields, element)
		if found && drops(part, fields, keep) {
			continue
		}
		if inside, has := fields.Children.Get(part); found && has {
			element, _ = pruneValue(runtime.DeepCopyJSONValue(element), inside, keep.WithPrefix(part), false)
		}
		out = append(out, element)
	}
	return out
}
