package kube

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
	"k8s.io/utils/ptr"

	"lockstep/engine/event"
	"lockstep/kube/lease"
)

// slow is a chart whose first group takes a while.
func slow(t *testing.T, ready string) func(*Install) {
	return use(one(t, deployment("slow", group("a"), ready), configMap("after", group("b", "a"))), nil)
}

// leases are those of the namespace.
func (r *rig) leases() (names []string) {
	r.t.Helper()
	list, err := r.cluster.CoordinationV1().Leases(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range list.Items {
		names = append(names, l.Name)
	}
	return names
}

// in runs an operation, and does something once, in the middle of it: as soon as
// an object was sent.
func (r *rig) in(op *Operation, err error, object string, do func()) outcome {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	var once sync.Once
	return r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == object && e.Change != "" {
			once.Do(do)
		}
	})
}

// TestOneRunAtATime refuses each operation while another one is at work on the
// release, and tells who is, from where, and since when (R51). Nothing remains
// afterwards.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("before", nil)), nil))
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	chart := slow(t, "1s")
	op, err := r.upgrade("plain", useUp(one(t, deployment("slow", group("a"), "1s"), configMap("after", group("b", "a"))), nil))
	out := r.in(op, err, "slow", func() {
		if got := r.leases(); !slices.Equal(got, []string{"lockstep.v1.t"}) {
			t.Errorf("leases %v", got)
		}
		others := map[string]func() (*Operation, error){
			"install":           func() (*Operation, error) { return r.install("plain", chart) },
			"upgrade":           func() (*Operation, error) { return r.upgrade("plain", nil) },
			"upgrade --install": func() (*Operation, error) { return r.upgrade("plain", func(u *Upgrade) { u.Install = true }) },
			"rollback":          func() (*Operation, error) { return r.rollback(1) },
			"uninstall":         r.uninstall,
			"test":              func() (*Operation, error) { return r.client.PrepareTest(t.Context(), ReleaseTest{Common: r.common()}) },
		}
		for name, prepare := range others {
			_, err := prepare()
			var held *lease.HeldError
			if !errors.As(err, &held) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, part := range []string{"release t", "upgrade by " + held.Holder.User + " on " + host, fmt.Sprintf("process %d", os.Getpid()), held.Holder.Since.Format("since 2006-01-02 15:04")} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: it does not say %q: %v", name, part, err)
				}
			}
		}
		if _, err := r.upgrade("plain", func(u *Upgrade) { u.PlanOnly = true }); errors.As(err, new(*lease.HeldError)) {
			t.Errorf("a plan, which writes nothing: %v", err)
		}
	})
	if out.err != nil || out.state.Exit != 0 || len(out.state.Warnings) > 0 {
		t.Errorf("exit %d: %v, warnings %v", out.state.Exit, out.err, out.state.Warnings)
	}
	r.assertHistory("1 superseded", "2 deployed")
	if got := r.leases(); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
}

// TestBothAtTheSameTime begins two runs in the same moment, both of which have
// found the release free: one of them works, the other one writes nothing and
// says why (R51).
func TestBothAtTheSameTime(t *testing.T) {
	t.Parallel()
	tests := map[string]func(r *rig) (*Operation, error){
		"install":           func(r *rig) (*Operation, error) { return r.install("plain", slow(t, "0s")) },
		"upgrade --install": func(r *rig) (*Operation, error) { return r.upgrade("plain", func(u *Upgrade) { u.Install = true }) },
		"create-namespace": func(r *rig) (*Operation, error) {
			return r.install("plain", func(i *Install) { i.CreateNamespace, i.Namespace = true, r.namespace+"-new" })
		},
	}
	for name, prepare := range tests {
		for n := range 3 {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				t.Parallel()
				r := newRigNamed(t, strings.ReplaceAll(fmt.Sprintf("both-%s-%d", name, n), " --", "-"))
				var ops [2]*Operation
				for i := range ops {
					var err error
					if ops[i], err = prepare(r); err != nil {
						t.Fatal(err)
					}
				}
				var outs [2]outcome
				var wg sync.WaitGroup
				for i := range ops {
					wg.Go(func() { outs[i] = r.run(ops[i], nil) })
				}
				wg.Wait()
				if outs[0].state.Exit != 0 {
					outs[0], outs[1] = outs[1], outs[0]
				}
				if outs[0].err != nil || outs[0].state.Exit != 0 || outs[0].state.Release != "deployed" {
					t.Errorf("neither works: %v; %v", outs[0].err, outs[1].err)
				}
				m := outs[1].state.Message
				if outs[1].state.Exit != 2 || !strings.HasPrefix(m, "nothing ") || !strings.Contains(m, "another run is at work") && !strings.Contains(m, "has come in between") {
					t.Errorf("the other one: exit %d: %s", outs[1].state.Exit, m)
				}
			})
		}
	}
}

// TestWhoComesInBetween changes the release after an operation was planned, and
// before it begins: it writes nothing and undoes nothing (R51).
func TestWhoComesInBetween(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*rig) (*Operation, error){
		"upgrade":   func(r *rig) (*Operation, error) { return r.upgrade("plain", nil) },
		"rollback":  func(r *rig) (*Operation, error) { return r.rollback(1) },
		"uninstall": (*rig).uninstall,
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			chart := one(t, configMap("a", nil))
			r.deploy("plain", use(chart, nil))
			r.mustRun(r.upgrade("plain", useUp(chart, nil)))
			op, err := prepare(r)
			if err != nil {
				t.Fatal(err)
			}
			r.mustRun(r.upgrade("plain", useUp(chart, nil)))
			out := r.run(op, nil)
			if out.state.Exit != 2 || !strings.Contains(out.state.Message, "nothing was written") || !strings.Contains(out.state.Message, "revision 3, deployed, has come in between") {
				t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
			}
			r.assertHistory("1 superseded", "2 superseded", "3 deployed")
			if got := r.leases(); len(got) > 0 {
				t.Errorf("left are %v", got)
			}
		})
	}
}

// elsewhere is a run of another machine that holds the release, for two seconds
// if it does not renew that. What it returns renews it.
func (r *rig) elsewhere() (renew func()) {
	r.t.Helper()
	now := metav1.NewMicroTime(time.Now().Add(-time.Hour)) // its clock is wrong
	leases := r.cluster.CoordinationV1().Leases(r.namespace)
	_, err := leases.Create(r.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name("t")},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("ada@elsewhere"), LeaseDurationSeconds: ptr.To(int32(2)), AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return func() {
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		if _, err := leases.Patch(r.t.Context(), lease.Name("t"), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			r.t.Error(err)
		}
	}
}

// TestRunOfAnotherMachine waits whether a run of which nothing else is known
// renews its Lease: then it lives, whatever its clock says, and else its Lease is
// taken over (R51).
func TestRunOfAnotherMachine(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("alive %v", alive), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			renew := r.elsewhere()
			var waits []string
			op, err := r.install("plain", func(i *Install) {
				i.Lease.Waits = func(m string) {
					waits = append(waits, m)
					if alive {
						renew()
					}
				}
			})
			if len(waits) != 1 || !strings.Contains(waits[0], "ada@elsewhere") {
				t.Errorf("told %q", waits)
			}
			if alive {
				if !errors.As(err, new(*lease.HeldError)) || !strings.Contains(err.Error(), "ada@elsewhere since ") {
					t.Errorf("error %v", err)
				}
				return
			}
			r.mustRun(op, err)
			if got := r.leases(); len(got) > 0 {
				t.Errorf("left are %v", got)
			}
		})
	}
}

// take gives the Lease of a run to another one.
func (r *rig) take() {
	r.t.Helper()
	patch := []byte(`{"spec":{"holderIdentity":"ada@elsewhere"}}`)
	if _, err := r.cluster.CoordinationV1().Leases(r.namespace).Patch(r.t.Context(), lease.Name("t"), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.t.Error(err)
	}
}

// mustStop checks the end of a run whose Lease was taken: it has left the release
// as it was in that moment, and the Lease to whoever has it.
func (r *rig) mustStop(out outcome, history ...string) {
	r.t.Helper()
	if out.state.Exit != 1 || out.state.Status != event.Aborted || !strings.Contains(out.state.Message, "taken over: ada@elsewhere") {
		r.t.Errorf("exit %d, %s: %s", out.state.Exit, out.state.Status, out.state.Message)
	}
	r.assertHistory(history...)
	if got := r.leases(); len(got) != 1 {
		r.t.Error("the Lease of another run was taken away")
	}
}

// TestLostLease has another run take the Lease over in the middle of an operation:
// it stops, writes nothing more, and says so (R51).
func TestLostLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("after", nil)), nil))
	chart := one(t, deployment("new", group("a"), "1h"), configMap("after", group("b", "a"), "v: two"))
	op, err := r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.Lease.Duration, u.RollbackOnFailure = 3*time.Second, true }))
	r.mustStop(r.in(op, err, "new", r.take), "1 deployed", "2 pending-upgrade")
	if d := r.data("after"); d["v"] != "" {
		t.Errorf("it went on: %v", d)
	}
}

// TestLostLeaseInARollback is the same while the operation is rolled back (R51).
func TestLostLeaseInARollback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := job("before", map[string]string{"helm.sh/hook": "pre-rollback"}, "1h")
	r.deploy("plain", use(one(t, before, configMap("after", nil)), nil))
	chart := one(t, deployment("slow", group("a"), "1h"), configMap("after", group("b", "a")))
	op, err := r.upgrade("plain", useUp(chart, func(u *Upgrade) {
		u.Lease.Duration, u.ReadinessTimeout, u.RollbackOnFailure = 3*time.Second, time.Second, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && strings.HasPrefix(e.Phase, event.RollbackPrefix) && e.Object.Name == "before" && e.Change != "" {
			r.take()
		}
	})
	r.mustStop(out, "1 deployed", "2 failed", "3 pending-rollback")
}

// TestWritesWaitForTheLease has another run take over a Lease that cannot be
// renewed for a while: what the run would write meanwhile waits, and is never
// written (R51).
func TestWritesWaitForTheLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var renewable atomic.Bool
	c := r.through(middle{meddle: func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/leases") || renewable.Load() {
			return false
		}
		return broken(w)
	}}, "")
	chart := one(t, deployment("new", group("a"), "15s"), configMap("after", group("b", "a")))
	op, err := r.acting(c).install("plain", use(chart, func(i *Install) { i.Lease.Duration = 10 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindObject && e.Object.Name == "new" && e.Change != "":
			r.take()
		case e.Kind == event.KindGroup && e.Group == "edge:b" && e.Status == event.Running:
			renewable.Store(true)
		}
	})
	r.mustStop(out, "1 pending-install")
	if got := r.configMaps(r.namespace); len(got) > 0 {
		t.Errorf("it has written %v", got)
	}
}

// TestWithoutLeases does without where the user has no rights on Leases, with one
// warning (R51).
func TestWithoutLeases(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{"none": {"list"}, "read": {"get"}, "write": {"get", "create", "update"}}
	for name, verbs := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			by := r.acting(r.as("user", rule("", "configmaps,secrets", "*"), rule("coordination.k8s.io", "leases", verbs...)))
			chart := one(t, configMap("a", nil))
			out := by.mustRun(by.install("plain", use(chart, nil)))
			var told []string
			for _, w := range out.state.Warnings {
				if w.Rule == "R51" {
					told = append(told, w.Message)
				}
			}
			if len(told) != 1 || !strings.Contains(told[0], "leases") || len(r.leases()) > 0 {
				t.Errorf("told %q, left are %v", told, r.leases())
			}
		})
	}
}

// TestLeaseCosts counts the requests that a short run sends for its Lease (R51).
func TestLeaseCosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	var sent []string
	var all atomic.Int32
	c := r.through(middle{meddle: func(_ http.ResponseWriter, req *http.Request) bool {
		all.Add(1)
		if strings.Contains(req.URL.Path, "/leases") {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, req.Method)
		}
		return false
	}}, "")
	by := r.acting(c)
	by.mustRun(by.install("plain", use(one(t, configMap("a", nil)), nil)))
	if want := []string{http.MethodGet, http.MethodPost, http.MethodDelete}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v, of %d", sent, want, all.Load())
	}
}

// TestBesideHelm runs both programs on one release at once: one works, the other
// one touches nothing and says so (R51).
func TestBesideHelm(t *testing.T) {
	t.Parallel()
	dir := makeDir(t, files{"templates/all.yaml": deployment("slow", nil, "{{ .Values.delay }}") + "\n---\n" + configMap("helms", nil)})
	t.Run("helm comes second", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		op, err := r.install("plain", slow(t, "1h"))
		out := r.in(op, err, "slow", func() {
			if said, err := r.runHelm("upgrade", "--install", "t", dir, "--set", "delay=1s"); err == nil {
				t.Errorf("it has worked: %s", said)
			}
			op.Command(event.Command{Name: event.Abort})
		})
		if out.state.Exit != 3 {
			t.Errorf("exit %d: %v", out.state.Exit, out.err)
		}
		r.assertHistory("1 failed")
		if got := r.configMaps(r.namespace); len(got) > 0 {
			t.Errorf("helm has made %v", got)
		}
	})
	t.Run("helm comes first", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.mustHelm("install", "t", dir, "--set", "delay=1s")
		ops := map[string]*Operation{}
		for name, prepare := range map[string]func() (*Operation, error){
			"upgrade":   func() (*Operation, error) { return r.upgrade("plain", useUp(one(t, configMap("ours", nil)), nil)) },
			"uninstall": r.uninstall,
		} {
			var err error
			if ops[name], err = prepare(); err != nil {
				t.Fatal(err)
			}
		}
		over := make(chan error, 1)
		go func() {
			_, err := r.runHelm("upgrade", "t", dir, "--set", "delay=2s", "--wait")
			over <- err
		}()
		for len(r.history()) < 2 && len(over) == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		for name, op := range ops {
			out := r.run(op, nil)
			if out.state.Exit != 2 || !strings.Contains(out.state.Message, "revision 2, ") || !strings.Contains(out.state.Message, "has come in between") {
				t.Errorf("%s: exit %d: %s", name, out.state.Exit, out.state.Message)
			}
		}
		if err := <-over; err != nil {
			t.Errorf("helm: %v", err)
		}
		r.assertHistory("1 superseded", "2 deployed")
	})
}
