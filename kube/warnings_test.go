package kube

import (
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestWarnings are deployed all the same, and told of (R2, R8, R9, R12, R24).
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
			r := newRig(t)
			out := r.deploy(tt.chart, nil)
			found := false
			for _, e := range out.events {
				found = found || e.Kind == event.KindWarning && e.Rule == tt.rule && strings.Contains(e.Message, tt.part)
			}
			if !found {
				t.Errorf("no warning %s about %q in %+v", tt.rule, tt.part, out.state.Warnings)
			}
		})
	}
}
