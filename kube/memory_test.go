package kube

import (
	"strings"
	"testing"
)

// TestMemoryDriverIsRefused: a record that is gone with the process would leave objects
// that nobody can upgrade or uninstall (R28).
func TestMemoryDriverIsRefused(t *testing.T) {
	r := newRig(t)
	t.Setenv("HELM_DRIVER", "memory")
	chart := one(t, configMap("a", nil))
	for name, prepare := range map[string]func() (*Operation, error){
		"install": func() (*Operation, error) { return r.install("plain", use(chart, nil)) },
		"upgrade": func() (*Operation, error) {
			return r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.Install = true }))
		},
		"rollback":  func() (*Operation, error) { return r.rollback(1) },
		"uninstall": r.uninstall,
	} {
		if _, err := prepare(); err == nil || !strings.Contains(err.Error(), "HELM_DRIVER=memory") || !strings.Contains(err.Error(), "secret, configmap or sql") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
	if _, err := r.install("plain", use(chart, func(i *Install) { i.PlanOnly = true })); err != nil {
		t.Errorf("a plan: %v", err)
	}
}
