package kube

import (
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
)

// TestReleaseTests runs the test hooks of a release.
func TestReleaseTests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("shop", nil)
	op, err := r.client.PrepareTest(t.Context(), ReleaseTest{Common: Common{Release: "t", Namespace: r.namespace}})
	out := r.mustRun(op, err)
	if len(out.state.Phases) != 1 || out.state.Phases[0].Kind != event.PhaseHooks || out.state.Phases[0].Groups[0].Status != event.Ready {
		t.Errorf("phases %+v", out.state.Phases)
	}
	if got := r.status(); got != rcommon.StatusDeployed {
		t.Errorf("the release is %s after a test", got)
	}
}
