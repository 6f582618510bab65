package cluster

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
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
	owner          string // in the answer, in the form of manifest.OwnerOf
}

// objectState tells whether somebody has changed what an object is to be. The generation of a kind that has one does not
// change with the status; of the other kinds each write counts.
type objectState struct {
	uid        types.UID
	generation int64
	version    uint64
}

func stateOf(m metav1.Object) objectState {
	return objectState{m.GetUID(), m.GetGeneration(), status.ParseVersion(m.GetResourceVersion())}
}

// NewApplied returns an Applied without objects.
func NewApplied() *Applied { return &Applied{objects: map[plan.Object]*appliedObject{}} }

// answered records the answer to an apply.
func (a *Applied) answered(o plan.Object, m metav1.Object) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.objects[o] == nil {
		a.objects[o] = &appliedObject{}
	}
	a.objects[o].answered, a.objects[o].owner = stateOf(m), manifest.OwnerOf(m)
}

// saw records a state of an object in a watch.
func (a *Applied) saw(o plan.Object, m metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.objects[o] == nil {
		a.objects[o] = &appliedObject{}
	}
	a.objects[o].seen = stateOf(m)
}

// Written returns the objects that somebody, maybe a controller, has written to since they were applied, or has created again.
func (a *Applied) Written() (objects []plan.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range slices.SortedFunc(maps.Keys(a.objects), plan.Object.Compare) {
		if was, is := a.objects[o].answered, a.objects[o].seen; was.uid != "" && is.version > was.version &&
			(is.uid != was.uid || is.generation != was.generation || is.generation == 0) {
			objects = append(objects, o)
		}
	}
	return objects
}

// Lost returns why an object is not the release's any more, "" if it is: others have taken it over, or have created another one
// in its place, since it was applied. One that had not got the marks of the release at that time is never lost.
func (a *Applied) Lost(scope manifest.Scope, o plan.Object, live metav1.Object) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, owner := a.objects[o], manifest.OwnerOf(live)
	switch other := scope.Other(manifest.SeenAs(live)); {
	case was.owner != scope.Owner() || owner == was.owner:
		return ""
	case other != "":
		return "belongs to " + other + " now"
	case live.GetUID() != was.answered.uid:
		return "was deleted, and created again without the marks of the release"
	}
	return ""
}

// Reported ends the search for writes to an object up to now.
func (a *Applied) Reported(o plan.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[o].answered = a.objects[o].seen
}
