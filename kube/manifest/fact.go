package manifest

import (
	"fmt"
	"slices"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// Fact is additional data about the object of a resource.Info. Info.Source is its key, because
// Helm copies Infos.
//
// Only one goroutine uses a Fact at a time: first the one that builds and prefetches the object,
// then the one that sends it.
type Fact struct {
	// Resource is the object with its rendered annotations; some of them cannot be sent
	// to a cluster (R3).
	Resource plan.Resource
	Rule     status.Rule // with Hook for the objects of hooks
	// Late is set if the cluster did not know the kind at Build (R29).
	Late bool
	// Generated is set if the object has a generateName instead of a name. Resource has it as
	// the name.
	Generated bool
	// Replaces is set if the previous object of that name is deleted before this one is applied, as Helm does with hooks.
	Replaces bool
	// Unlabelled is set if the object lacks the label that Helm adds to release objects.
	Unlabelled bool

	before     Before
	seen       Seen
	prefetched *prefetchedClient // for Recall
	unreadable bool              // the user may not read it, or its API is not served yet
	// sent is the object as it was first sent, for retries (R44). In the Info, the response
	// replaces it, and a response cannot be sent.
	sent      *unstructured.Unstructured
	lastWrite lastWrite
}

// lastWrite is when an object was last sent, and the only version to which that could be applied, "" if it allowed any
// (Require).
type lastWrite struct {
	at time.Time
	to string
}

// Before is the state of an object before the operation, or before it sends the object again.
type Before struct {
	Known       bool   // Version is known
	Version     string // its resourceVersion, "" if it did not exist
	Terminating bool   // it was being deleted
	Err         error  // set by SetUnread

	uid        types.UID
	created    bool // by this operation
	generation int64
	fields     []metav1.ManagedFieldsEntry // those that Helm manages
	owned      []metav1.ManagedFieldsEntry // see OwnsAll
	readAt     time.Time
}

// Absent reports whether the object certainly did not exist.
func (b Before) Absent() bool { return b.Known && b.Version == "" }

// Before returns the state of the object before the operation.
func (f *Fact) Before() Before { return f.before }

// SetAbsent records that the object does not exist.
func (f *Fact) SetAbsent() { f.before, f.seen = Before{Known: true}, Seen{Known: true} }

// SetUnread records why an uninstall could not read the object, and so keeps it.
func (f *Fact) SetUnread(err error) { f.before, f.seen = Before{Err: err}, Seen{} }

// KeepSent stores the object before it is first sent, and restores it before a retry.
func (f *Fact) KeepSent(i *resource.Info) {
	f.lastWrite.at = time.Now()
	if f.sent != nil {
		i.Object = f.sent.DeepCopy()
	} else if u, ok := i.Object.(*unstructured.Unstructured); ok {
		f.sent = u.DeepCopy()
	}
}

// Changed returns whether an apply created, configured or did not change the object, and records its version. The apply
// configured it if the version is another one than that to which the apply was sent: an update that only removes fields of
// others, or only reorders a list, leaves no trace in Helm's managed fields. These tell who made other versions since the
// operation read the object: the last attempt, whose answer was lost, or others. The apply created the object if there was
// none before the operation, or if it is not the one to which the apply was sent: that was gone.
func (f *Fact) Changed(i *resource.Info) event.Change {
	before, sentTo := f.before, f.seen
	f.recordWrite(i)
	created := before.Absent() || sentTo.Known && sentTo.UID != f.seen.UID
	f.before = Before{Known: true, Version: i.ResourceVersion, uid: f.seen.UID, created: created || before.created && before.uid == f.seen.UID, generation: generationOf(i)}
	switch {
	case created:
		return event.Created
	case before.Version == i.ResourceVersion:
		return event.Unchanged
	case f.lastWrite.to != "" && f.lastWrite.to != i.ResourceVersion:
		return event.Configured
	case before.unchangedByHelm(i, f.lastWrite.at):
		return event.Unchanged
	}
	return event.Configured
}

// KeepsGeneration reports whether an apply that has been answered left the object's generation as it was: a status that was
// written before it is still about the object. Call it before Changed.
func (f *Fact) KeepsGeneration(i *resource.Info) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	return ok && f.before.generation > 0 && f.before.uid == u.GetUID() && f.before.generation == u.GetGeneration()
}

// unchangedByHelm reports whether only others, such as a controller, have changed an object since it
// was read. If an apply changes a value, it updates the time of Helm's managed fields, in whole
// seconds; if it only changes the owner of a field, Helm manages other fields afterwards.
func (b Before) unchangedByHelm(i *resource.Info, sentAt time.Time) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok || len(b.fields) == 0 || sentAt.Sub(b.readAt) < time.Second {
		return false
	}
	return slices.EqualFunc(b.fields, entriesOfHelm(u), func(x, y metav1.ManagedFieldsEntry) bool {
		return x.Operation == y.Operation && x.APIVersion == y.APIVersion && x.Time.Equal(y.Time) && FieldsOf(x).Equals(FieldsOf(y))
	})
}

func generationOf(i *resource.Info) int64 {
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		return u.GetGeneration()
	}
	return 0
}

// entriesOfHelm returns Helm's entries in an object's managed fields, nil if Helm has not applied it.
func entriesOfHelm(o metav1.Object) []metav1.ManagedFieldsEntry {
	all := ownedByHelm(o)
	if !slices.ContainsFunc(all, func(m metav1.ManagedFieldsEntry) bool { return m.Operation == metav1.ManagedFieldsOperationApply }) {
		return nil
	}
	return all
}

// Infer updates the readiness rules of a list with the inferred annotations of a tree.
func (b *Builder) Infer(tree *plan.Chart, list helmkube.ResourceList) error {
	if tree == nil || len(tree.Inferred) == 0 {
		return nil
	}
	known, declared := b.facts(list), b.Resources(list)
	for n, r := range tree.Annotate(declared) {
		rule, err := b.scope.Readiness.RuleOf(r.Object, r.Labels, r.Annotations)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Object, err)
		}
		own, _ := b.scope.Readiness.RuleOf(r.Object, r.Labels, declared[n].Annotations) // an invalid one was refused above
		rule.Inferred = rule.Custom() && !own.Custom()
		known[n].Rule = rule
	}
	return nil
}
