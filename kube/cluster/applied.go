package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/status"
)

// Applied are the objects that a run has applied, each as the API server answered and as the watches saw it last. Others may
// write to them until the run ends. A nil *Applied records nothing.
type Applied struct {
	mu      sync.Mutex
	objects map[plan.Object]*appliedObject
}

type appliedObject struct {
	answered, seen objectState
	uid            types.UID // in the answer
	owner          string    // in the answer, in the form of manifest.OwnerOf
	hook           bool

	changes int // the requests that may have changed it
}

// objectState tells whether somebody has changed what an object is to be. The generation of a kind that has one changes neither
// with the status nor with labels and annotations, which name the owner; of the other kinds each write counts.
type objectState struct {
	uid        types.UID
	generation int64
	version    uint64
	owner      string // in the form of manifest.OwnerOf
}

func stateOf(m metav1.Object) objectState {
	return objectState{m.GetUID(), m.GetGeneration(), status.ParseVersion(m.GetResourceVersion()), manifest.OwnerOf(m)}
}

// NewApplied returns an Applied without objects.
func NewApplied() *Applied { return &Applied{objects: map[plan.Object]*appliedObject{}} }

// of returns the entry of an object. The caller holds the lock.
func (a *Applied) of(o plan.Object) *appliedObject {
	if a.objects[o] == nil {
		a.objects[o] = &appliedObject{}
	}
	return a.objects[o]
}

// sending records that an object is about to be applied: until the answer, nothing tells whether a new one is the run's.
func (a *Applied) sending(o plan.Object) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(o).answered = objectState{}
}

// request sends a request that applies or deletes an object. Unless the API server has refused it for certain, or changedNothing
// follows, the object counts as touched.
func (a *Applied) request(o plan.Object, send func() error) error {
	a.count(o, 1)
	err := send()
	if err != nil && !connect.MayHaveArrived(err) {
		a.count(o, -1)
	}
	return err
}

// changedNothing records that the API server has answered the last request: the object was as it was sent.
func (a *Applied) changedNothing(o plan.Object) { a.count(o, -1) }

func (a *Applied) count(o plan.Object, changes int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(o).changes += changes
}

// Touched reports whether a request may have changed or deleted an object. What stopped the run before a request, such as a saved
// plan or a lock that was lost, has not.
func (a *Applied) Touched(o plan.Object) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.objects[o]
	return e != nil && e.changes > 0
}

// answered records the answer to an apply.
func (a *Applied) answered(o plan.Object, m metav1.Object, hook bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.of(o)
	e.answered, e.uid, e.owner, e.hook = stateOf(m), m.GetUID(), manifest.OwnerOf(m), hook
}

// Replaced records a later state of an object. It reports whether that is another one than the run applied: somebody has
// deleted the run's, and created one from outside the release, or no hook's of this run.
func (a *Applied) Replaced(scope manifest.Scope, o plan.Object, m metav1.Object) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.of(o)
	e.seen = stateOf(m)
	was := e.answered
	return was.uid != "" && e.seen.uid != was.uid && e.seen.version > was.version &&
		(e.hook || e.owner == scope.Owner() && e.seen.owner != e.owner)
}

// Written returns the objects that somebody, maybe a controller, has written to since they were applied, or has created again.
func (a *Applied) Written() (objects []plan.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range slices.SortedFunc(maps.Keys(a.objects), plan.Object.Compare) {
		if was, is := a.objects[o].answered, a.objects[o].seen; was.uid != "" && !a.objects[o].hook && is.version > was.version &&
			(is.uid != was.uid || is.generation != was.generation || is.generation == 0 || is.owner != was.owner) {
			objects = append(objects, o)
		}
	}
	return objects
}

// Taken returns who has taken over an object since it was applied, "" for nobody. One that had not got the marks of the release at
// that time is never taken.
func (a *Applied) Taken(scope manifest.Scope, o plan.Object, live metav1.Object) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.objects[o].owner; was != scope.Owner() || manifest.OwnerOf(live) == was {
		return ""
	}
	return scope.Other(manifest.SeenAs(live))
}

// UID returns the UID that an object had when it was applied, "" if it is unknown.
func (a *Applied) UID(o plan.Object) types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.objects[o]; e != nil {
		return e.uid
	}
	return ""
}

// Exists reads whether an object still exists. Another one of the same name does not count, even one of the release. One that it cannot read
// counts.
func Exists(ctx context.Context, c *connect.Client, o plan.Object, uid types.UID) bool {
	mapper, err := c.Getter.ToRESTMapper()
	if err != nil {
		return true
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
	if err != nil {
		return true
	}
	live, err := c.Dynamic.Resource(mapping.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	return !apierrors.IsNotFound(err) && (err != nil || live.GetUID() == uid)
}

// Reported ends the search for writes to an object up to now.
func (a *Applied) Reported(o plan.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[o].answered = a.objects[o].seen
}

// noteRefusal records whether the apply of an object was refused. The objects that follow in its group are then not sent.
func (t *Target) noteRefusal(g *plan.Group, obj plan.Object, err error) {
	t.attempts[obj].refused.Store(err != nil)
	if err == nil {
		return
	}
	for _, o := range g.Objects {
		if a := t.attempts[o]; a != nil {
			a.refused.Store(true)
		}
	}
}

// compared returns the observation of a ready object that was refused, or not sent: it is in progress while it differs from the
// chart's, or while applying it would change it (R44).
func (t *Target) compared(ctx context.Context, ob run.Observation) run.Observation {
	i, a := t.infos[ob.Object], t.attempts[ob.Object]
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refused.Load() {
		return ob
	}
	live, err := t.read(ctx, i)
	if err != nil {
		ob.Status, ob.Message = event.InProgress, diagnose.Unreadable(ob.Object.String(), err)
		return ob
	}
	next := *i
	sent := i.Object.(*unstructured.Unstructured).DeepCopy()
	sent.SetResourceVersion("") // of the request
	sent.SetUID("")
	next.Object = sent
	stored := manifest.AsStored(sent)
	found := slices.Concat(manifest.Differences(stored, live), manifest.Rewritten(stored, live))
	if len(found) == 0 && t.DryRun != nil { // it may still have what the chart no longer has
		if would, err := t.DryRun(&next, live); err == nil {
			found = manifest.Changes(live, would)
		}
	}
	var differs []string
	for _, d := range found {
		differs = append(differs, d.Field)
	}
	if len(differs) > 0 {
		ob.Status, ob.Message = event.InProgress, "not applied, and differs from the chart in "+text.JoinAnd(differs)+"; a retry applies it"
	}
	return ob
}

func (t *Target) read(ctx context.Context, i *resource.Info) (*unstructured.Unstructured, error) {
	return t.session.Client.Dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
}
