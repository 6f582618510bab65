package upgrade

import (
	"testing"
	"time"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestRecreateStrategy: a Deployment that becomes Recreate keeps what the API server has set by default beside the old strategy, and is
// refused, as by Helm. The refusal names two ways out, and both work (R30b).
func TestRecreateStrategy(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(strategy string) *charts.Chart {
		return rig.ChartOf(t, rig.Object("apps/v1/Deployment/it", nil, "spec:", "  selector: {matchLabels: {app: it}}", strategy, pods("app: it")))
	}
	recreate := func(change func(*kube.Deploy)) (*kube.Operation, error) {
		return r.Upgrade("plain", rig.UseChart(chart("  strategy: {type: Recreate}"), change))
	}
	r.Deploy("plain", rig.UseChart(chart(""), nil))
	before, _ := uids(r, "deployments.v1.apps", "it")

	start := time.Now()
	_, err := recreate(nil)
	r.MustRefuse(start, err, "Deployment/it", "spec.strategy.rollingUpdate: may not be specified when strategy `type` is 'Recreate'; remove it with --server-side=false", "--replace Deployment/it")
	r.MustRun(recreate(func(u *kube.Deploy) { u.ReplaceObjects = []string{"Deployment/it"} }))
	replaced, _ := uids(r, "deployments.v1.apps", "it")
	if replaced == before || replaced == "" {
		t.Errorf("with --replace the object has UID %q, and had %q", replaced, before)
	}
	r.MustRun(r.Rollback(1))
	r.MustRun(recreate(func(u *kube.Deploy) { u.ServerSide = "false" }))
	if after, _ := uids(r, "deployments.v1.apps", "it"); after != replaced {
		t.Errorf("with --server-side=false the object has UID %q, want %q", after, replaced)
	}
}
