package hooks

import (
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestReleaseTests runs the test hooks of a release.
func TestReleaseTests(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("shop", nil)
	op, err := r.Client.PrepareTest(t.Context(), kube.ReleaseTest{Common: kube.Common{Release: "t", Namespace: r.Namespace}})
	out := r.MustRun(op, err)
	if len(out.State.Phases) != 1 || out.State.Phases[0].Kind != event.PhaseHooks || out.State.Phases[0].Groups[0].Status != event.Ready {
		t.Errorf("phases %+v", out.State.Phases)
	}
	if got := r.Status(); got != rcommon.StatusDeployed {
		t.Errorf("the release is %s after a test", got)
	}
}
