package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/status"
)

// Fact is what is known of an object beyond its resource.Info. Info.Source
// holds its key, which survives the copies that Helm makes of an Info.
//
// A Fact is used by one goroutine at a time: by the one that builds and looks
// ahead, then by the one request for its object that is running.
type Fact struct {
	// Resource is the object with the annotations it was rendered with; some
	// of them cannot be sent to a cluster (R3).
	Resource plan.Resource
	Rule     status.Rule
	// Late means that the cluster did not know the kind at Build (R29).
	Late bool
	// Generated means that the object has no name but a generateName, which is
	// its name in Resource.
	Generated bool
	// Hook means that Helm executes the object as a hook.
	Hook bool
	// Unlabelled objects lack the label that Helm gives to release objects.
	Unlabelled bool
	// Owner is the release that the object belonged to before the operation, as
	// Owner names it, as far as that was looked up.
	Owner string

	before Before
	seen   *knownClient // what its next apply may take for what is there, see Recall
	hidden bool         // it cannot be looked at: the user may not, or nobody serves its API yet
	// sent is the object as it was sent the first time: the answer takes its
	// place in the Info, and cannot be sent again (R44).
	sent   *unstructured.Unstructured
	sentAt time.Time
}

// Before is what was there of an object before the operation.
type Before struct {
	// Known means that it was looked up, Version which resourceVersion it had,
	// empty where it was not there.
	Known   bool
	Version string

	helms []metav1.ManagedFieldsEntry // who has applied what of it, as far as that is Helm
	at    time.Time                   // when all this was known to be so
}

// Absent reports whether the object is known not to have been there.
func (b Before) Absent() bool { return b.Known && b.Version == "" }

// Before is what was there of the object before the operation.
func (f *Fact) Before() Before { return f.before }

// SetAbsent notes that the object has been found missing, or was taken away.
func (f *Fact) SetAbsent() { f.before = Before{Known: true} }

// KeepSent keeps the object as it is about to be sent, or puts it back.
func (f *Fact) KeepSent(i *resource.Info) {
	f.sentAt = time.Now()
	switch u, ok := i.Object.(*unstructured.Unstructured); {
	case f.sent != nil:
		i.Object = f.sent.DeepCopy()
	case ok:
		f.sent = u.DeepCopy()
	}
}

// Changed says what an apply did, as far as the object's version before it is
// known, and notes the version it has now.
func (f *Fact) Changed(i *resource.Info) event.Change {
	before := f.before
	f.before = Before{Known: true, Version: i.ResourceVersion}
	switch {
	case before.Absent():
		return event.Created
	case before.Version == i.ResourceVersion, before.appliedStill(i, f.sentAt):
		return event.Unchanged
	}
	return event.Configured
}

// appliedStill reports whether an answer with another version is of an object that only
// others, such as a controller, have changed since it was looked at: an apply that changes
// a field sets the time of Helm's entry, in seconds, to one after that look, and one that
// changes who owns a field changes the entry's fields.
func (b Before) appliedStill(i *resource.Info, sentAt time.Time) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok || len(b.helms) == 0 || sentAt.Sub(b.at) < time.Second {
		return false
	}
	return slices.EqualFunc(b.helms, entriesOfHelm(u), func(x, y metav1.ManagedFieldsEntry) bool {
		return x.Operation == y.Operation && x.APIVersion == y.APIVersion && x.Time.Equal(y.Time) && reflect.DeepEqual(fieldsOf(x), fieldsOf(y))
	})
}

// entriesOfHelm returns the managers of an object that are Helm: nothing where it has applied
// nothing of it.
func entriesOfHelm(o metav1.Object) (all []metav1.ManagedFieldsEntry) {
	applied := false
	for _, m := range o.GetManagedFields() {
		if m.Manager == connect.FieldManager && m.Subresource == "" {
			all = append(all, m)
			applied = applied || m.Operation == metav1.ManagedFieldsOperationApply
		}
	}
	if !applied {
		return nil
	}
	return all
}

func fieldsOf(m metav1.ManagedFieldsEntry) (fields map[string]any) {
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

// Version returns a resourceVersion as a number, 0 if it is none.
func Version(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Infer has the objects of a list judged by what was inferred for them, too: a tree
// says that of a revision.
func (b *Builder) Infer(tree *plan.Chart, list helmkube.ResourceList) error {
	if tree == nil || len(tree.Inferred) == 0 {
		return nil
	}
	var known []*Fact // as in Resources
	for _, i := range list {
		if f := b.Fact(i); f != nil {
			known = append(known, f)
		}
	}
	for n, r := range tree.Annotate(b.Resources(list)) {
		rule, _, err := status.ParseRule(r.Annotations)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Object, err)
		}
		known[n].Rule = rule
	}
	return nil
}
