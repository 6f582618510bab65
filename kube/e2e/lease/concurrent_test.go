package lease

import (
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestStalePlan prepares two operations on a release, then runs the second one during the first. The second one writes
// nothing and rolls nothing back (R33, R34).
func TestStalePlan(t *testing.T) {
	t.Parallel()
	chart := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1500ms"), rig.ConfigMap("after", rig.Group("b", "a")))
	for _, operation := range []string{"install", "upgrade", "rollback"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			other := &rig.Rig{T: t, Namespace: r.Namespace, Client: rig.Connect(t, r.Namespace), Cluster: r.Cluster}
			switch operation {
			case "rollback":
				r.Deploy("plain", rig.UseChart(chart, nil))
				fallthrough
			case "upgrade":
				op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("before", nil)), func(u *kube.Deploy) { u.Install = true }))
				r.MustRun(op, err)
			}
			prepare := func(r *rig.Rig) *kube.Operation {
				t.Helper()
				var op *kube.Operation
				var err error
				switch operation {
				case "install":
					op, err = r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.RollbackOnFailure = true }))
				case "upgrade":
					op, err = r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.RollbackOnFailure = true }))
				case "rollback":
					op, err = r.Rollback(1)
				}
				if err != nil {
					t.Fatal(err)
				}
				return op
			}
			first, second := prepare(r), prepare(other)
			var late rig.Outcome
			out := r.Run(first, func(e event.Event) {
				if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change != "" {
					late = other.Run(second, nil)
				}
			})
			if late.Err == nil || late.State.Exit != 2 || late.State.Status != event.Failed || !strings.Contains(late.State.Message, "nothing was written") {
				t.Errorf("the second operation: %v, exit %d: %s", late.Err, late.State.Exit, late.State.Message)
			}
			if out.Err != nil || out.State.Exit != 0 || out.State.Release != "deployed" {
				t.Errorf("the first operation: %v, exit %d, release %s", out.Err, out.State.Exit, out.State.Release)
			}
			if left := r.Remaining(); !slices.Contains(left, "Deployment/slow") || !slices.Contains(left, "ConfigMap/after") {
				t.Errorf("the objects of the first operation are missing: %v", left)
			}
			if r.Status() != rcommon.StatusDeployed {
				t.Errorf("the release is %s", r.Status())
			}
		})
	}
}

// TestUninstalledMeanwhile: an upgrade whose release is uninstalled by somebody else reports that, and no other status.
func TestUninstalledMeanwhile(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("before", nil)), nil))
	op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1h"), rig.ConfigMap("after", rig.Group("b", "a"))), func(u *kube.Deploy) { u.ReadinessTimeout = 10 * time.Second })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change == event.Created {
			u := action.NewUninstall(r.Helm())
			u.WaitStrategy = helmkube.HookOnlyStrategy
			if _, err := u.Run("t"); err != nil {
				t.Error(err)
			}
		}
	})
	// The run looks at the records when slow is gone: before or after the last one is deleted.
	gone := out.State.Release == event.NoRelease && strings.Contains(out.State.Message, "was uninstalled by somebody else")
	going := out.State.Release == "uninstalling" && strings.Contains(out.State.Message, "revision 2 changed from pending-upgrade to uninstalling")
	if out.State.Exit != 1 || !gone && !going {
		t.Errorf("exit %d, release %q: %s", out.State.Exit, out.State.Release, out.State.Message)
	}
}
