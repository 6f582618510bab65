package stack

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
	"lockstep/kube/throwaway/faultproxy"
)

// lookIsOld waits until the last look at the records before a time is so old that a write needs another one (R51b).
func (b stackRig) lookIsOld(since time.Time) {
	b.Eventually("the last look is old", func() bool { return time.Since(since) > time.Second })
}

// TestNewerRevisionInsideAGroup: Helm writes to a release while the run waits inside a group, for an object to be gone. The
// run writes nothing more to it, and nothing to the object (R51b).
func TestNewerRevisionInsideAGroup(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{"rollback", "uninstall"} {
		t.Run(theirs, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			stack := []release{{Name: "a", Dir: rig.MakeDir(t, rig.Files{
				"values.yaml":        "data: one\n",
				"templates/all.yaml": rig.ConfigMap("zz", nil, "v: {{ .Values.data }}") + "\n---\n" + rig.ConfigMap("aa", nil, "v: {{ .Values.data }}"),
			})}}
			b.mustUp(stack...)
			patch := func(p string) {
				if _, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Patch(t.Context(), "zz", types.MergePatchType, []byte(p), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			}
			patch(`{"metadata":{"finalizers":["example.com/hold"]}}`)
			if err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Delete(t.Context(), "zz", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			stack[0].Values = map[string]any{"data": "two"}
			var once sync.Once
			taken := time.Time{}
			s, err := b.prepare(false, nil, stack...)
			state, _ := b.run(s, err, func(e event.Event) {
				if e.Kind != event.KindObject || e.Object.Name != "zz" || !strings.Contains(e.Message, "finalizer") {
					return
				}
				once.Do(func() {
					waiting := time.Now()
					if theirs == "rollback" {
						b.MustHelm("rollback", "a", "1")
					} else {
						b.MustHelm("uninstall", "a", "--wait=hookOnly")
					}
					b.lookIsOld(waiting)
					taken = time.Now()
					patch(`{"metadata":{"finalizers":null}}`)
				})
			})
			if got := result(state, "a"); state.Exit != 1 || got.Result != event.ChangedByOthers {
				t.Errorf("exit %d, result %+v: %s", state.Exit, got, phrase.Reason(state))
			}
			b.assertNoWritesSince(taken)
		})
	}
}

// assertNoWritesSince checks that lockstep wrote nothing but Leases to the test's namespace after a time.
func (b stackRig) assertNoWritesSince(at time.Time) {
	b.T.Helper()
	if at.IsZero() {
		b.T.Fatal("the run did not wait")
	}
	for _, e := range b.Audit() {
		read := e.Verb == "get" || e.Verb == "list" || e.Verb == "watch"
		if e.Received.After(at) && isLockstep(e) && e.Object.Namespace == b.Namespace && e.Object.Resource != "leases" && !read && e.Succeeded() {
			b.T.Errorf("then the run wrote: %s %s/%s", e.Verb, e.Object.Resource, e.Object.Name)
		}
	}
}

// TestSuspendedWithoutLock suspends a run without permissions for Leases between two objects of a group. Helm rolls the release
// back. The run wakes up and writes nothing (R51b).
func TestSuspendedWithoutLock(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.ConnectAs("few",
		rig.Rule("", "secrets,configmaps,services,serviceaccounts,pods,events", "*"), rig.Rule("apps", "deployments,replicasets", "*"))
	v := map[string]string{"v": "{{ .Values.data }}"}
	stack := []release{{Name: "a", Dir: rig.MakeDir(t, rig.Files{
		"values.yaml": "data: one\n",
		"templates/all.yaml": strings.Join([]string{
			rig.Object("v1/ServiceAccount/first", v), rig.ConfigMap("second", v),
			rig.Object("v1/Service/third", v, "spec: {ports: [{port: 80}]}"), rig.Deployment("fourth", v, "0s"),
		}, "\n---\n"),
	})}}
	b.mustUp(stack...)
	stack[0].Values = map[string]any{"data": "two"}
	sent, suspended := make(chan bool, 1), make(chan bool)
	front, err := faultproxy.New(faultproxy.Options{Kubeconfig: rig.Sandbox.Kubeconfig, Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/second") && r.URL.Query().Get("dryRun") == "" {
			sent <- true
			<-suspended
		}
		next.ServeHTTP(w, r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	out := b.suspend(childStack{
		layout: b.layout, Kubeconfig: rig.Sandbox.Kubeconfig, Locks: filepath.Join(t.TempDir(), "locks"), Releases: stack,
		Server: front.URL, User: b.Namespace + "-few",
	}, func(e event.Event) bool {
		at := e.Kind == event.KindObject && e.Object.Name == "first" && e.Change != ""
		return at && <-sent
	}, func() {
		asleep := time.Now()
		close(suspended)
		b.Eventually("the request that was on its way is carried out", func() bool {
			cm, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Get(t.Context(), "second", metav1.GetOptions{})
			return err == nil && cm.Annotations["v"] == "two"
		})
		b.MustHelm("rollback", "a", "1")
		b.lookIsOld(asleep)
	})
	state := &event.State{}
	for _, e := range out.events {
		state.Apply(e)
	}
	if got := result(state, "a"); state.Exit != 1 || got.Result != event.ChangedByOthers || got.Newer == nil || got.Newer.Author != "helm" {
		t.Errorf("exit %d, result %+v: %s", state.Exit, got, phrase.Reason(state))
	}
	b.assertNoWritesSince(out.woken)
}

// outage returns a connection on which the records of release of cannot be read for a while, from the first read after the lock
// of release after was released.
func (b stackRig) outage(after, of string, length time.Duration) func(string) (*kube.Client, error) {
	var mu sync.Mutex
	armed, began := false, time.Time{}
	b.T.Cleanup(func() {
		if began.IsZero() {
			b.T.Error("there was no outage")
		}
	})
	return func(string) (*kube.Client, error) {
		return b.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/leases/"+lease.Name(after)) {
				armed = true
				return false
			}
			reads := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets") && strings.Contains(r.URL.Query().Get("labelSelector"), "name="+of)
			if armed && reads && began.IsZero() {
				began = time.Now()
			}
			if !armed || !reads || time.Since(began) > length {
				return false
			}
			faultproxy.Refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "away")
			return true
		}}, ""), nil
	}
}

// TestOutageBetweenReleases: a stack waits until the records of a release can be read again, before the next release starts and
// before a rollback (R53).
func TestOutageBetweenReleases(t *testing.T) {
	t.Parallel()
	const length = 11 * time.Second
	t.Run("next release", func(t *testing.T) {
		t.Parallel()
		b := newStackRig(t)
		b.connect = b.outage("s", "a", length)
		s, err := b.prepare(false, nil, release{Name: "a", Dir: chart(t, "a")}, release{Name: "s", Dir: chart(t, "s"), Needs: []string{"a"}},
			release{Name: "c", Dir: chart(t, "c"), Needs: []string{"a", "s"}})
		if state, _ := b.run(s, err, nil); state.Exit != 0 {
			t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
		}
	})
	t.Run("rollback", func(t *testing.T) {
		t.Parallel()
		b := newStackRig(t)
		stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"a"}}}
		b.mustUp(stack...)
		stack[0].Values = map[string]any{"data": "two"}
		stack[1].Values = unpullable(stack[0].Values)
		b.connect = b.outage("c", "a", length)
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure = true }, stack...)
		state, _ := b.run(s, err, nil)
		if got := b.history("a", "c"); state.Outcome != "rolled back 2 releases" || !slices.Equal(got, []string{"a 3 deployed", "c 3 deployed"}) {
			t.Errorf("outcome %q, history %v", state.Outcome, got)
		}
	})
}

// TestUninstalledWithHistory: Helm uninstalls a release that the run has deployed, and keeps its history. The result says so
// (R51b).
func TestUninstalledWithHistory(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.Meddles = "helm uninstalls a release during the run"
	var once sync.Once
	s, err := b.prepare(false, nil, release{Name: "a", Dir: chart(t, "a")}, release{Name: "s", Dir: chart(t, "s"), Needs: []string{"a"}},
		release{Name: "c", Dir: chart(t, "c"), Needs: []string{"s"}})
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Group == "s:config" && e.Status == event.Ready {
			once.Do(func() {
				s.Command(event.Command{Name: event.Pause})
				b.MustHelm("uninstall", "a", "--keep-history")
				s.Command(event.Command{Name: event.Resume})
			})
		}
	})
	got := result(state, "a")
	if state.Exit != 1 || got.Result != event.ChangedByOthers || got.Newer == nil || *got.Newer != (event.NewerRevision{Revision: 1, Status: "uninstalled"}) {
		t.Errorf("exit %d, result %+v %+v", state.Exit, got, got.Newer)
	}
	if strings.Count(phrase.Reason(state), "/a was uninstalled by somebody else") != 1 || strings.Contains(state.Outcome, "cannot be read") {
		t.Errorf("outcome %q", state.Outcome)
	}
}

// TestDeployedIsLookedAtAgain: while the run deploys s, somebody breaks a, which this run has deployed. The run waits for a once
// more, before what needs a starts and at its end. It fails and names a with the cause, or goes on if a is ready again (R21, S2, S4).
func TestDeployedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{true, false} {
		for _, what := range []string{"deleted", "failing", "recovers"} {
			t.Run(map[bool]string{true: "needed", false: "end"}[needed]+"/"+what, func(t *testing.T) {
				t.Parallel()
				b := newStackRig(t)
				stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "s", Dir: chart(t, "s"), Needs: []string{"a"}}}
				if needed {
					stack = append(stack, release{Name: "c", Dir: chart(t, "c"), Needs: []string{"a", "s"}})
				}
				deployments := b.Cluster.AppsV1().Deployments(b.Namespace)
				image := func(name string) {
					patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"` + name + `"}]}}}}`
					if _, err := deployments.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
						t.Error(err)
					}
				}
				s, err := b.prepare(false, func(o *kube.StackOptions) {
					if o.Common.ReadinessTimeout = 12 * time.Second; what == "recovers" {
						o.Common.ReadinessTimeout = time.Minute
					}
				}, stack...)
				var broken, fixed sync.Once
				state, _ := b.run(s, err, func(e event.Event) {
					switch {
					case e.Kind == event.KindGroup && e.Group == "s:config" && e.Status == event.Ready:
						broken.Do(func() {
							s.Command(event.Command{Name: event.Pause})
							if what == "deleted" {
								if err := deployments.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
									t.Error(err)
								}
							} else {
								image("example/no-such-image:1")
							}
							s.Command(event.Command{Name: event.Resume})
						})
					case what == "recovers" && strings.HasSuffix(e.Scope, "/a") && e.Kind == event.KindGroup && e.Status == event.Running && e.Object != nil:
						fixed.Do(func() { image("example/app:1.0") })
					}
				})
				got := result(state, "a")
				if what == "recovers" {
					if state.Exit != 0 || got.Result != event.Deployed {
						t.Errorf("exit %d, result %+v: %s", state.Exit, got, phrase.Reason(state))
					}
					return
				}
				cause := map[string]string{"failing": "no-such-image", "deleted": "Deployment/a: deleted by somebody else"}[what]
				if state.Exit != 1 || got.Result != event.NotReady || got.Revision != 1 || !strings.Contains(phrase.Reason(state), cause) || !strings.Contains(state.Outcome, "1 not ready") {
					t.Errorf("exit %d, result %+v, outcome %q: %s", state.Exit, got, state.Outcome, phrase.Reason(state))
				}
				if a := state.Scopes[got.Release]; a.Status != event.Failed || a.Outcome != "not ready" || a.Operation.Name != "install" || a.Find("apply", "a:config").Status != event.Ready {
					t.Errorf("release a is %s: %s: %q", a.Operation.Name, a.Status, a.Outcome)
				}
				if h := b.history("a", "s"); h[0] != "a 1 deployed" || h[1] != "s 1 deployed" {
					t.Errorf("history %v", h)
				}
				if h := b.history("c"); h[0] != "c none" {
					t.Errorf("c was started although it needs a: %v", h)
				}
			})
		}
	}
}

// TestNotReadyAtTheEndIsHeld: a release that was deployed and is not ready at the end is in progress again, and its failure is held.
// Once it is fixed, a re-check lets the run succeed (R21, R44, S6).
func TestNotReadyAtTheEndIsHeld(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "s", Dir: chart(t, "s"), Needs: []string{"a"}}}
	image := func(name string) {
		patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"` + name + `"}]}}}}`
		if _, err := b.Cluster.AppsV1().Deployments(b.Namespace).Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.Common.HoldOnFailure, o.Common.ReadinessTimeout = true, 8*time.Second
	}, stack...)
	var broken, held sync.Once
	var seen event.State
	statuses := []event.Status{}
	state, _ := b.run(s, err, func(e event.Event) {
		seen.Apply(e)
		switch {
		case e.Kind == event.KindGroup && e.Scope == "" && strings.HasSuffix(e.Group, "/a"):
			statuses = append(statuses, e.Status)
		case e.Kind == event.KindGroup && e.Group == "s:config" && e.Status == event.Ready:
			broken.Do(func() { image("example/no-such-image:1") })
		case e.Kind == event.KindRun && e.Scope == "" && e.Status == event.Paused:
			held.Do(func() {
				if g := seen.HeldRelease(); g == nil || !strings.HasSuffix(g.ID, "/a") {
					t.Errorf("no release is held: %+v", g)
				}
				if n := seen.CountStack().Releases; n.Done != 1 {
					t.Errorf("%d releases are ready", n.Done)
				}
				image("example/app:1.0")
				s.Command(event.Command{Name: event.Accept})
			})
		}
	})
	if want := []event.Status{event.Running, event.Ready, event.Running, event.Ready}; !slices.Equal(statuses, want) {
		t.Errorf("release a was %v, want %v", statuses, want)
	}
	got := result(state, "a")
	if n := state.CountStack().Releases; n.Done != 2 {
		t.Errorf("%d releases are ready at the end", n.Done)
	}
	if a := state.Scopes[got.Release]; state.Exit != 0 || got.Result != event.Deployed || a.Status != event.Succeeded || a.Ended.IsZero() {
		t.Errorf("exit %d, result %+v, release %s: %s", state.Exit, got, a.Status, phrase.Reason(state))
	}
}

// TestNotReadyIsRolledBack: a release that the run has deployed and that is not ready at the end is rolled back (R21, S5), and
// a Job that the cluster has deleted since, an object with a generated name and a hook that is gone are no reason to fail.
func TestNotReadyIsRolledBack(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	dir := rig.MakeDir(t, rig.Files{"values.yaml": "data: one\n", "templates/all.yaml": strings.Join([]string{
		rig.Deployment("a", nil, "0s"), rig.ConfigMap("data", nil, "v: {{ .Values.data }}"),
		rig.Job("once", nil, "0s", "  ttlSecondsAfterFinished: 0"), rig.WithGenerateName(rig.ConfigMap("made-", nil)),
		rig.ConfigMap("hook", map[string]string{"helm.sh/hook": "post-install,post-upgrade", "helm.sh/hook-delete-policy": "hook-succeeded"}),
	}, "\n---\n")})
	stack := []release{{Name: "a", Dir: dir}, {Name: "s", Dir: chart(t, "s"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	for n := range stack {
		stack[n].Values = map[string]any{"data": "two"}
	}
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.Common.RollbackOnFailure, o.Common.ReadinessTimeout, o.Common.BreakOn = true, 8*time.Second, []string{"s/s:app"}
	}, stack...)
	var once sync.Once
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" {
			once.Do(func() {
				if err := b.Cluster.AppsV1().Deployments(b.Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				s.Command(event.Command{Name: event.Resume})
			})
		}
	})
	if got := result(state, "a"); state.Exit != 1 || got.Result != event.RolledBack || state.Outcome != "rolled back 2 releases" {
		t.Errorf("exit %d, result %+v, outcome %q: %s", state.Exit, got, state.Outcome, phrase.Reason(state))
	}
	if h := b.history("a", "s"); h[0] != "a 3 deployed" || h[1] != "s 3 deployed" {
		t.Errorf("history %v", h)
	}
}
