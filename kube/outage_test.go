package kube

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube/charts"
)

// TestLostAPI loses the API server in the middle of an operation. Some seconds are
// waited out (R53). Where they last longer than its timeout the run ends, and the
// release is left failed, not pending (R34).
func TestLostAPI(t *testing.T) {
	tests := []struct {
		operation string
		wire      wire
		timeout   time.Duration
		away      time.Duration
		want      string // "" where it ends well
	}{
		{"install", cut, 2 * time.Minute, 6 * time.Second, ""},
		{"upgrade", cut, 2 * time.Minute, 3 * time.Second, ""},
		{"uninstall", cut, 2 * time.Minute, 3 * time.Second, ""},
		// Longer than requests in flight are waited for after the timeout.
		{"install", dead, 2 * time.Second, 14 * time.Second, "--timeout"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s wire %d", tt.operation, tt.wire), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := newProxy(t)
			chart := func(v string) string {
				return "{{- range $i := until 300 }}\n---\n" + strings.ReplaceAll(configMap("c-NUMBER", group("many"), "v: "+v), "NUMBER", "{{ $i }}") + "\n{{- end }}\n---\n" + configMap("after", group("after", "many"))
			}
			if tt.operation != "install" {
				r.deploy("plain", use(one(t, chart("one")), nil))
			}
			r.client = p.client(t, r.namespace)
			op, err := r.prepare(tt.operation, use(one(t, chart("two")), func(i *Install) { i.Timeout = tt.timeout }))
			if err != nil {
				t.Fatal(err)
			}
			var lost sync.Once
			out := r.run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Group == "edge:many" && e.Change != "" {
					lost.Do(func() {
						p.set(tt.wire)
						time.AfterFunc(tt.away, func() { p.set(whole) })
					})
				}
			})
			away := slices.ContainsFunc(out.events, func(e event.Event) bool { return e.Kind == event.KindServer && e.Status == event.Away })
			back := slices.ContainsFunc(out.events, func(e event.Event) bool { return e.Kind == event.KindServer && e.Status == event.Back })
			if tt.want == "" {
				final := map[string]rcommon.Status{"install": rcommon.StatusDeployed, "upgrade": rcommon.StatusDeployed}[tt.operation]
				if got := r.status(); out.state.Exit != 0 || got != final || !away || !back {
					t.Errorf("exit %d: %.300s; the release is %q; told away %t, back %t", out.state.Exit, out.state.Message, got, away, back)
				}
				return
			}
			if out.state.Exit != 1 || !strings.Contains(out.state.Message, tt.want) {
				t.Errorf("exit %d: %.300s", out.state.Exit, out.state.Message)
			}
			if got := r.status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed: %.500s", got, out.state.Message)
			}
			if n := len(out.state.Message); n > 3000 {
				t.Errorf("the message is %d characters long: %.600s…", n, out.state.Message)
			}
		})
	}
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

// TestShortOutage loses the API server while something is waited for, until
// that has come about: the wait ends well, and nothing fails.
func TestShortOutage(t *testing.T) {
	t.Parallel()
	chart := one(t, deployment("store", group("a"), "2s"), configMap("after", group("b", "a")))
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		// It is made ready while the wire is cut.
		chart := one(t, deployment("store", group("a"), "1h"), configMap("after", group("b", "a")))
		install := func() (*Operation, error) { return r.install("plain", use(chart, nil)) }
		out, back := r.cutWhile(install, "deployments", "store", "0 of 1", func() {
			sooner := []byte(`{"spec":{"template":{"metadata":{"annotations":{"sandbox/ready-delay":"0s"}}}}}`)
			if _, err := r.cluster.AppsV1().Deployments(r.namespace).Patch(t.Context(), "store", types.MergePatchType, sooner, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
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
// the release is marked failed, and says how to go on; that then works (R34, R52).
func TestLongOutage(t *testing.T) {
	t.Parallel()
	many := func(v string) *charts.Chart {
		return one(t, "{{- range $i := until 300 }}\n---\n"+strings.ReplaceAll(configMap("c-NUMBER", group("many"), "v: "+v), "NUMBER", "{{ $i }}")+"\n{{- end }}")
	}
	tests := map[string]struct {
		status rcommon.Status
		then   []string // the history
	}{
		"install":   {rcommon.StatusPendingInstall, []string{"1 failed", "2 deployed"}},
		"upgrade":   {rcommon.StatusPendingUpgrade, []string{"1 superseded", "2 failed", "3 deployed"}},
		"uninstall": {rcommon.StatusUninstalling, nil},
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
			op, err := r.prepare(operation, use(many("two"), func(i *Install) { i.Timeout = 20 * time.Second }))
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
			for _, part := range []string{"edge:many: ConfigMap/c-", "could not be marked failed", string(tt.status), "the same command goes on from there once"} {
				if !strings.Contains(out.state.Message, part) {
					t.Errorf("the message does not say %q: %.300s … %.300s", part, out.state.Message, out.state.Message[max(0, len(out.state.Message)-300):])
				}
			}
			if strings.Contains(out.state.Message, "is marked failed") {
				t.Errorf("the message claims what is not so: %.300s", out.state.Message)
			}
			again := r.mustRun(r.prepare(operation, use(many("two"), nil)))
			if !again.says("R52", "was left "+string(tt.status), "by a run that is dead: "+operation+" by ") {
				t.Errorf("the same command says %v", again.state.Warnings)
			}
			if r.status() != "" {
				r.assertHistory(tt.then...)
			} else if left := r.left(); len(left) > 0 || tt.then != nil {
				t.Errorf("left are %d objects", len(left))
			}
		})
	}
}
