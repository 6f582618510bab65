package outage

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
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestLostAPI: the API server is unreachable during an operation. After a short outage the operation continues (R53).
// After one that is longer than the timeout, the release is failed, not pending (R34).
func TestLostAPI(t *testing.T) {
	type lostAPI struct {
		operation string
		link      rig.LinkState
		timeout   time.Duration
		away      time.Duration
		want      string // part of the error, "" for success
	}
	tests := []lostAPI{
		{"upgrade", rig.LinkCut, 2 * time.Minute, 3 * time.Second, ""},
		// The outage is longer than the timeout and the wait for requests in flight.
		{"install", rig.LinkSilent, 8 * time.Second, 20 * time.Second, "--timeout"},
	}
	if rig.Long {
		tests = append(tests, lostAPI{"install", rig.LinkCut, 2 * time.Minute, 6 * time.Second, ""}, lostAPI{"uninstall", rig.LinkCut, 2 * time.Minute, 3 * time.Second, ""})
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s link %d", tt.operation, tt.link), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			p := rig.NewProxy(t)
			chart := func(v string) string {
				return "{{- range $i := until 300 }}\n---\n" + strings.ReplaceAll(rig.ConfigMap("c-NUMBER", rig.Group("many"), "v: "+v), "NUMBER", "{{ $i }}") + "\n{{- end }}\n---\n" + rig.ConfigMap("after", rig.Group("after", "many"))
			}
			if tt.operation != "install" {
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, chart("one")), nil))
			}
			r.Client = p.Client(t, r.Namespace)
			op := r.Must(r.Prepare(tt.operation, rig.UseChart(rig.ChartOf(t, chart("two")), func(i *kube.Deploy) { i.Timeout = tt.timeout })))
			var lost sync.Once
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Group == "edge:many" && e.Change != "" {
					lost.Do(func() {
						p.Set(tt.link)
						time.AfterFunc(tt.away, func() { p.Set(rig.LinkUp) })
					})
				}
			})
			away := slices.ContainsFunc(out.Events, func(e event.Event) bool { return e.Kind == event.KindServer && e.Status == event.Away })
			back := slices.ContainsFunc(out.Events, func(e event.Event) bool { return e.Kind == event.KindServer && e.Status == event.Back })
			if tt.want == "" {
				final := map[string]rcommon.Status{"install": rcommon.StatusDeployed, "upgrade": rcommon.StatusDeployed}[tt.operation]
				if got := r.Status(); out.State.Exit != 0 || got != final || !away || !back {
					t.Errorf("exit %d: %.300s; the release is %q; reported unreachable %t, back %t", out.State.Exit, out.State.Message, got, away, back)
				}
				return
			}
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, tt.want) {
				t.Errorf("exit %d: %.300s", out.State.Exit, out.State.Message)
			}
			if got := r.Status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed: %.500s", got, out.State.Message)
			}
			if n := len(out.State.Message); n > 3000 {
				t.Errorf("the message is %d characters long: %.600s…", n, out.State.Message)
			}
		})
	}
}

// TestShortOutage: the API server is unreachable while the awaited object becomes ready. The wait succeeds.
func TestShortOutage(t *testing.T) {
	t.Parallel()
	chart := rig.ChartOf(t, rig.Deployment("store", rig.Group("a"), "2s"), rig.ConfigMap("after", rig.Group("b", "a")))
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.Meddles = "the test makes the Deployment ready during the outage"
		chart := rig.ChartOf(t, rig.Deployment("store", rig.Group("a"), "1h"), rig.ConfigMap("after", rig.Group("b", "a")))
		install := func() (*kube.Operation, error) { return r.Install("plain", rig.UseChart(chart, nil)) }
		out, back := r.CutWhile(install, "deployments", "store", "0 of 1", func() {
			sooner := []byte(`{"spec":{"template":{"metadata":{"annotations":{"sandbox/ready-delay":"0s"}}}}}`)
			if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "store", types.MergePatchType, sooner, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			r.Eventually("store is ready", func() bool {
				d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "store", metav1.GetOptions{})
				return err == nil && d.Status.AvailableReplicas == 1
			})
		})
		if out.Err != nil || out.State.Exit != 0 || r.Status() != rcommon.StatusDeployed {
			t.Errorf("exit %d: %v; the release is %q", out.State.Exit, out.Err, r.Status())
		}
		if after, _ := r.Timeline("lockstep").FirstWrite(t, []string{"ConfigMap/after"}); back.IsZero() || after.Before(back) {
			t.Errorf("after was written at %s, but the API server was unreachable until %s", rig.Clock(after), rig.Clock(back))
		}
	})
	t.Run("uninstall", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.Deploy("plain", rig.UseChart(chart, nil))
		r.PatchConfigMap("after", `{"metadata":{"finalizers":["example.com/held"]}}`)
		out, back := r.CutWhile(r.Uninstall, "configmaps", "after", "example.com/held", func() { r.PatchConfigMap("after", `{"metadata":{"finalizers":null}}`) })
		if out.Err != nil || out.State.Exit != 0 || r.Status() != "" || len(r.Remaining()) > 0 {
			t.Errorf("exit %d: %v; the release is %q, remaining: %v", out.State.Exit, out.Err, r.Status(), r.Remaining())
		}
		if gone, _ := r.Timeline("lockstep").FirstDelete(t, []string{"Deployment/store"}); back.IsZero() || gone.Before(back) {
			t.Errorf("store was deleted at %s, but the API server was unreachable until %s", rig.Clock(gone), rig.Clock(back))
		}
	})
}

// TestLongOutage: the API server is unreachable for longer than lockstep retries the final write of the release record.
// The error names the current step, does not claim that the release is marked failed, and says how to continue. That
// works (R34, R52).
func TestLongOutage(t *testing.T) {
	t.Parallel()
	many := func(v string) *charts.Chart {
		return rig.ChartOf(t, "{{- range $i := until 300 }}\n---\n"+strings.ReplaceAll(rig.ConfigMap("c-NUMBER", rig.Group("many"), "v: "+v), "NUMBER", "{{ $i }}")+"\n{{- end }}")
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
		if !rig.Long && operation != "upgrade" {
			continue
		}
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			if operation != "install" {
				r.Deploy("plain", rig.UseChart(many("one"), nil))
			}
			p, direct := rig.NewProxy(t), r.Client
			r.Client = p.Client(t, r.Namespace)
			op := r.Must(r.Prepare(operation, rig.UseChart(many("two"), func(i *kube.Deploy) { i.Timeout = 20 * time.Second })))
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Group == "edge:many" && e.Change != "" {
					p.Set(rig.LinkCut)
				}
			})
			r.Client = direct
			if out.State.Exit != 1 || r.Status() != tt.status {
				t.Errorf("exit %d, the release is %q", out.State.Exit, r.Status())
			}
			for _, part := range []string{"edge:many: ConfigMap/c-", "could not be marked failed", string(tt.status), "fix the cause and run the same command again"} {
				if !strings.Contains(out.State.Message, part) {
					t.Errorf("the message lacks %q: %.300s … %.300s", part, out.State.Message, out.State.Message[max(0, len(out.State.Message)-300):])
				}
			}
			if strings.Contains(out.State.Message, "is marked failed") {
				t.Errorf("the message claims that the release is marked failed: %.300s", out.State.Message)
			}
			again := r.MustRun(r.Prepare(operation, rig.UseChart(many("two"), nil)))
			if !again.HasWarning("R52", "was left "+string(tt.status), "by a run that was killed: "+operation+" by ") {
				t.Errorf("no warning that the release was left %s: %v", tt.status, again.State.Warnings)
			}
			if r.Status() != "" {
				r.AssertHistory(tt.then...)
			} else if left := r.Remaining(); len(left) > 0 || tt.then != nil {
				t.Errorf("%d objects were not removed", len(left))
			}
		})
	}
}
