package manifest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-openapi/jsonpointer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"lockstep/engine/event"
)

// Difference is a field of a recorded object that the live object has otherwise, or lacks.
type Difference struct {
	event.Drift
	// Subresource is the one that the manager wrote.
	Subresource string
	// Rekeyed are the keys of the live element that stands for a recorded one which is gone, such as a port that has another number:
	// for the API server it is another element.
	Rekeyed []Difference

	at place
}

// place is where a field is. The elements of lists may have other indexes in the live object.
type place struct {
	field          string   // as people write it: spec.template.spec.containers[web].image
	recorded, live []string // names of fields and indexes of elements
}

// below returns the place of a field of a map.
func (p place) below(name string) place {
	return place{FieldPath(p.field, name), append(slices.Clip(p.recorded), name), append(slices.Clip(p.live), name)}
}

// element returns the place of an element of a list.
func (p place) element(name string, recorded, live int) place {
	return place{p.field + "[" + name + "]", append(slices.Clip(p.recorded), strconv.Itoa(recorded)), append(slices.Clip(p.live), strconv.Itoa(live))}
}

// FieldPath returns how people write a field of a map: spec.replicas, metadata.annotations[a/b].
func FieldPath(in, name string) string {
	switch {
	case strings.ContainsAny(name, "./"):
		return in + "[" + name + "]"
	case in == "":
		return name
	}
	return in + "." + name
}

// Pointer returns the JSON pointer to the field in the recorded object.
func (d Difference) Pointer() string {
	var b strings.Builder
	for _, key := range d.at.recorded {
		b.WriteString("/" + jsonpointer.Escape(key))
	}
	return b.String()
}

// Recorded returns the value of the field in the recorded object, and Live the one in the live object, nil if that lacks it.
func (d Difference) Recorded(recorded map[string]any) any { return valueAt(recorded, d.at.recorded) }

func (d Difference) Live(live map[string]any) any {
	if d.Gone {
		return nil
	}
	return valueAt(live, d.at.live)
}

// IsEmpty reports whether the recorded field is empty and the live object lacks it.
func (d Difference) IsEmpty(recorded *unstructured.Unstructured) bool {
	return d.Gone && isZero(d.Recorded(recorded.Object))
}

// valueAt follows a path. A value that hides what it contains ends it.
func valueAt(root any, path []string) any {
	for _, key := range path {
		switch v := root.(type) {
		case map[string]any:
			root = v[key]
		case []any:
			if n, err := strconv.Atoi(key); err != nil || n >= len(v) {
				root = nil
			} else {
				root = v[n]
			}
		}
	}
	return root
}

// Keep gives the field of an object to send the value that it has in the live object, so that sending it changes nothing.
func (d Difference) Keep(sent, live map[string]any) {
	parent, key := d.at.recorded[:len(d.at.recorded)-1], d.at.recorded[len(d.at.recorded)-1]
	switch p := valueAt(sent, parent).(type) {
	case map[string]any:
		if p[key] = d.Live(live); d.Gone {
			delete(p, key)
		}
	case []any:
		switch n, err := strconv.Atoi(key); {
		case err != nil || n >= len(p):
		case len(d.Rekeyed) > 0:
			at := d.Rekeyed[0].at.live
			p[n] = valueAt(live, at[:len(at)-1])
		case !d.Gone:
			p[n] = d.Live(live)
		}
	}
}

// AsStored returns a copy of an object to send in the form in which the API server stores it: it has the texts of a Secret as
// data.
func AsStored(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	texts, _, _ := unstructured.NestedMap(u.Object, "stringData")
	if u.GroupVersionKind() != secretKind || len(texts) == 0 {
		return u
	}
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString(fmt.Append(nil, text))
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
	return compare(comparison{}, recorded, live.Object, ownersOf(live))
}

// Rewritten returns the fields of an object as Helm sends it (AsStored) that Helm itself has written otherwise. That may be the work of
// the API server or a webhook, or of another release that has taken over the object: only applying the object again tells.
func Rewritten(recorded, live *unstructured.Unstructured) []Difference {
	return compare(comparison{byHelm: true}, recorded, live.Object, ownersOf(live))
}

// Changes returns the fields of a live object that an update removes, changes or adds; next is the object after it.
func Changes(live, next *unstructured.Unstructured) []Difference {
	stored := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		u = u.DeepCopy()
		u.SetManagedFields(nil)
		u.SetResourceVersion("")
		u.SetGeneration(0)
		return u
	}
	by, live, next := ownersOf(live), stored(live), stored(next)
	added := compare(comparison{byAnybody: true}, next, live.Object, by)
	return append(compare(comparison{byAnybody: true}, live, next.Object, by), slices.DeleteFunc(added, func(d Difference) bool { return !d.Gone })...)
}

// WrittenByHelm returns when Helm last wrote an object.
func WrittenByHelm(live *unstructured.Unstructured) time.Time { return LastWritten(ownedByHelm(live)) }

// LastWritten returns when managers last wrote an object, to the second, by the clock of the API server.
func LastWritten(fields []metav1.ManagedFieldsEntry) (at time.Time) {
	for _, m := range fields {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// Confirmed returns those of the differences that applying the object again would change. applied is the answer to that. The others
// are only another form of the same, such as an empty map that the API server does not store, or the work of a webhook.
func Confirmed(found []Difference, recorded, live, applied *unstructured.Unstructured) (confirmed []Difference) {
	same := map[string]any{}
	for _, d := range compare(comparison{byAnybody: true}, recorded, applied.Object, ownersOf(applied)) {
		same[d.Pointer()] = d.Live(applied.Object)
	}
	for _, d := range found {
		if now, found := same[d.Pointer()]; !found || !reflect.DeepEqual(now, d.Live(live.Object)) {
			confirmed = append(confirmed, d)
		}
	}
	return confirmed
}

// Taken returns the recorded fields (AsStored) that Helm has lost to others, who have changed them since it applied them. It needs
// only the metadata of the live object, so it neither finds removed fields nor knows whether a value has been changed back.
func Taken(recorded, live *unstructured.Unstructured) []Difference {
	by := ownersOf(live)
	if !slices.ContainsFunc(by, owner.isHelm) {
		return nil
	}
	for n := range by { // Helm keeps the texts of a Secret that it sends, whoever changes the data
		by[n].fields = FieldsOfSecret(by[n].fields, recorded)
	}
	return compare(comparison{taken: true}, recorded, nil, by)
}

// compare compares a recorded object with the fields of a live one, or if taken is set, with their owners alone.
func compare(c comparison, recorded *unstructured.Unstructured, live map[string]any, by owners) []Difference {
	sent, typed := ownable(recorded), asTyped(recorded)
	if live == nil {
		live = sent
	}
	c.typed, c.helmKnown = typed != nil, slices.ContainsFunc(by, owner.isHelm)
	c.fields(place{}, sent, typed, live, by)
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

// hasKeys reports whether an element of a list has a value for each key of a part.
func hasKeys(part fieldpath.PathElement, element any) bool {
	if part.Key == nil {
		return true
	}
	m, _ := element.(map[string]any)
	return !slices.ContainsFunc(*part.Key, func(key value.Field) bool { return m[key.Name] == nil || m[key.Name] == "" })
}

// comparison collects the differences of an object.
type comparison struct {
	typed     bool // the kind is built in
	helmKnown bool // the managed fields have entries of Helm
	taken     bool // see Taken
	byHelm    bool // see Rewritten
	byAnybody bool // see Confirmed
	found     []Difference
}

// add adds a difference and returns it, nil if it does not count.
func (c *comparison) add(at place, gone bool, by owners) *Difference {
	written := func(m owner) bool { return m.isHelm() && (!gone || m.inWhole) }
	if c.byHelm && !by.whole(written) {
		return nil
	}
	d := Difference{Drift: event.Drift{Field: at.field, Gone: gone}, at: at}
	for _, m := range by {
		last := ptr.Deref(m.Time, metav1.Time{}).Time // a scale has none
		if m.isHelm() == c.byHelm && !gone && (d.Manager == "" || last.After(d.At)) {
			d.Manager, d.Subresource, d.At = m.Manager, m.Subresource, last
		}
	}
	c.found = append(c.found, d)
	return &c.found[len(c.found)-1]
}

// fields compares maps. typed has the values of recorded as the API server writes them.
func (c *comparison) fields(at place, recorded, typed, live map[string]any, by owners) {
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		below, of := at.below(name), by.of(fieldpath.FieldNameElement(name))
		value, has := live[name]
		sent, known := typed[name]
		switch {
		case recorded[name] == nil, !has && c.typed && !known: // not sent, or not stored
		case !has:
			c.add(below, true, of)
		case !known && c.typed && (!c.helmKnown || len(of) == 0) && isZero(recorded[name]): // it may have been replaced by a default
		default:
			if !known {
				sent = recorded[name]
			}
			c.value(below, recorded[name], sent, value, of)
		}
	}
}

func (c *comparison) value(at place, recorded, sent, live any, by owners) {
	if by.whole(owner.isHelm) && !c.byHelm && !c.byAnybody {
		return
	}
	switch recorded := recorded.(type) {
	case map[string]any:
		next, ok := live.(map[string]any)
		typed, _ := sent.(map[string]any)
		if ok && len(next) > 0 && by.whole(func(m owner) bool { return !m.inWhole }) && !isSubset(next, sent) { // replaced as a whole
			c.add(at, false, by)
			return
		}
		if ok {
			c.fields(at, recorded, typed, next, by)
			return
		}
	case []any:
		next, ok := live.([]any)
		typed, _ := sent.([]any)
		if ok && len(typed) == len(recorded) {
			c.list(at, recorded, typed, next, by)
			return
		}
	}
	if c.taken && len(by) > 0 || !c.taken && !value.Equals(value.NewValueInterface(sent), value.NewValueInterface(live)) {
		c.add(at, false, by)
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

// list compares lists: element by element if these have owners, else as a whole, because then the list has a single owner.
func (c *comparison) list(at place, recorded, sent, live []any, by owners) {
	owned := by.hasElements()
	if !owned && len(recorded) != len(live) {
		c.add(at, false, by)
		return
	}
	for n, element := range recorded {
		index, of := n, by
		if owned {
			part, found := by.partOf(element, recorded)
			of = by.of(part)
			index = slices.IndexFunc(live, func(x any) bool { return found && identifies(part, x) || !found && reflect.DeepEqual(x, sent[n]) })
		}
		below := at.element(elementName(element, n), n, index)
		if index < 0 {
			if d := c.add(below, true, of); d != nil {
				d.Rekeyed = rekeyed(at, n, recorded, live, by)
			}
			continue
		}
		c.value(below, element, sent[n], live[index], of)
	}
}

// rekeyed returns the keys in which the live element that stands for the recorded one at n differs: the only one that has its name and is
// none of the other recorded ones. Without a name, nobody must have added or removed an element.
func rekeyed(at place, n int, recorded, live []any, by owners) []Difference {
	nameOf := func(x any) (name string) {
		m, _ := x.(map[string]any)
		name, _ = m["name"].(string)
		return name
	}
	found, key := -1, fieldpath.PathElement{}
	for i, x := range live {
		part, owned := by.partOf(x, live)
		if !owned || part.Key == nil || nameOf(x) != nameOf(recorded[n]) || slices.ContainsFunc(recorded, func(r any) bool { return identifies(part, r) }) {
			continue
		}
		if found >= 0 {
			return nil
		}
		found, key = i, part
	}
	before, ok := recorded[n].(map[string]any)
	if found < 0 || !ok || nameOf(before) == "" && len(recorded) != len(live) {
		return nil
	}
	var c comparison
	for _, k := range *key.Key {
		if x, given := before[k.Name]; given && !value.Equals(k.Value, value.NewValueInterface(x)) {
			c.add(at.element(elementName(before, n), n, found).below(k.Name), false, by.of(key).of(fieldpath.FieldNameElement(k.Name)))
		}
	}
	return c.found
}

// elementName returns what people call an element of a list: its name, or else its index.
func elementName(element any, index int) string {
	m, _ := element.(map[string]any)
	if name, ok := m["name"].(string); ok {
		return name
	}
	return strconv.Itoa(index)
}

func isZero(x any) bool { return isEmpty(x) || reflect.ValueOf(x).IsZero() }
