package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/throwaway/auditlog"
)

// chained is a chart whose subchart app waits for its subchart db, which only
// the record of the plan tells later (R28). db is ready after a while.
func chained(version, image string) files {
	sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	return files{
		"Chart.yaml":                   "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: app, version: 1.0.0, depends-on: [db]}\n- {name: db, version: 1.0.0}\n",
		"charts/app/Chart.yaml":        sub("app"),
		"charts/app/templates/all.yml": configMap("app", nil, "version: "+version),
		"charts/db/Chart.yaml":         sub("db"),
		"charts/db/templates/all.yml": strings.ReplaceAll(configMap("db", nil, "version: "+version)+"\n---\n"+deployment("store", nil, "400ms", "  replicas: 1"),
			"example/app:1.0", image),
	}
}

// assertChained proves from the audit log that app was written after db was
// ready, since a time.
func (r *rig) assertChained(what string, since time.Time) {
	r.t.Helper()
	tl := r.timeline("lockstep").since(since)
	ready, _ := tl.ready(r.t, []string{"Deployment/store"})
	app, _ := tl.firstWrite(r.t, []string{"ConfigMap/app"})
	if app.Before(ready) {
		r.t.Errorf("%s: app was written at %s, before db was ready at %s", what, clock(app), clock(ready))
	}
}

// TestHistoryMax keeps so many revisions, each with the record by which it is
// rolled back to and uninstalled in order (R28, R31, R32).
func TestHistoryMax(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(v string) func(*Upgrade) {
		return useUp(makeChart(t, chained(v, "example/app:"+v)), func(u *Upgrade) { u.Install, u.HistoryMax = true, 2 })
	}
	for _, v := range []string{"v1", "v2", "v3", "v4"} {
		r.mustRun(r.upgrade("plain", chart(v)))
	}
	r.assertHistory("3 superseded", "4 deployed")
	start := time.Now()
	op, err := r.client.PrepareRollback(t.Context(), Rollback{Common: Common{Release: "t", Namespace: r.namespace}, Revision: 3, HistoryMax: 2})
	r.mustRun(op, err)
	r.assertHistory("4 superseded", "5 deployed")
	r.assertChained("rollback", start)

	// The revision that is deployed stays for the rollback of a failure, however
	// few there may be. As in Helm, the rollback itself takes none away.
	op, err = r.upgrade("plain", func(u *Upgrade) {
		chart("v6")(u)
		u.Chart = makeChart(t, chained("v6", "example/no-such-image:6"))
		u.HistoryMax, u.RollbackOnFailure, u.ReadinessTimeout = 1, true, 2*time.Second
	})
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if out := r.run(op, nil); out.state.Exit != 1 || !strings.Contains(out.state.Message, "back at revision 5") {
		t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	r.assertHistory("5 superseded", "6 failed", "7 deployed")
	r.assertChained("rollback of a failure", start)

	op, err = r.uninstall()
	if out := r.mustRun(op, err); !slices.Equal(out.ended(), []string{"edge/app:(unsequenced)", "edge/db:(unsequenced)"}) {
		t.Errorf("uninstalled %v", out.ended())
	}
	if got := r.configMaps(r.namespace); len(got) > 0 || r.status() != "" {
		t.Errorf("left are %v, the release is %q", got, r.status())
	}
}

func (r *rig) assertHistory(want ...string) {
	r.t.Helper()
	if got := r.history(); !slices.Equal(got, want) {
		r.t.Errorf("history %v, want %v", got, want)
	}
}

// TestCleanupOnFail deletes what a failed upgrade has created, and nothing that
// was there before it.
func TestCleanupOnFail(t *testing.T) {
	t.Parallel()
	for _, cleanup := range []bool{true, false} {
		t.Run(fmt.Sprint(cleanup), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, configMap("old", group("one")), configMap("gone", group("two", "one"))), nil))
			broken := strings.ReplaceAll(deployment("broken", group("three", "two"), "0s"), "example/app:1.0", "example/no-such-image:1")
			next := one(t, configMap("old", group("one"), "v: new"), configMap("first", group("two", "one")), broken, configMap("never", group("four", "three")))
			op, err := r.upgrade("plain", useUp(next, func(u *Upgrade) { u.CleanupOnFail, u.ReadinessTimeout = cleanup, 2*time.Second }))
			r.mustFail(op, err, "Deployment/broken", "never started: edge:four")
			r.assertHistory("1 deployed", "2 failed")
			want := []string{"ConfigMap/gone", "ConfigMap/old"}
			if !cleanup {
				want = []string{"Deployment/broken", "ConfigMap/first", "ConfigMap/gone", "ConfigMap/old"}
			}
			if got := r.left(); !slices.Equal(got, want) {
				t.Errorf("left are %v, want %v", got, want)
			}
			if got := r.data("old")["v"]; got != "new" {
				t.Errorf("old has v: %s, want what the failed upgrade brought", got)
			}
		})
	}
}

// TestCleanupAfterTheTimeout is not done, since nothing is started any more, and
// the end names what is left behind.
func TestCleanupAfterTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("old", nil)), nil))
	broken := strings.ReplaceAll(deployment("broken", group("one"), "0s"), "example/app:1.0", "example/no-such-image:1")
	next := one(t, configMap("old", nil), broken, configMap("never", group("two", "one")))
	op, err := r.upgrade("plain", useUp(next, func(u *Upgrade) { u.CleanupOnFail, u.Timeout = true, 2*time.Second }))
	r.mustFail(op, err, "--timeout", "not all that was created could be deleted again", "left behind: Deployment/broken")
	if got := r.left(); !slices.Equal(got, []string{"Deployment/broken", "ConfigMap/old"}) {
		t.Errorf("left are %v", got)
	}
}

// TestForceReplace replaces objects (PUT) in place of patching them, in order:
// what somebody else has added is gone, and a group is written only after its
// gates are ready again (R22, R30).
func TestForceReplace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(v, delay string) []string {
		return []string{deployment("store", group("a"), delay), configMap("conf", group("a"), "version: "+v), configMap("after", group("b", "a"), "version: "+v)}
	}
	r.deploy("plain", use(one(t, chart("v1", "0s")...), func(i *Install) { i.ClientSide = true }))
	r.patchConfigMap("conf", `{"data":{"added":"by somebody"}}`)
	start := time.Now()
	replace := func(u *Upgrade) { u.ServerSide, u.ForceReplace = "false", true }
	r.mustRun(r.upgrade("plain", useUp(one(t, chart("v2", "700ms")...), replace)))
	r.assertReplaced(start, "upgrade")
	if got := r.data("conf"); got["version"] != "v2" || got["added"] != "" {
		t.Errorf("the upgrade left %v", got)
	}
	start = time.Now()
	op, err := r.client.PrepareRollback(t.Context(), Rollback{Common: Common{Release: "t", Namespace: r.namespace}, Revision: 1, ServerSide: "false", ForceReplace: true})
	r.mustRun(op, err)
	r.assertReplaced(start, "rollback")
	if got := r.data("after"); got["version"] != "v1" {
		t.Errorf("the rollback left %v", got)
	}
}

func (r *rig) data(name string) map[string]string {
	r.t.Helper()
	c, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Data
}

// assertReplaced proves from the audit log that store, conf and after were
// written by PUT since a time, after once store was ready.
func (r *rig) assertReplaced(since time.Time, what string) {
	r.t.Helper()
	tl := r.timeline("lockstep").since(since)
	for _, o := range []string{"Deployment/store", "ConfigMap/conf", "ConfigMap/after"} {
		for _, e := range tl.of(r.t, o) {
			if e.UserAgent == "lockstep" && e.Verb != "update" {
				r.t.Errorf("%s: %s was written by %s", what, o, e.Verb)
			}
		}
	}
	ready, _ := tl.ready(r.t, []string{"Deployment/store"})
	after, _ := tl.firstWrite(r.t, []string{"ConfigMap/after"})
	if after.Before(ready) {
		r.t.Errorf("%s: after was written at %s, before store was ready at %s", what, clock(after), clock(ready))
	}
}

// TestHookOnlyWithRollback waits for what is deployed although --wait=hookOnly
// would not: otherwise no failure would be seen to roll back from. Helm does
// the same (R27, R33).
func TestHookOnlyWithRollback(t *testing.T) {
	t.Parallel()
	broken := strings.ReplaceAll(deployment("broken", group("a"), "0s"), "example/app:1.0", "example/no-such-image:1")
	after := configMap("after", group("b", "a"))
	fail := func(c *Common) { c.Wait, c.RollbackOnFailure, c.Timeout = "hookOnly", true, 3*time.Second }
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		op, err := r.install("plain", use(one(t, broken, after), func(i *Install) { fail(&i.Common) }))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.run(op, nil); out.state.Exit != 1 || !strings.Contains(out.state.Message, "Deployment/broken") {
			t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
		}
		if got := r.left(); len(got) > 0 || r.status() != "" {
			t.Errorf("left are %v, the release is %q", got, r.status())
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.deploy("plain", use(one(t, after), func(i *Install) { i.Wait = "hookOnly" }))
		op, err := r.upgrade("plain", useUp(one(t, broken, after), func(u *Upgrade) { fail(&u.Common) }))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.run(op, nil); out.state.Exit != 1 || !strings.Contains(out.state.Message, "back at revision 1") {
			t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
		}
		r.assertHistory("1 superseded", "2 failed", "3 deployed")
		if got := r.left(); !slices.Equal(got, []string{"ConfigMap/after"}) {
			t.Errorf("left are %v", got)
		}
	})
}

// cutWhile runs an operation over a wire that is cut as soon as an object of a
// resource has been seen in a state, and is watched, until meanwhile has come
// about. It returns when the wire was whole again.
func (r *rig) cutWhile(prepare func() (*Operation, error), resource, object, message string, meanwhile func()) (out outcome, back time.Time) {
	r.t.Helper()
	p, direct := newProxy(r.t), r.client
	r.client = p.client(r.t, r.namespace)
	op, err := prepare()
	if err != nil {
		r.t.Fatal(err)
	}
	r.client = direct
	out = r.run(op, func(e event.Event) {
		if back.IsZero() && e.Kind == event.KindObject && e.Object.Name == object && strings.Contains(e.Message, message) {
			r.eventually("it is watched", func() bool { return r.watched(resource) })
			p.set(cut)
			meanwhile()
			back = time.Now()
			p.set(whole)
		}
	})
	return out, back
}

// watched reports whether we have a watch on a resource in the namespace.
func (r *rig) watched(resource string) bool {
	r.t.Helper()
	log, err := auditlog.Read(sandbox.AuditLog)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.ContainsFunc(log.Namespace(r.namespace).UserAgent("lockstep"), func(e auditlog.Event) bool {
		return e.Verb == "watch" && e.Stage == auditlog.ResponseStarted && e.Object.Resource == resource
	})
}

// TestShortOutage loses the API server while something is waited for, until
// that has come about: the wait ends well, and nothing fails.
func TestShortOutage(t *testing.T) {
	t.Parallel()
	chart := one(t, deployment("store", group("a"), "2s"), configMap("after", group("b", "a")))
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		install := func() (*Operation, error) { return r.install("plain", use(chart, nil)) }
		out, back := r.cutWhile(install, "deployments", "store", "0 of 1", func() {
			r.eventually("store is ready", func() bool {
				d, err := r.cluster.AppsV1().Deployments(r.namespace).Get(t.Context(), "store", metav1.GetOptions{})
				return err == nil && d.Status.AvailableReplicas == 1
			})
		})
		if out.err != nil || out.state.Exit != 0 || r.status() != rcommon.StatusDeployed {
			t.Errorf("exit %d: %v; the release is %q", out.state.Exit, out.err, r.status())
		}
		if after, _ := r.timeline("lockstep").firstWrite(t, []string{"ConfigMap/after"}); back.IsZero() || after.Before(back) {
			t.Errorf("after was written at %s, the API server was away until %s", clock(after), clock(back))
		}
	})
	t.Run("uninstall", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.deploy("plain", use(chart, nil))
		r.patchConfigMap("after", `{"metadata":{"finalizers":["example.com/held"]}}`)
		out, back := r.cutWhile(r.uninstall, "configmaps", "after", "example.com/held", func() { r.patchConfigMap("after", `{"metadata":{"finalizers":null}}`) })
		if out.err != nil || out.state.Exit != 0 || r.status() != "" || len(r.left()) > 0 {
			t.Errorf("exit %d: %v; the release is %q, left are %v", out.state.Exit, out.err, r.status(), r.left())
		}
		if gone, _ := r.timeline("lockstep").firstDelete(t, []string{"Deployment/store"}); back.IsZero() || gone.Before(back) {
			t.Errorf("store was deleted at %s, the API server was away until %s", clock(gone), clock(back))
		}
	})
}

// TestLongOutage loses the API server for longer than the release record is
// tried to be written: the end names what was being done, does not claim that
// the release is marked failed, and says how to go on; that then works (R34).
func TestLongOutage(t *testing.T) {
	t.Parallel()
	many := func(v string) *charts.Chart {
		return one(t, "{{- range $i := until 300 }}\n---\n"+strings.ReplaceAll(configMap("c-NUMBER", group("many"), "v: "+v), "NUMBER", "{{ $i }}")+"\n{{- end }}")
	}
	tests := map[string]struct {
		status  rcommon.Status
		says    string
		refuses string // what an upgrade is refused with
		goOn    func(*rig) (*Operation, error)
		then    []string // the history
	}{
		"install":   {rcommon.StatusPendingInstall, "uninstall it once", "is pending-install: another operation is under way, or one was cut off; to go on, uninstall it", (*rig).uninstall, nil},
		"upgrade":   {rcommon.StatusPendingUpgrade, "roll it back once", "to go on, roll it back to revision 1", func(r *rig) (*Operation, error) { return r.rollback(1) }, []string{"1 superseded", "2 pending-upgrade", "3 deployed"}},
		"uninstall": {rcommon.StatusUninstalling, "uninstall it again once", "to go on, uninstall it again", (*rig).uninstall, nil},
	}
	for operation, tt := range tests {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if operation != "install" {
				r.deploy("plain", use(many("one"), nil))
			}
			p, direct := newProxy(t), r.client
			r.client = p.client(t, r.namespace)
			op, err := r.prepare(operation, use(many("two"), nil))
			if err != nil {
				t.Fatal(err)
			}
			out := r.run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Group == "edge:many" && e.Change != "" {
					p.set(cut)
				}
			})
			r.client = direct
			if out.state.Exit != 1 || r.status() != tt.status {
				t.Errorf("exit %d, the release is %q", out.state.Exit, r.status())
			}
			for _, part := range []string{"edge:many: ConfigMap/c-", "could not be marked failed", string(tt.status), tt.says} {
				if !strings.Contains(out.state.Message, part) {
					t.Errorf("the message does not say %q: %.300s … %.300s", part, out.state.Message, out.state.Message[max(0, len(out.state.Message)-300):])
				}
			}
			if strings.Contains(out.state.Message, "is marked failed") {
				t.Errorf("the message claims what is not so: %.300s", out.state.Message)
			}
			if _, err := r.upgrade("plain", useUp(many("three"), func(u *Upgrade) { u.Install = true })); err == nil || !strings.Contains(err.Error(), tt.refuses) {
				t.Errorf("an upgrade says %v", err)
			}
			op, err = tt.goOn(r)
			r.mustRun(op, err)
			if r.status() != "" {
				r.assertHistory(tt.then...)
			} else if left := r.left(); len(left) > 0 || tt.then != nil {
				t.Errorf("left are %d objects", len(left))
			}
		})
	}
}
