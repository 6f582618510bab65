package install

import (
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube/e2e/rig"
)

// TestWarnings: charts with warnings are deployed, and the warnings are published (R2, R8, R9,
// R12, R24).
func TestWarnings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		chart, rule, part string
	}{
		{"warn-list", "R2", "helm.sh/depends-on/resource-groups"},
		{"hip0025-groups", "R8", "another-group"},
		{"warn-isolated", "R9", ""},
		{"disabled-dep", "R12", "extra"},
		{"warn-readiness-half", "R24", "helm.sh/readiness-failure"},
		{"chart-v3", "R34a", "v3"},
	}
	for _, tt := range tests {
		t.Run(tt.chart, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			out := r.Deploy(tt.chart, nil)
			found := false
			for _, e := range out.Events {
				found = found || e.Kind == event.KindWarning && e.Rule == tt.rule && strings.Contains(e.Message, tt.part)
			}
			if !found {
				t.Errorf("no warning %s about %q in %+v", tt.rule, tt.part, out.State.Warnings)
			}
		})
	}
}

// TestAPIServerWarnings: each warning of the API server is published once.
func TestAPIServerWarnings(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	c := rig.ChartOf(t, rig.Object("v1/Service/old", nil, "spec: {externalName: ignored.example, ports: [{port: 80}]}"))
	out := r.Run(r.Must(r.Install("shop", rig.UseChart(c, nil))), nil)
	counts := map[string]int{}
	for _, w := range out.State.Warnings {
		if strings.HasPrefix(w.Message, "Service/old: the API server warns: ") {
			counts[w.Message]++
		}
	}
	if len(counts) == 0 {
		t.Errorf("no warning of the API server: %v", out.State.Warnings)
	}
	for w, n := range counts {
		if n != 1 {
			t.Errorf("published %d times: %s", n, w)
		}
	}
}
