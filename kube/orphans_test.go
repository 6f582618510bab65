package kube

import (
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/kube/charts"
)

// TestOrphansOfAnInterruptedRun: what an upgrade has brought that failed, and which an
// upgrade of Helm's does not know of, goes with the next operation of ours, as far as it
// is still the release's (R32a).
func TestOrphansOfAnInterruptedRun(t *testing.T) {
	good := one(t, configMap("a", nil))
	tests := map[string]func(*rig) (*Operation, error){
		"upgrade":  func(r *rig) (*Operation, error) { return r.upgrade("plain", useUp(good, nil)) },
		"rollback": func(r *rig) (*Operation, error) { return r.rollback(3) },
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(good, nil))
			op, err := r.upgrade("plain", useUp(failing(t, "taken", "b"), nil))
			r.mustFail(op, err)
			r.helmUpgrade(good)
			r.helmUpgrade(good)
			r.patchConfigMap("taken", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			r.mustRun(do(r))
			if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"a", "taken"}) || len(r.jobs()) > 0 {
				t.Errorf("there are %v and %v", got, r.jobs())
			}
		})
	}
}

// helmUpgrade upgrades with Helm's own SDK.
func (r *rig) helmUpgrade(c *charts.Chart) *rel1.Release {
	r.t.Helper()
	up := action.NewUpgrade(r.helm())
	up.Namespace = r.namespace
	up.ServerSideApply, up.WaitStrategy = "auto", helmkube.HookOnlyStrategy
	rel, err := up.RunWithContext(r.t.Context(), "t", mustHelm(r.t, c), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return rel.(*rel1.Release)
}
