package status

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/plan"
)

// sharing runs a test with a Hub in a synctest bubble.
func sharing(t *testing.T, o Options, f func(t *testing.T, s *server, h *Hub)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		h := NewHub(t.Context(), s, o)
		defer h.Close()
		f(t, s, h)
	})
}

func in(namespace, name string) Target {
	t := target(name, true)
	t.Object.Namespace = namespace
	return t
}

// TestRefresh reads objects whose watch has stalled: the state is reported before Refresh returns, and an older event of the
// watch, which arrives later, changes nothing. Refresh waits for nothing where nobody watches.
func TestRefresh(t *testing.T) {
	for _, all := range []bool{false, true} {
		sharing(t, Options{AllNamespaces: all}, func(t *testing.T, s *server, h *Hub) {
			var r recorder
			s.set("a", "Pending") // 101
			s.set("b", "Pending")
			w := h.Watcher(t.Context(), nil)
			w.Watch(t.Context(), []Target{target("a", true), target("b", true), target("c", true)}, r.report)
			synctest.Wait()
			s.stalled = true
			old := s.objects["a"].DeepCopy()
			s.set("a", "Succeeded") // 103
			s.set("b", "")          // 104
			s.set("c", "Pending")   // 105
			r.take()
			for _, name := range []string{"a", "b", "c"} {
				w.Refresh(t.Context(), target(name, true).Object)
				got := r.take()
				want(t, "the state of "+name, got, map[string]string{"a": "a ready 103 succeeded", "b": "b gone 105", "c": "c in-progress 105 pending"}[name])
			}
			s.watches[0].Modify(old)
			synctest.Wait()
			want(t, "reports of an older event", r.take())
			w.Refresh(t.Context(), plan.Object{Kind: "Pod", Namespace: "ns", Name: "unknown"})
			w.Close()
			w.Refresh(t.Context(), target("a", true).Object)
		})
	}
}

// TestWatchersShare expects one list and one watch for all Watchers, until the last one has been closed for a while. Each
// Watcher gets only its own objects.
func TestWatchersShare(t *testing.T) {
	sharing(t, Options{Span: maxSpan}, func(t *testing.T, s *server, h *Hub) {
		var a, b, c recorder
		s.set("a", "Pending") // 101
		one, two := h.Watcher(t.Context(), nil), h.Watcher(t.Context(), nil)
		one.Watch(t.Context(), []Target{target("a", true)}, a.report)
		two.Watch(t.Context(), []Target{target("b", true)}, b.report)
		synctest.Wait()
		want(t, "requests", s.seen(), "list app.kubernetes.io/managed-by=Helm", "watch 101")
		want(t, "reports to the first Watcher", a.take(), "a in-progress 101 pending")
		want(t, "reports to the second Watcher", b.take(), "b gone 101")

		s.set("b", "Pending") // 102
		synctest.Wait()
		want(t, "reports about an object of another Watcher", a.take())
		want(t, "reports about its own object", b.take(), "b in-progress 102 pending")

		two.Close()
		s.set("b", "Running")
		s.set("a", "Running") // 104
		synctest.Wait()
		want(t, "reports after Close", b.take())
		want(t, "reports to the Watcher that is still open", a.take(), "a in-progress 104 running but not ready")

		one.Close()
		time.Sleep(30 * time.Second)
		three := h.Watcher(t.Context(), nil)
		three.Watch(t.Context(), []Target{target("a", true)}, c.report)
		synctest.Wait()
		want(t, "reports to a Watcher that starts soon afterwards", c.take(), "a in-progress 104 running but not ready")
		want(t, "further requests", s.seen())
		time.Sleep(2 * time.Minute)
		s.set("a", "Pending") // 105
		synctest.Wait()
		want(t, "reports while the watch is used", c.take(), "a in-progress 105 pending")
		three.Close()
		time.Sleep(2 * time.Minute)
		if s.mu.Lock(); !s.watches[0].IsStopped() {
			t.Error("a watch without users continues")
		}
		s.mu.Unlock()
	})
}

// TestNotices expects that each Watcher is told about a limit on watching, even if it starts after the limit was found.
func TestNotices(t *testing.T) {
	sharing(t, Options{}, func(t *testing.T, s *server, h *Hub) {
		var first, second, r recorder
		s.fail(nil, apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no")), nil)
		h.Watcher(t.Context(), first.notice).Watch(t.Context(), []Target{target("a", true)}, r.report)
		synctest.Wait()
		late := h.Watcher(t.Context(), second.notice)
		late.Watch(t.Context(), []Target{target("b", true)}, r.report)
		late.Watch(t.Context(), []Target{target("c", true)}, r.report)
		synctest.Wait()
		const text = "R22: no permission to watch pods in namespace ns; polling every 2s instead"
		want(t, "notices of the first Watcher", first.take(), text)
		want(t, "notices of a later Watcher", second.take(), text)
	})
}

// TestExisted expects that an object is not Gone because a shared watch is older than Target.Existed.
func TestExisted(t *testing.T) {
	sharing(t, Options{}, func(t *testing.T, s *server, h *Hub) {
		var r, later recorder
		h.Watcher(t.Context(), nil).Watch(t.Context(), []Target{target("other", true)}, r.report)
		synctest.Wait() // version 100 was seen
		known := target("a", true)
		known.Existed = 101
		h.Watcher(t.Context(), nil).Watch(t.Context(), []Target{known}, later.report)
		synctest.Wait()
		want(t, "reports while the object may still appear", later.take())
		s.set("a", "Pending") // 101
		synctest.Wait()
		want(t, "reports after it appeared", later.take(), "a in-progress 101 pending")
		s.set("a", "") // 102
		synctest.Wait()
		want(t, "reports after its deletion", later.take(), "a gone 102")

		known = target("b", true)
		known.Existed = 103
		h.Watcher(t.Context(), nil).Watch(t.Context(), []Target{known}, later.report)
		synctest.Wait()
		want(t, "reports before the watch has reached Existed", later.take())
		s.bookmark(104)
		synctest.Wait()
		want(t, "reports after the watch has passed Existed", later.take(), "b gone 100")

		known = target("c", true)
		known.Existed = 1 << 40 // some servers have versions that never reach it
		h.Watcher(t.Context(), nil).Watch(t.Context(), []Target{known}, later.report)
		time.Sleep(time.Minute)
		want(t, "reports within maxBookmarkDelay", later.take())
		time.Sleep(time.Minute)
		want(t, "reports after maxBookmarkDelay", later.take(), "c gone 100")
	})
}

// TestWatchOfAllNamespaces expects one watch for the objects of all namespaces, which may have equal names. If that is
// forbidden, it expects one for each namespace.
func TestWatchOfAllNamespaces(t *testing.T) {
	sharing(t, Options{AllNamespaces: true}, func(t *testing.T, s *server, h *Hub) {
		var r recorder
		s.set("a", "Pending")
		h.Watcher(t.Context(), nil).Watch(t.Context(), []Target{in("ns", "a"), in("elsewhere", "a")}, r.report)
		h.Watcher(t.Context(), nil).Watch(t.Context(), []Target{in("third", "a")}, r.report)
		synctest.Wait()
		want(t, "requests", s.seen(), "list app.kubernetes.io/managed-by=Helm", "watch 101")
		want(t, "reports", r.take(), "a gone 101", "a gone 101", "a in-progress 101 pending")
	})
	sharing(t, Options{AllNamespaces: true}, func(t *testing.T, s *server, h *Hub) {
		var r recorder
		s.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetNamespace() == "" {
				return true, nil, apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no"))
			}
			return false, nil, nil
		})
		s.set("a", "Pending")
		ctx, cancel := context.WithCancel(t.Context())
		w := h.Watcher(t.Context(), func(w plan.Warning) { t.Errorf("warned: %s", w) })
		w.Watch(ctx, []Target{in("ns", "a"), in("ns", "b")}, r.report)
		synctest.Wait()
		w.Watch(t.Context(), []Target{in("ns", "c")}, r.report)
		synctest.Wait()
		want(t, "reports", r.take(), "a in-progress 101 pending", "b gone 101", "c gone 101")
		want(t, "requests", s.seen(), "list app.kubernetes.io/managed-by=Helm", "watch 101")
		cancel()
		synctest.Wait()
		s.set("b", "Pending")
		s.set("c", "Pending")
		synctest.Wait()
		want(t, "reports after the first Watch has ended", r.take(), "c in-progress 103 pending")
	})
}

// TestNamedWatchesAreLimited watches many objects without the label one after another, and expects few watches by name.
func TestNamedWatchesAreLimited(t *testing.T) {
	sharing(t, Options{AllNamespaces: true}, func(t *testing.T, s *server, h *Hub) {
		w := h.Watcher(t.Context(), nil)
		for i := range 3 * maxNamedWatches {
			var r recorder
			ctx, cancel := context.WithCancel(t.Context())
			hook := in("ns", "hook"+string(rune('a'+i)))
			hook.Labelled = false
			w.Watch(ctx, []Target{hook}, r.report)
			synctest.Wait()
			if got := r.take(); len(got) != 1 {
				t.Errorf("reports %v", got)
			}
			cancel()
			synctest.Wait()
		}
		watches := slices.DeleteFunc(s.seen(), func(r string) bool { return r[:4] == "list" })
		if len(watches) != maxNamedWatches+1 {
			t.Errorf("%d watches", len(watches))
		}
	})
}

// bookmark sends a bookmark to the open watches.
func (s *server) bookmark(version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	u.SetResourceVersion(strconv.Itoa(version))
	for _, w := range s.watches {
		if !w.IsStopped() {
			w.Action("BOOKMARK", u)
		}
	}
}
