package manifest

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lockstep/kube/connect"
)

// owner is a manager of a part of a live object.
type owner struct {
	metav1.ManagedFieldsEntry
	fields  *fieldpath.Set // in the part; nil if the manager owns the part itself
	inWhole bool           // the part is in something that it owns as a whole
}

func (o owner) isHelm() bool { return o.Manager == connect.FieldManager && o.Subresource == "" }

// owners are the managers of something in a part of a live object.
type owners []owner

func ownersOf(live *unstructured.Unstructured) (all owners) {
	for _, m := range live.GetManagedFields() {
		if fields := FieldsOf(m); !fields.Empty() && m.Subresource != "status" {
			all = append(all, owner{ManagedFieldsEntry: m, fields: fields})
		}
	}
	return all
}

// of returns the owners of a field or an element. Who owns a whole owns what is in it.
func (o owners) of(part fieldpath.PathElement) (all owners) {
	for _, m := range o {
		if m.fields == nil {
			if !o.haveParts() {
				all = append(all, owner{m.ManagedFieldsEntry, nil, true})
			}
		} else if hasPart(m.fields, part) {
			inside, _ := m.fields.Children.Get(part)
			all = append(all, owner{m.ManagedFieldsEntry, inside, false})
		}
	}
	return all
}

// whole reports whether somebody owns the part with all that is in it.
func (o owners) whole(is func(owner) bool) bool {
	return !o.haveParts() && slices.ContainsFunc(o, is)
}

// haveParts reports whether somebody owns fields in the part. Whoever owns the part itself then has the map, but nothing in it: others
// have taken over all of its fields, such as the only key of a ConfigMap.
func (o owners) haveParts() bool {
	return slices.ContainsFunc(o, func(m owner) bool { return m.fields != nil })
}

// partOf returns the part that is an element of a list: one of Helm's if there are several. An element may lack a default that is one
// of its keys; then it is none that another element names with all keys.
func (o owners) partOf(element any, list []any) (part fieldpath.PathElement, found bool) {
	for _, m := range o {
		i := slices.IndexFunc(partsOf(m.fields), func(p fieldpath.PathElement) bool {
			return identifies(p, element) && (hasKeys(p, element) || !slices.ContainsFunc(list, func(x any) bool { return identifies(p, x) && hasKeys(p, x) }))
		})
		if i >= 0 && (!found || m.isHelm()) {
			part, found = partsOf(m.fields)[i], true
		}
	}
	return part, found
}

// hasElements reports whether the elements of a list have owners of their own.
func (o owners) hasElements() bool {
	return slices.ContainsFunc(o, func(m owner) bool {
		return slices.ContainsFunc(partsOf(m.fields), func(part fieldpath.PathElement) bool { return part.Key != nil || part.Value != nil })
	})
}
