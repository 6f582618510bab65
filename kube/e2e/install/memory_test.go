package install

import (
	"strings"
	"testing"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestMemoryDriverIsRefused: HELM_DRIVER=memory is refused, because the record would disappear with the process (R28).
func TestMemoryDriverIsRefused(t *testing.T) {
	r := rig.New(t)
	t.Setenv("HELM_DRIVER", "memory")
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
	for name, prepare := range map[string]func() (*kube.Operation, error){
		"install": func() (*kube.Operation, error) { return r.Install("plain", rig.UseChart(chart, nil)) },
		"upgrade": func() (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Install = true }))
		},
		"rollback":  func() (*kube.Operation, error) { return r.Rollback(1) },
		"uninstall": r.Uninstall,
	} {
		if _, err := prepare(); err == nil || !strings.Contains(err.Error(), "HELM_DRIVER=memory") || !strings.Contains(err.Error(), "secret, configmap or sql") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w := r.Writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
	if _, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.PlanOnly = true })); err != nil {
		t.Errorf("a plan is refused: %v", err)
	}
}
