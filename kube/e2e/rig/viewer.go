package rig

import (
	"context"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
)

// viewer runs a view and keeps its state.
type viewer struct {
	t    *testing.T
	View *kube.View
	Stop context.CancelFunc
	Done chan error // the result of the view's Run

	mu    sync.Mutex
	state event.State
}

// OpenView opens a view of a revision (0: the latest) of release t, with a separate connection.
func (r *Rig) OpenView(revision int) *viewer {
	r.T.Helper()
	view, err := Connect(r.T, r.Namespace).PrepareView(r.T.Context(), "t", r.Namespace, revision)
	if err != nil {
		r.T.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	v := &viewer{t: r.T, View: view, Stop: stop, Done: make(chan error, 1)}
	go follow(view.Feed(), func(e event.Event) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.state.Apply(e)
	})
	go func() { v.Done <- view.Run(ctx) }()
	r.T.Cleanup(stop)
	return v
}

// Await waits until ok returns true for the state. what describes the condition.
func (v *viewer) Await(what string, ok func(*event.State) bool) {
	v.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		v.mu.Lock()
		reached := ok(&v.state)
		v.mu.Unlock()
		if reached {
			return
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for g := range v.state.GroupStates() {
		v.t.Log(g.ID, g.Status, g.Message)
		for _, o := range g.Objects {
			v.t.Log(" ", o.Object, o.Status, o.Message)
		}
	}
	v.t.Fatalf("timed out after 30s: %s", what)
}

// AllGroups reports whether all groups have a status. It is false if there are no phases.
func AllGroups(s *event.State, status event.Status) bool {
	for g := range s.GroupStates() {
		if g.Status != status {
			return false
		}
	}
	return len(s.Phases) > 0
}
