package kube

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
)

// viewer follows a view.
type viewer struct {
	t    *testing.T
	view *View
	stop context.CancelFunc
	over chan error

	mu    sync.Mutex
	state event.State
}

// look starts a view of release t, by a connection of its own.
func (r *rig) look(revision int) *viewer {
	r.t.Helper()
	view, err := connected(r.t, r.namespace).PrepareView(r.t.Context(), "t", r.namespace, revision)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	v := &viewer{t: r.t, view: view, stop: stop, over: make(chan error, 1)}
	go func() {
		for reader := view.Feed().Reader(); ; {
			batch, ok := reader.Next(context.Background())
			if !ok {
				return
			}
			v.mu.Lock()
			for _, e := range batch {
				v.state.Apply(e)
			}
			v.mu.Unlock()
		}
	}()
	go func() { v.over <- view.Run(ctx) }()
	r.t.Cleanup(stop)
	return v
}

// await waits until the state is as it should be.
func (v *viewer) await(what string, so func(*event.State) bool) {
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
	for _, p := range v.state.Phases {
		for _, g := range p.Groups {
			v.t.Log(g.ID, g.Status, g.Message)
		}
	}
	v.t.Fatalf("never seen: %s", what)
}

// all reports whether all groups, and there are some, are in a status.
func all(s *event.State, status event.Status) bool {
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if g.Status != status {
				return false
			}
		}
	}
	return len(s.Phases) > 0
}

// TestViewFollowsARelease watches a release through what happens to it.
func TestViewFollowsARelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("fanout", nil)
	v := r.look(0)
	if !v.view.Sequenced() {
		t.Error("fanout was deployed in order")
	}
	v.await("all groups ready", func(s *event.State) bool { return all(s, event.Ready) })
	select {
	case <-v.view.Seen():
	case <-time.After(10 * time.Second):
		t.Error("each object has been seen, but Seen is open")
	}

	// A drift shows, and its end.
	deployments := r.cluster.AppsV1().Deployments(r.namespace)
	if err := deployments.Delete(t.Context(), "left-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	v.await("left-2 missing", func(s *event.State) bool {
		g := s.Find("apply", "fanout:left-2")
		return g.Status == event.Failed && g.Message == "Deployment/left-2: not in the cluster"
	})
	r.mustRun(r.upgrade("fanout", nil))
	v.await("revision 2, all groups ready", func(s *event.State) bool {
		return s.Operation.Revision == 2 && s.Message == "deployed" && all(s, event.Ready)
	})

	// Another chart has other groups.
	r.mustRun(r.upgrade("chain20", nil))
	v.await("the groups of revision 3", func(s *event.State) bool {
		return s.Operation.Revision == 3 && s.Find("apply", "chain20:g20") != nil && all(s, event.Ready)
	})
	r.mustRun(r.uninstall())
	select {
	case err := <-v.over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the release is gone, and the view goes on")
	}
	v.await("its end", func(s *event.State) bool { return s.Status == event.Succeeded })
}

// TestViewOfARunningInstall shows what is there of a release that is not
// deployed yet.
func TestViewOfARunningInstall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	var once sync.Once
	done := make(chan outcome, 1)
	go func() {
		done <- r.run(op, func(e event.Event) {
			if e.Group == "slow:slow" && e.Status == event.InProgress {
				once.Do(func() { close(begun) })
			}
		})
	}()
	select {
	case <-begun:
	case <-time.After(30 * time.Second):
		t.Fatal("slow never began")
	}
	v := r.look(0)
	v.await("one ready, one under way, one that waits", func(s *event.State) bool {
		before, slow, after := s.Find("apply", "slow:before"), s.Find("apply", "slow:slow"), s.Find("apply", "slow:after")
		return before != nil && before.Status == event.Ready && slow.Status == event.Running && after.Status == event.Waiting &&
			after.Objects[0].Status == event.Waiting && s.Message == "pending-install"
	})
	v.await("deployed", func(s *event.State) bool { return s.Message == "deployed" && all(s, event.Ready) })
	if out := <-done; out.err != nil {
		t.Error(out.err)
	}
	v.stop()
	if err := <-v.over; err != nil {
		t.Error(err)
	}
}

// TestViewOfOtherReleases looks at an earlier revision, at a release of Helm's,
// and at none.
func TestViewOfOtherReleases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.client.PrepareView(t.Context(), "t", r.namespace, 0); err == nil {
		t.Error("there is no release, and yet a view of it")
	}
	r.mustHelm("install", "t", chartsDir+"/plain", "--wait=hookOnly")
	v := r.look(0)
	if v.view.Sequenced() {
		t.Error("Helm does not deploy in order")
	}
	v.await("one group, ready", func(s *event.State) bool { return all(s, event.Ready) && len(s.Phases[0].Groups) == 1 })

	r.mustRun(r.upgrade("fanout", nil))
	old := r.look(1)
	old.await("revision 1, whose objects are gone", func(s *event.State) bool { return s.Operation.Revision == 1 && all(s, event.Failed) })
	old.stop()
	if err := <-old.over; err != nil {
		t.Error(err)
	}
}

// TestViewSaysWhy tells why an object of a release is not ready.
func TestViewSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fail-image", func(i *Install) { i.ReadinessTimeout = 5 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	r.run(op, nil)
	r.look(0).await("the reason, as a failure", func(s *event.State) bool {
		g := s.Find("apply", "fail-image:broken")
		return g != nil && strings.Contains(g.Objects[0].Cause, "cannot be pulled") && g.Objects[0].Status == event.Failed && g.Status == event.Failed
	})
}
