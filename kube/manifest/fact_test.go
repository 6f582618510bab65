package manifest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
)

// TestChanged: an object with a new version counts as unchanged only if Helm's managed fields
// are the same.
func TestChanged(t *testing.T) {
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	applied := func(manager, operation string, at time.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), Time: &metav1.Time{Time: at}}
	}
	owning := func(m metav1.ManagedFieldsEntry, fields string) metav1.ManagedFieldsEntry {
		m.FieldsType, m.FieldsV1 = "FieldsV1", metav1.NewFieldsV1(fields)
		return m
	}
	was := []metav1.ManagedFieldsEntry{owning(applied("helm", "Apply", first), `{"f:data":{"f:b":{},"f:a":{}}}`), applied("kube", "Update", first)}
	for name, tt := range map[string]struct {
		answer  []metav1.ManagedFieldsEntry
		version string
		after   time.Duration
		want    event.Change
		sentTo  string // the version that the write required, "" for any
	}{
		"same version":                                 {was, "7", 0, event.Unchanged, ""},
		"controller":                                   {[]metav1.ManagedFieldsEntry{was[0], applied("kube", "Update", first.Add(time.Minute))}, "8", time.Second, event.Unchanged, ""},
		"maybe in the same second":                     {was, "8", 999 * time.Millisecond, event.Configured, ""},
		"fields in another order":                      {[]metav1.ManagedFieldsEntry{owning(was[0], `{"f:data":{"f:a":{},"f:b":{}}}`)}, "8", time.Second, event.Unchanged, ""},
		"another field owned by Helm":                  {[]metav1.ManagedFieldsEntry{owning(was[0], `{"f:data":{"f:a":{},"f:b":{},"f:c":{}}}`)}, "8", time.Minute, event.Configured, ""},
		"applied":                                      {[]metav1.ManagedFieldsEntry{applied("helm", "Apply", first.Add(time.Second)), was[1]}, "8", time.Minute, event.Configured, ""},
		"changed by an admission webhook":              {append(was[:2:2], applied("helm", "Update", first.Add(time.Second))), "8", time.Minute, event.Configured, ""},
		"not applied":                                  {[]metav1.ManagedFieldsEntry{applied("helm", "Update", first)}, "8", time.Minute, event.Configured, ""},
		"a status set by Helm":                         {append(was[:2:2], metav1.ManagedFieldsEntry{Manager: "helm", Operation: "Update", Subresource: "status"}), "8", time.Minute, event.Unchanged, ""},
		"fields of others removed, or lists reordered": {was, "8", time.Minute, event.Configured, "7"},
		"a controller, then nothing":                   {was, "8", time.Minute, event.Unchanged, "8"},
	} {
		found := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", ManagedFields: was}}
		if name == "not applied" {
			found.ManagedFields = tt.answer
		}
		i, f := infoOf("Gauge", "v1", "a"), &Fact{}
		answer(i, found, f)
		f.lastWrite.at = f.before.readAt.Add(tt.after)
		if tt.sentTo != "" {
			f.see(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: tt.sentTo}})
			f.Require(&resource.Info{Object: &unstructured.Unstructured{Object: map[string]any{}}}, false)
		}
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetManagedFields(tt.answer)
		if got := f.Changed(&resource.Info{ResourceVersion: tt.version, Object: u}); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestCreatedAgain: an apply created the object if there was none before, or another one, which is gone, also if the run learns that
// from the answer alone. After that, the object is the run's.
func TestCreatedAgain(t *testing.T) {
	object := func(uid, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		before, seen *metav1.PartialObjectMetadata
		want         event.Change
	}{
		"none before":                   {nil, nil, event.Created},
		"gone before the apply":         {object("old", "1"), nil, event.Created},
		"gone during the apply":         {object("old", "1"), object("old", "1"), event.Created},
		"the same":                      {object("new", "7"), object("new", "7"), event.Unchanged},
		"created meanwhile, by another": {object("old", "1"), object("new", "5"), event.Configured},
	} {
		i, f := infoOf("Gauge", "v1", "a"), &Fact{}
		answer(i, tt.before, f)
		if tt.seen != nil {
			f.see(tt.seen)
		} else {
			f.see(nil)
		}
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetUID("new")
		u.SetResourceVersion("7")
		for n, want := range []event.Change{tt.want, event.Unchanged} {
			if got := f.Changed(&resource.Info{ResourceVersion: "7", Object: u}); got != want {
				t.Errorf("%s: answer %d: %s, want %s", name, n+1, got, want)
			}
		}
	}
}
