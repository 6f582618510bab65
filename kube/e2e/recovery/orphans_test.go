package recovery

import (
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestOrphansOfAnInterruptedRun: the next lockstep operation deletes objects of a failed upgrade that upgrades by Helm kept,
// if the release still owns them (R32a).
func TestOrphansOfAnInterruptedRun(t *testing.T) {
	good := rig.ChartOf(t, rig.ConfigMap("a", nil))
	tests := map[string]func(*rig.Rig) (*kube.Operation, error){
		"upgrade":  func(r *rig.Rig) (*kube.Operation, error) { return r.Upgrade("plain", rig.UseChart(good, nil)) },
		"rollback": func(r *rig.Rig) (*kube.Operation, error) { return r.Rollback(3) },
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(good, nil))
			r.MustFail(r.Upgrade("plain", rig.UseChart(rig.FailingChart(t, "taken", "b"), nil)))
			helmUpgrade(r, good)
			helmUpgrade(r, good)
			r.PatchConfigMap("taken", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			r.MustRun(do(r))
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a", "taken"}) || len(r.Jobs()) > 0 {
				t.Errorf("ConfigMaps %v, Jobs %v", got, r.Jobs())
			}
		})
	}
}

// helmUpgrade upgrades with Helm's SDK.
func helmUpgrade(r *rig.Rig, c *charts.Chart) *rel1.Release {
	r.T.Helper()
	up := action.NewUpgrade(r.Helm())
	up.Namespace = r.Namespace
	up.ServerSideApply, up.WaitStrategy = "auto", helmkube.HookOnlyStrategy
	rel, err := up.RunWithContext(r.T.Context(), "t", rig.HelmChart(r.T, c), nil)
	if err != nil {
		r.T.Fatal(err)
	}
	return rel.(*rel1.Release)
}
