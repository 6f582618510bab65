package status

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func target(name string, labelled bool) Target {
	return Target{Object: plan.Object{Kind: "Pod", Namespace: "ns", Name: name}, GVR: pods, Namespaced: true, Labelled: labelled}
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// watching runs a test in a synctest bubble, which also finds leaked goroutines.
func watching(t *testing.T, f func(t *testing.T, s *server, w *Watcher, notices *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		s, notices := newServer(), &recorder{}
		h := NewHub(t.Context(), s, Options{Span: maxSpan}) // the server ends no watch
		defer h.Close()
		w := h.Watcher(t.Context(), notices.notice)
		defer w.Close()
		f(t, s, w, notices)
	})
}

func TestWatchReportsEveryChange(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, _ *recorder) {
		var r, late recorder
		s.set("a", "Pending") // 101
		w.Watch(t.Context(), []Target{target("a", true), target("b", true)}, r.report)
		synctest.Wait()
		want(t, "first reports", r.take(), "a in-progress 101 pending", "b gone 101")
		want(t, "requests", s.seen(), "list app.kubernetes.io/managed-by=Helm", "watch 101")

		s.set("a", "Running") // 102
		s.set("b", "Pending") // 103
		s.set("other", "Pending")
		synctest.Wait()
		want(t, "reports of changes", r.take(), "a in-progress 102 running but not ready", "b in-progress 103 pending")

		w.Watch(t.Context(), []Target{target("b", true), target("other", true), target("never", true)}, late.report)
		synctest.Wait()
		want(t, "reports of a later Watch", late.take(), "b in-progress 103 pending", "never gone 101", "other in-progress 104 pending")

		s.set("b", "") // 105
		synctest.Wait()
		want(t, "reports of the deletion", r.take(), "b gone 105")
		want(t, "reports of the deletion, later Watch", late.take(), "b gone 105")
		want(t, "further requests", s.seen())
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, _ *recorder) {
		var r, other recorder
		ctx, cancel := context.WithCancel(t.Context())
		w.Watch(ctx, []Target{target("a", true)}, r.report)
		w.Watch(t.Context(), []Target{target("a", true)}, other.report)
		synctest.Wait()
		r.take()
		other.take()
		cancel()
		synctest.Wait()
		s.set("a", "Pending")
		synctest.Wait()
		want(t, "reports after the context has ended", r.take())
		want(t, "reports of the other Watch", other.take(), "a in-progress 101 pending")

		w.Close()
		s.set("a", "Running")
		want(t, "reports after Close", other.take())
		w.Watch(t.Context(), []Target{target("a", true)}, other.report)
		want(t, "reports of a Watch after Close", other.take())
	})
}

func TestWatchByName(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, _ *recorder) {
		var r recorder
		ctx, cancel := context.WithCancel(t.Context())
		s.set("hook", "Pending")
		w.Watch(ctx, []Target{target("hook", false)}, r.report)
		synctest.Wait()
		want(t, "reports", r.take(), "hook in-progress 101 pending")
		want(t, "requests", s.seen(), "list  metadata.name=hook", "watch 101")
		cancel()
		synctest.Wait()
		s.mu.Lock()
		stopped := s.watches[0].IsStopped()
		s.mu.Unlock()
		if !stopped {
			t.Error("the watch of a single object continues after its last subscription")
		}

		var many []Target
		for i := range maxNamedWatches {
			many = append(many, target("p"+strconv.Itoa(i), false))
		}
		s.seen()
		w.Watch(t.Context(), many, r.report)
		synctest.Wait()
		want(t, "requests for many objects", s.seen(), "list", "watch 101")
	})
}

// TestWatchThatHangs expects that a watch that neither delivers events nor ends is replaced soon after the time at which the
// server should have ended it (R53).
func TestWatchThatHangs(t *testing.T) {
	sharing(t, Options{}, func(t *testing.T, s *server, h *Hub) {
		var r recorder
		s.set("a", "Pending")
		w := h.Watcher(t.Context(), nil)
		w.Watch(t.Context(), []Target{target("a", true)}, r.report)
		synctest.Wait()
		r.take()
		s.seen()
		s.mu.Lock()
		s.stalled = true
		s.mu.Unlock()
		s.set("a", "Running") // 102
		time.Sleep(initialSpan + endMargin - time.Second)
		synctest.Wait()
		want(t, "requests while the watch may still end", s.seen())
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "requests afterwards", s.seen(), "watch 101")
	})
}

func TestWatchRecoversFromOutages(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
		var r recorder
		s.set("a", "Pending")
		w.Watch(t.Context(), []Target{target("a", true)}, r.report)
		synctest.Wait()
		r.take()
		s.seen()

		time.Sleep(time.Minute)
		s.end(nil) // a timeout on the server
		synctest.Wait()
		want(t, "requests after a timeout", s.seen(), "watch 101")

		s.fail(errors.New("connection refused"), errors.New("connection refused"), nil)
		s.end(nil)
		time.Sleep(20 * time.Second)
		s.set("a", "Running")
		s.fail(nil, nil, nil)
		if n := len(s.seen()); n < 6 || n > 12 {
			t.Errorf("%d attempts in 20 s", n)
		}
		want(t, "notices", notices.take(), "R22: cannot watch pods in namespace ns, retrying: connection refused")
		time.Sleep(12 * time.Second)
		want(t, "requests after the outage", s.seen(), "watch 101")

		gone := apierrors.NewResourceExpired("too old")
		s.end(gone)
		time.Sleep(time.Second)
		want(t, "requests after the version expired", s.seen()[:1], "list app.kubernetes.io/managed-by=Helm")
		want(t, "reports of missed changes", r.take(), "a in-progress 102 running but not ready")

		s.end(apierrors.NewTooManyRequests("slow down", 10))
		time.Sleep(7 * time.Second)
		want(t, "requests before Retry-After has passed", s.seen())
		time.Sleep(6 * time.Second)
		want(t, "requests after Retry-After has passed", s.seen(), "watch 102")

		s.set("a", "")
		s.end(apierrors.NewInternalError(errors.New("restart")))
		s.fail(nil, gone, nil)
		time.Sleep(time.Minute)
		want(t, "reports of a missed deletion", r.take(), "a gone 103")
		if n := len(s.seen()); n > 60 {
			t.Errorf("%d requests in a minute while versions expire", n)
		}
	})
}

func TestWatchUnknownKind(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
		var r recorder
		s.fail(apierrors.NewGenericServerResponse(http.StatusNotFound, "list", pods.GroupResource(), "", "", 0, true), nil, nil)
		w.Watch(t.Context(), []Target{target("a", true)}, r.report)
		time.Sleep(time.Minute)
		want(t, "reports while the kind is unknown", r.take(), "a gone 0")
		want(t, "notices", notices.take())
		s.set("a", "Pending")
		s.fail(nil, nil, nil)
		time.Sleep(time.Second)
		want(t, "reports after the kind is known", r.take(), "a in-progress 101 pending")
	})
}

func TestPollsWithoutPermissionToWatch(t *testing.T) {
	forbidden := apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no"))
	t.Run("by list", func(t *testing.T) {
		watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
			var r recorder
			s.fail(nil, forbidden, nil)
			s.set("a", "Pending")
			w.Watch(t.Context(), []Target{target("a", true), target("b", true)}, r.report)
			time.Sleep(5 * time.Second)
			s.set("b", "Pending")
			time.Sleep(5 * time.Second)
			want(t, "reports", r.take(), "a in-progress 101 pending", "b gone 101", "b in-progress 102 pending")
			want(t, "notice", notices.take(), "R22: no permission to watch pods in namespace ns; polling every 2s instead")
			if n := len(s.seen()); n < 6 || n > 9 {
				t.Errorf("%d requests in 10 s", n)
			}
		})
	})
	t.Run("not supported", func(t *testing.T) {
		watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
			s.fail(nil, apierrors.NewMethodNotSupported(pods.GroupResource(), "watch"), nil)
			w.Watch(t.Context(), []Target{target("a", true)}, func(run.Observation) {})
			synctest.Wait()
			want(t, "notice", notices.take(), "R22: the API server cannot watch pods in namespace ns; polling every 2s instead")
		})
	})
	t.Run("listing is not supported", func(t *testing.T) {
		watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
			s.fail(apierrors.NewMethodNotSupported(pods.GroupResource(), "list"), nil, nil)
			w.Watch(t.Context(), []Target{target("a", true)}, func(run.Observation) {})
			synctest.Wait()
			want(t, "notice", notices.take(), "R22: the API server cannot list pods in namespace ns; reading each object every 2s instead")
		})
	})
	t.Run("kind is removed", func(t *testing.T) {
		watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
			var r recorder
			s.fail(nil, forbidden, nil)
			s.set("a", "Pending")
			w.Watch(t.Context(), []Target{target("a", true)}, r.report)
			time.Sleep(5 * time.Second)
			s.fail(apierrors.NewGenericServerResponse(http.StatusNotFound, "list", pods.GroupResource(), "", "", 0, true), forbidden, nil)
			time.Sleep(5 * time.Second)
			want(t, "reports", r.take(), "a gone 0", "a in-progress 101 pending")
			if n := notices.take(); len(n) != 1 {
				t.Errorf("notices %q", n)
			}
		})
	})
	t.Run("by object", func(t *testing.T) {
		watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
			var r, late recorder
			s.fail(forbidden, forbidden, nil)
			s.set("a", "Pending")
			w.Watch(t.Context(), []Target{target("a", true), target("b", true)}, r.report)
			time.Sleep(5 * time.Second)
			want(t, "reports", r.take(), "a in-progress 101 pending", "b gone 0")
			w.Watch(t.Context(), []Target{target("c", true)}, late.report)
			synctest.Wait()
			want(t, "immediate reports of a later Watch", late.take(), "c gone 0")
			s.set("a", "")
			s.set("b", "Running")
			time.Sleep(3 * time.Second)
			want(t, "reports of changes", r.take(), "a gone 0", "b in-progress 103 running but not ready")
			want(t, "notice", notices.take(), "R22: no permission to list pods in namespace ns; reading each object every 2s instead")

			s.fail(forbidden, forbidden, forbidden)
			time.Sleep(3 * time.Second)
			want(t, "reports without any permission", r.take(),
				"a in-progress 0 cannot be read: pods is forbidden: no", "b in-progress 0 cannot be read: pods is forbidden: no")
			s.fail(forbidden, forbidden, errors.New("connection refused"))
			time.Sleep(20 * time.Second)
			want(t, "notices of an outage", notices.take(), "R22: cannot watch pods in namespace ns, retrying: connection refused")
		})
	})
}

func TestRecheck(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
		var r recorder
		s.objects["p"] = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "p", "resourceVersion": "7", "labels": helmLabels, "creationTimestamp": time.Now().Format(time.RFC3339)},
			"status": map[string]any{"phase": "Pending", "conditions": []any{
				map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}}}}}
		w.Watch(t.Context(), []Target{target("p", true)}, r.report)
		time.Sleep(14 * time.Second)
		want(t, "reports before 15 s", r.take(), "p in-progress 7 cannot be scheduled")
		time.Sleep(2 * time.Second)
		want(t, "reports after 15 s", r.take(), "p failed 7 cannot be scheduled")
		want(t, "further requests", s.seen()[2:])
	})
}

func TestDoubtsAreReportedOnce(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, notices *recorder) {
		var r recorder
		tg := target("a", true)
		tg.Rule = Rule{Success: expressions(t, `{.phase} > 1`), Failure: expressions(t, `{.phase} == Failed`)}
		w.Watch(t.Context(), []Target{tg}, r.report)
		synctest.Wait()
		s.set("a", "Pending")
		s.set("a", "Pending")
		synctest.Wait()
		want(t, "notices", notices.take(), `R23: Pod/a: {.phase} > 1 compares numbers, but found "Pending"`)
	})
}

// TestListPages reads a list of several pages whose second page expires once.
func TestListPages(t *testing.T) {
	watching(t, func(t *testing.T, s *server, w *Watcher, _ *recorder) {
		var r recorder
		expire := true
		s.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}
			opts := a.(clienttesting.ListActionImpl).ListOptions
			name := "first"
			list.SetResourceVersion("5")
			switch {
			case opts.Continue == "":
				list.SetContinue("more")
			case expire:
				expire = false
				return true, nil, apierrors.NewResourceExpired("continue token")
			default:
				name = "second"
			}
			u := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
			u.SetName(name)
			u.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
			list.Items = append(list.Items, u)
			return true, list, nil
		})
		w.Watch(t.Context(), []Target{target("first", true), target("second", true)}, r.report)
		time.Sleep(time.Second)
		want(t, "reports", r.take(), "first in-progress 0 not picked up by a node yet", "second in-progress 0 not picked up by a node yet")
	})
}

func TestTrimKeepsWhatComputeNeeds(t *testing.T) {
	u := object(t, `{apiVersion: v1, kind: Secret, data: {password: aHVudGVyMg==},
		metadata: {name: s, managedFields: [{manager: x}], annotations: {a: b}, labels: {c: d}}}`)
	data, err := trim(u).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`; strings.TrimSpace(string(data)) != want {
		t.Errorf("%s\nwant %s", data, want)
	}
}
