package rig

import (
	"context"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
)

// viewer follows a view.
type viewer struct {
	t    *testing.T
	View *kube.View
	Stop context.CancelFunc
	Over chan error

	mu    sync.Mutex
	state event.State
}

// Look opens a view of release t with a separate connection.
func (r *Rig) Look(revision int) *viewer {
	r.T.Helper()
	view, err := Connected(r.T, r.Namespace).PrepareView(r.T.Context(), "t", r.Namespace, revision)
	if err != nil {
		r.T.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	v := &viewer{t: r.T, View: view, Stop: stop, Over: make(chan error, 1)}
	go follow(view.Feed(), func(e event.Event) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.state.Apply(e)
	})
	go func() { v.Over <- view.Run(ctx) }()
	r.T.Cleanup(stop)
	return v
}

// Await waits until the state fulfils a condition.
func (v *viewer) Await(what string, so func(*event.State) bool) {
	v.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		v.mu.Lock()
		ok := so(&v.state)
		v.mu.Unlock()
		if ok {
			return
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for g := range v.state.GroupStates() {
		v.t.Log(g.ID, g.Status, g.Message)
	}
	v.t.Fatalf("never seen: %s", what)
}

// All reports whether there are groups and all of them have a status.
func All(s *event.State, status event.Status) bool {
	for g := range s.GroupStates() {
		if g.Status != status {
			return false
		}
	}
	return len(s.Phases) > 0
}
