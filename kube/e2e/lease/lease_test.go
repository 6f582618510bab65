package lease

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
)

// slowChart returns a change to a chart whose first group is ready after a delay.
func slowChart(t *testing.T, ready string) func(*kube.Deploy) {
	return rig.UseChart(rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), ready), rig.ConfigMap("after", rig.Group("b", "a"))), nil)
}

// leases returns the names of the Leases in the namespace.
func leases(r *rig.Rig) (names []string) {
	r.T.Helper()
	list, err := r.Cluster.CoordinationV1().Leases(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, l := range list.Items {
		names = append(names, l.Name)
	}
	return names
}

// runUntilApplied runs an operation to its end. It calls do once, as soon as an object has been applied.
func runUntilApplied(r *rig.Rig, op *kube.Operation, err error, object string, do func()) rig.Outcome {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
	var once sync.Once
	return r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == object && e.Change != "" {
			once.Do(do)
		}
	})
}

// TestOneRunAtATime: during a run, all operations on its release are refused, with the user,
// host and start time of the run (R51). No Lease remains afterwards.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("before", nil)), nil))
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	chart := slowChart(t, "1s")
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1s"), rig.ConfigMap("after", rig.Group("b", "a"))), nil))
	out := runUntilApplied(r, op, err, "slow", func() {
		if got := leases(r); !slices.Equal(got, []string{"lockstep.v1.t"}) {
			t.Errorf("leases %v", got)
		}
		others := map[string]func() (*kube.Operation, error){
			"install":           func() (*kube.Operation, error) { return r.Install("plain", chart) },
			"upgrade":           func() (*kube.Operation, error) { return r.Upgrade("plain", nil) },
			"upgrade --install": func() (*kube.Operation, error) { return r.Upgrade("plain", func(u *kube.Deploy) { u.Install = true }) },
			"rollback":          func() (*kube.Operation, error) { return r.Rollback(1) },
			"uninstall":         r.Uninstall,
			"test": func() (*kube.Operation, error) {
				return r.Client.PrepareTest(t.Context(), kube.ReleaseTest{Common: r.Common()})
			},
		}
		for name, prepare := range others {
			_, err := prepare()
			var locked *lease.LockedError
			if !errors.As(err, &locked) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, part := range []string{"release t", "upgrade by " + locked.Holder.User + " on " + host, fmt.Sprintf("process %d", os.Getpid()), locked.Holder.Since.Format("since 2006-01-02 15:04")} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: error lacks %q: %v", name, part, err)
				}
			}
		}
		if _, err := r.Upgrade("plain", func(u *kube.Deploy) { u.PlanOnly = true }); errors.As(err, new(*lease.LockedError)) {
			t.Errorf("a plan is refused: %v", err)
		}
	})
	if out.Err != nil || out.State.Exit != 0 || len(out.State.Warnings) > 0 {
		t.Errorf("exit %d: %v, warnings %v", out.State.Exit, out.Err, out.State.Warnings)
	}
	r.AssertHistory("1 superseded", "2 deployed")
	if got := leases(r); len(got) > 0 {
		t.Errorf("not removed: %v", got)
	}
}

// TestBothAtTheSameTime prepares two runs while the release is free, and starts both at the same moment. One runs; the
// other one writes nothing and reports why (R51).
func TestBothAtTheSameTime(t *testing.T) {
	t.Parallel()
	tests := map[string]func(r *rig.Rig) (*kube.Operation, error){
		"install": func(r *rig.Rig) (*kube.Operation, error) { return r.Install("plain", slowChart(t, "0s")) },
		"upgrade --install": func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", func(u *kube.Deploy) { u.Install = true })
		},
		"create-namespace": func(r *rig.Rig) (*kube.Operation, error) {
			return r.Install("plain", func(i *kube.Deploy) { i.CreateNamespace, i.Namespace = true, r.Namespace+"-new" })
		},
	}
	for name, prepare := range tests {
		for n := range 3 {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				t.Parallel()
				r := rig.NewNamed(t, strings.ReplaceAll(fmt.Sprintf("both-%s-%d", name, n), " --", "-"))
				var ops [2]*kube.Operation
				for i := range ops {
					var err error
					if ops[i], err = prepare(r); err != nil {
						t.Fatal(err)
					}
				}
				var outs [2]rig.Outcome
				var wg sync.WaitGroup
				for i := range ops {
					wg.Go(func() { outs[i] = r.Run(ops[i], nil) })
				}
				wg.Wait()
				if outs[0].State.Exit != 0 {
					outs[0], outs[1] = outs[1], outs[0]
				}
				if outs[0].Err != nil || outs[0].State.Exit != 0 || outs[0].State.Release != "deployed" {
					t.Errorf("both failed: %v; %v", outs[0].Err, outs[1].Err)
				}
				m := outs[1].State.Message
				if outs[1].State.Exit != 2 || !strings.HasPrefix(m, "nothing ") && !strings.HasPrefix(m, "only namespace ") || !strings.Contains(m, "locked by another run") && !strings.Contains(m, "changed since planning") && !strings.Contains(m, "created meanwhile") {
					t.Errorf("the second run: exit %d: %s", outs[1].State.Exit, m)
				}
			})
		}
	}
}

// TestReleaseChangedAfterPlanning changes the release after an operation was planned. The operation writes nothing and
// rolls nothing back (R51).
func TestReleaseChangedAfterPlanning(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*rig.Rig) (*kube.Operation, error){
		"upgrade":   func(r *rig.Rig) (*kube.Operation, error) { return r.Upgrade("plain", nil) },
		"rollback":  func(r *rig.Rig) (*kube.Operation, error) { return r.Rollback(1) },
		"uninstall": (*rig.Rig).Uninstall,
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
			r.Deploy("plain", rig.UseChart(chart, nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil)))
			op := r.Must(prepare(r))
			r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil)))
			out := r.Run(op, nil)
			if out.State.Exit != 2 || !strings.Contains(out.State.Message, "nothing was written") || !strings.Contains(out.State.Message, "now revision 3, deployed") {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			r.AssertHistory("1 superseded", "2 superseded", "3 deployed")
			if got := leases(r); len(got) > 0 {
				t.Errorf("not removed: %v", got)
			}
		})
	}
}

// foreignLease creates the Lease of a run on another machine. It expires after two seconds, unless renew is called.
func foreignLease(r *rig.Rig) (renew func()) {
	r.T.Helper()
	now := metav1.NewMicroTime(time.Now().Add(-time.Hour)) // its clock is wrong
	leases := r.Cluster.CoordinationV1().Leases(r.Namespace)
	_, err := leases.Create(r.T.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name("t")},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("ada@elsewhere"), LeaseDurationSeconds: new(int32(2)), AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	return func() {
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		if _, err := leases.Patch(r.T.Context(), lease.Name("t"), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			r.T.Error(err)
		}
	}
}

// TestRunOnAnotherMachine: a run waits to see whether a run on another machine renews its Lease. If so, that run is alive,
// even if its clock is wrong; if not, the Lease is taken over (R51).
func TestRunOnAnotherMachine(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive %v", alive), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			renew := foreignLease(r)
			var waits []string
			op, err := r.Install("plain", func(i *kube.Deploy) {
				i.Lease.OnWait = func(m string) {
					waits = append(waits, m)
					if alive {
						renew()
					}
				}
			})
			if len(waits) != 1 || !strings.Contains(waits[0], "ada@elsewhere") {
				t.Errorf("OnWait messages: %q", waits)
			}
			if alive {
				if !errors.As(err, new(*lease.LockedError)) || !strings.Contains(err.Error(), "ada@elsewhere, since ") {
					t.Errorf("error %v", err)
				}
				return
			}
			r.MustRun(op, err)
			if got := leases(r); len(got) > 0 {
				t.Errorf("not removed: %v", got)
			}
		})
	}
}

// TestWithoutLeases: without permission for Leases, an operation runs with one warning (R51).
func TestWithoutLeases(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{"none": {"list"}, "read": {"get"}, "write": {"get", "create", "update"}}
	for name, verbs := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			by := r.WithClient(r.ConnectAs("user", rig.Rule("", "configmaps,secrets", "*"), rig.Rule("coordination.k8s.io", "leases", verbs...)))
			chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
			out := by.MustRun(by.Install("plain", rig.UseChart(chart, nil)))
			var warnings []string
			for _, w := range out.State.Warnings {
				if w.Rule == "R51" {
					warnings = append(warnings, w.Message)
				}
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], "leases") || len(leases(r)) > 0 {
				t.Errorf("warnings %q, not removed: %v", warnings, leases(r))
			}
		})
	}
}

// TestLeaseCosts counts the Lease requests of a short run (R51).
func TestLeaseCosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	var mu sync.Mutex
	var sent []string
	var all atomic.Int32
	c := r.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, req *http.Request) bool {
		all.Add(1)
		if strings.Contains(req.URL.Path, "/leases") {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, req.Method)
		}
		return false
	}}, "")
	by := r.WithClient(c)
	by.MustRun(by.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil)))
	if want := []string{http.MethodGet, http.MethodPost, http.MethodDelete}; !slices.Equal(sent, want) {
		t.Errorf("Lease requests %v, want %v; %d requests in total", sent, want, all.Load())
	}
}

// TestLockThatStays: the API server refuses to delete the Lease until the run gives up. The release is deployed, and a warning
// before the closing event says that the lock stays, and until when (R51).
func TestLockThatStays(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	by := r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		return req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "/leases/") && rig.InternalError(w)
	}}, ""))
	out := r.Run(by.Must(by.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil))), nil)
	if out.State.Exit != 0 {
		t.Errorf("exit %d: %v", out.State.Exit, out.Err)
	}
	const want = "could not delete the lock of release t: made to fail; it expires within 15s"
	if got := out.State.Warnings; len(got) != 1 || got[0].Message != want || got[0].Rule != "R51" {
		t.Errorf("warnings %v, want %q", got, want)
	}
	r.AssertHistory("1 deployed")
	if got := leases(r); !slices.Equal(got, []string{"lockstep.v1.t"}) {
		t.Errorf("Leases %v", got)
	}
	r.MustRun(r.Upgrade("plain", nil)) // once the lock has expired
}
