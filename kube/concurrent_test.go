package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
)

// TestTwoAtOnce runs an operation in the middle of another one on the same
// release, for which it was prepared before that had begun: it writes nothing,
// and above all rolls nothing back (R33, R34).
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	chart := one(t, deployment("slow", group("a"), "1500ms"), configMap("after", group("b", "a")))
	for _, operation := range []string{"install", "upgrade", "rollback"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			other := &rig{t: t, namespace: r.namespace, client: connected(t, r.namespace), cluster: r.cluster}
			switch operation {
			case "rollback":
				r.deploy("plain", use(chart, nil))
				fallthrough
			case "upgrade":
				op, err := r.upgrade("plain", useUp(one(t, configMap("before", nil)), func(u *Upgrade) { u.Install = true }))
				r.mustRun(op, err)
			}
			prepare := func(r *rig) *Operation {
				t.Helper()
				var op *Operation
				var err error
				switch operation {
				case "install":
					op, err = r.install("plain", use(chart, func(i *Install) { i.RollbackOnFailure = true }))
				case "upgrade":
					op, err = r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.RollbackOnFailure = true }))
				case "rollback":
					op, err = r.rollback(1)
				}
				if err != nil {
					t.Fatal(err)
				}
				return op
			}
			first, second := prepare(r), prepare(other)
			var late outcome
			out := r.run(first, func(e event.Event) {
				if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change != "" {
					late = other.run(second, nil)
				}
			})
			if late.err == nil || late.state.Exit != 2 || late.state.Status != event.Failed || !strings.Contains(late.state.Message, "nothing was written") {
				t.Errorf("the second one: %v, exit %d: %s", late.err, late.state.Exit, late.state.Message)
			}
			if out.err != nil || out.state.Exit != 0 || out.state.Release != "deployed" {
				t.Errorf("the first one: %v, exit %d, release %s", out.err, out.state.Exit, out.state.Release)
			}
			if left := r.left(); !slices.Contains(left, "Deployment/slow") || !slices.Contains(left, "ConfigMap/after") {
				t.Errorf("left are %v", left)
			}
			if r.status() != rcommon.StatusDeployed {
				t.Errorf("the release is %s", r.status())
			}
		})
	}
}

// TestUninstalledMeanwhile tells that the release of an upgrade is gone, and
// claims nothing of it.
func TestUninstalledMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("before", nil)), nil))
	op, err := r.upgrade("plain", useUp(one(t, deployment("slow", group("a"), "1h"), configMap("after", group("b", "a"))), func(u *Upgrade) { u.ReadinessTimeout = 10 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change == event.Created {
			u := action.NewUninstall(r.helm())
			u.WaitStrategy = helmkube.HookOnlyStrategy
			if _, err := u.Run("t"); err != nil {
				t.Error(err)
			}
		}
	})
	if out.state.Exit != 1 || out.state.Release != event.NoRelease || !strings.Contains(out.state.Message, "somebody else has uninstalled it") {
		t.Errorf("exit %d, release %q: %s", out.state.Exit, out.state.Release, out.state.Message)
	}
}
