package order

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRunWaitsForEveryGroup has a last group that never becomes ready. By default that fails
// an install, an upgrade and a rollback. If only groups that others wait for are checked, the
// outcome names the unchecked groups (R21).
func TestRunWaitsForEveryGroup(t *testing.T) {
	t.Parallel()
	good := []string{rig.ConfigMap("first", rig.Group("first")), rig.Deployment("last", rig.Group("last", "first"), "0s")}
	bad := []string{rig.ConfigMap("first", rig.Group("first")), rig.UnpullableDeployment("last", rig.Impatient(rig.Group("last", "first")))}
	operations := map[string]func(r *rig.Rig, common kube.Common) (*kube.Operation, error){
		"install": func(r *rig.Rig, common kube.Common) (*kube.Operation, error) {
			return r.Install("plain", rig.UseChart(rig.ChartOf(t, bad...), func(i *kube.Deploy) { i.Common = common }))
		},
		"upgrade": func(r *rig.Rig, common kube.Common) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, good...), nil))
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, bad...), func(u *kube.Deploy) { u.Common = common }))
		},
		"rollback": func(r *rig.Rig, common kube.Common) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, bad...), func(i *kube.Deploy) { i.SkipLeaves = true }))
			r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, good...), nil)))
			return r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: common, Revision: 1})
		},
	}
	for name, prepare := range operations {
		for _, skip := range []bool{false, true} {
			title := name
			if skip {
				title += " with unchecked leaves"
			}
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				common := r.Common()
				common.SkipLeaves = skip
				op := r.Must(prepare(r, common))
				s := r.Run(op, nil).State
				if !skip && (s.Status != event.Failed || s.Exit != 1 || s.Release != "failed") {
					t.Errorf("%s, exit %d, the release is %s: %s", s.Status, s.Exit, s.Release, phrase.Reason(&s))
				}
				if skip && (s.Ending() != event.Applied || s.Exit != 0 || s.Release != "deployed" || s.Outcome != "1 group applied, not checked") {
					t.Errorf("%s, exit %d, the release is %s: %q", s.Ending(), s.Exit, s.Release, s.Outcome)
				}
			})
		}
	}
}
