package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/event"
	"lockstep/kube/connect"
)

// Difference is a field of a recorded object that the live object has otherwise, or lacks.
type Difference struct {
	event.Drift
	// Subresource is the one that the manager wrote.
	Subresource string

	path []step
}

// step leads to a field of a map, or to an element of a list, which may have another index in the live object.
type step struct {
	name           string
	element        bool
	recorded, live int // indexes of the element
}

// fieldOf returns a path as people write it: spec.template.spec.containers[web].image.
func fieldOf(path []step) string {
	var b strings.Builder
	for n, s := range path {
		switch {
		case s.element || strings.ContainsAny(s.name, "./"):
			b.WriteString("[" + s.name + "]")
		case n == 0:
			b.WriteString(s.name)
		default:
			b.WriteString("." + s.name)
		}
	}
	return b.String()
}

// Pointer returns the JSON pointer to the field in the recorded object.
func (d Difference) Pointer() string {
	var b strings.Builder
	for _, s := range d.path {
		key := strings.ReplaceAll(strings.ReplaceAll(s.name, "~", "~0"), "/", "~1")
		if s.element {
			key = strconv.Itoa(s.recorded)
		}
		b.WriteString("/" + key)
	}
	return b.String()
}

// Recorded returns the value of the field in the recorded object, and Live the one in the live object, nil if that lacks it.
func (d Difference) Recorded(recorded map[string]any) any {
	return d.value(recorded, func(s step) int { return s.recorded })
}

func (d Difference) Live(live map[string]any) any {
	if d.Gone {
		return nil
	}
	return d.value(live, func(s step) int { return s.live })
}

// value follows the path. A value that hides what it contains ends it.
func (d Difference) value(root any, index func(step) int) any {
	for _, s := range d.path {
		switch v := root.(type) {
		case map[string]any:
			root = v[s.name]
		case []any:
			if root = nil; index(s) < len(v) {
				root = v[index(s)]
			}
		}
	}
	return root
}

// Keep gives the field of an object to send the value that it has in the live object, so that sending it changes nothing.
func (d Difference) Keep(sent, live map[string]any) {
	parent := Difference{path: d.path[:len(d.path)-1]}.Recorded(sent)
	last := d.path[len(d.path)-1]
	switch p := parent.(type) {
	case map[string]any:
		if p[last.name] = d.Live(live); d.Gone {
			delete(p, last.name)
		}
	case []any:
		if !d.Gone && last.recorded < len(p) {
			p[last.recorded] = d.Live(live)
		}
	}
}

// AsStored returns a copy of an object to send in the form in which the API server stores it: it has the texts of a Secret as
// data.
func AsStored(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	texts, _, _ := unstructured.NestedMap(u.Object, "stringData")
	if u.GroupVersionKind() != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) || len(texts) == 0 {
		return u
	}
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(text)))
	}
	u.Object["data"] = data
	delete(u.Object, "stringData")
	return u
}

// Differences returns the fields of an object as Helm sends it (AsStored) that the live object has otherwise. Only what is
// recorded decides: defaults, and fields and elements that others have added, do not count. Nor does a field that Helm still
// owns, however the API server or a webhook has written it: the API server takes a field from its manager when somebody else
// changes its value.
//
// Rule S18: only what the record sends can drift
func Differences(recorded, live *unstructured.Unstructured) []Difference {
	return compare(recorded, live.Object, ownersOf(live), false)
}

// Taken returns the recorded fields (AsStored) that Helm has lost to others, who have changed them since it applied them. It needs
// only the metadata of the live object, so it neither finds removed fields nor knows whether a value has been changed back.
func Taken(recorded, live *unstructured.Unstructured) []Difference {
	by := ownersOf(live)
	if !slices.ContainsFunc(by, owner.isHelm) {
		return nil
	}
	for n := range by { // Helm keeps the texts of a Secret that it sends, whoever changes the data
		by[n].fields = by[n].fields.OfSecret(recorded)
	}
	return compare(recorded, nil, by, true)
}

// compare compares a recorded object with the fields of a live one, or if taken is set, with their owners alone.
func compare(recorded *unstructured.Unstructured, live map[string]any, by owners, taken bool) []Difference {
	sent := recorded.DeepCopy().Object
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"status"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(sent, path...)
	}
	typed := asTyped(recorded)
	if live == nil {
		live = sent
	}
	c := &comparison{typed: typed != nil, helmKnown: slices.ContainsFunc(by, owner.isHelm), taken: taken}
	c.fields(nil, sent, typed, live, by)
	return c.found
}

// asTyped returns an object with its values as the API server writes them, such as quantities, and without the fields whose
// zero value it does not store. It returns nil for kinds that are not built in.
func asTyped(u *unstructured.Unstructured) map[string]any {
	typed, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed) != nil {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil
	}
	return fields
}

// owner is a manager of a part of a live object.
type owner struct {
	metav1.ManagedFieldsEntry
	fields  Fields
	inWhole bool // the part is in something that it owns as a whole
}

func (o owner) isHelm() bool { return o.Manager == connect.FieldManager && o.Subresource == "" }

// owners are the managers of something in a part of a live object.
type owners []owner

func ownersOf(live *unstructured.Unstructured) (all owners) {
	for _, m := range live.GetManagedFields() {
		if fields := fieldsOf(m); len(fields) > 0 && m.Subresource != "status" {
			all = append(all, owner{ManagedFieldsEntry: m, fields: fields})
		}
	}
	return all
}

// of returns the owners of a field or an element. Who owns a whole owns what is in it.
func (o owners) of(key string) (all owners) {
	for _, m := range o {
		if m.fields.atomic() {
			all = append(all, owner{m.ManagedFieldsEntry, m.fields, true})
		} else if fields, found := m.fields.child(key); found {
			all = append(all, owner{m.ManagedFieldsEntry, fields, false})
		}
	}
	return all
}

// whole reports whether somebody owns the part itself, not only fields in it.
func (o owners) whole(is func(owner) bool) bool {
	return slices.ContainsFunc(o, func(m owner) bool { return m.fields.atomic() && is(m) })
}

// keyOf returns the key of an element of a list: one of Helm's if there are several, because an element may lack a default that
// is part of it.
func (o owners) keyOf(element any) (key string) {
	for _, m := range o {
		for _, k := range slices.Sorted(maps.Keys(m.fields)) {
			if (key == "" || m.isHelm()) && isKeyOf(k, element) {
				key = k
				break
			}
		}
	}
	return key
}

// hasKeys reports whether the elements of a list have owners of their own.
func (o owners) hasKeys() bool {
	return slices.ContainsFunc(o, func(m owner) bool {
		for k := range m.fields {
			if strings.HasPrefix(k, "k:") || strings.HasPrefix(k, "v:") {
				return true
			}
		}
		return false
	})
}

// comparison collects the differences of an object.
type comparison struct {
	typed     bool // the kind is built in
	helmKnown bool // the managed fields have entries of Helm
	taken     bool // see Taken
	found     []Difference
}

func (c *comparison) add(path []step, gone bool, by owners) {
	d := Difference{Drift: event.Drift{Field: fieldOf(path), Gone: gone}, path: slices.Clone(path)}
	for _, m := range by {
		at := time.Time{} // a scale has none
		if m.Time != nil {
			at = m.Time.Time
		}
		if !m.isHelm() && !gone && (d.Manager == "" || at.After(d.At)) {
			d.Manager, d.Subresource, d.At = m.Manager, m.Subresource, at
		}
	}
	c.found = append(c.found, d)
}

// fields compares maps. typed has the values of recorded as the API server writes them.
func (c *comparison) fields(path []step, recorded, typed, live map[string]any, by owners) {
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		below, of := append(slices.Clip(path), step{name: name}), by.of("f:"+name)
		value, has := live[name]
		sent, known := typed[name]
		switch {
		case recorded[name] == nil, !has && c.typed && !known: // not sent, or not stored
		case !has:
			c.add(below, true, of)
		case !known && c.typed && !c.helmKnown && isZero(recorded[name]): // it may have been replaced by a default
		default:
			if !known {
				sent = recorded[name]
			}
			c.value(below, recorded[name], sent, value, of)
		}
	}
}

func (c *comparison) value(path []step, recorded, sent, live any, by owners) {
	if by.whole(owner.isHelm) {
		return
	}
	switch recorded := recorded.(type) {
	case map[string]any:
		next, ok := live.(map[string]any)
		typed, _ := sent.(map[string]any)
		if ok && len(next) > 0 && by.whole(func(m owner) bool { return !m.inWhole }) && !isSubset(next, sent) { // replaced as a whole
			c.add(path, false, by)
			return
		}
		if ok {
			c.fields(path, recorded, typed, next, by)
			return
		}
	case []any:
		next, ok := live.([]any)
		typed, _ := sent.([]any)
		if ok && len(typed) == len(recorded) {
			c.list(path, recorded, typed, next, by)
			return
		}
	}
	if c.taken && len(by) > 0 || !c.taken && !sameJSON(sent, live) {
		c.add(path, false, by)
	}
}

// isSubset reports whether all names of a map are in another one.
func isSubset(m map[string]any, of any) bool {
	all, _ := of.(map[string]any)
	for name := range m {
		if _, found := all[name]; !found && name != "apiVersion" { // a default of references to fields
			return false
		}
	}
	return true
}

// list compares lists: element by element if they have keys, else as a whole, because then the list has a single owner.
func (c *comparison) list(path []step, recorded, sent, live []any, by owners) {
	keyed := by.hasKeys()
	if !keyed && len(recorded) != len(live) {
		c.add(path, false, by)
		return
	}
	for n, element := range recorded {
		at, of := n, by
		if keyed {
			key := by.keyOf(element)
			of = by.of(key)
			at = slices.IndexFunc(live, func(x any) bool { return isKeyOf(key, x) || key == "" && reflect.DeepEqual(x, sent[n]) })
		}
		below := append(slices.Clip(path), step{elementName(element, n), true, n, at})
		if at < 0 {
			c.add(below, true, of)
			continue
		}
		c.value(below, element, sent[n], live[at], of)
	}
}

// elementName returns what people call an element of a list: its name, or else its index.
func elementName(element any, index int) string {
	m, _ := element.(map[string]any)
	if name, ok := m["name"].(string); ok {
		return name
	}
	return strconv.Itoa(index)
}

func isZero(value any) bool {
	if isEmpty(value) {
		return true
	}
	text, err := json.Marshal(value)
	return err == nil && slices.Contains([]string{`""`, "0", "false"}, string(text))
}
