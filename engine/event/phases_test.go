package event

import "testing"

// TestLayerTitle: no two phases with layers have the same titles.
func TestLayerTitle(t *testing.T) {
	for _, c := range []struct {
		phase string
		kind  PhaseKind
		want  string
	}{
		{"apply", PhaseApply, "layer 1"},
		{"remove", PhaseRemove, "delete layer 1"},
		{"remove-2", PhaseRemove, "delete layer 1 (left over from revision 2)"},
		{"rollback/apply", PhaseApply, "rollback layer 1"},
		{"rollback/remove", PhaseRemove, "rollback: delete layer 1"},
		{"rollback/remove-12", PhaseRemove, "rollback: delete layer 1 (left over from revision 12)"},
	} {
		if got := LayerTitle(c.phase, c.kind, 1); got != c.want {
			t.Errorf("%s: %q, want %q", c.phase, got, c.want)
		}
	}
	for phase, want := range map[string]string{
		"pre-install": "pre-install", "rollback/crds": "rollback: crds", "rollback/post-rollback": "post-rollback", "rollback/pre-delete": "rollback: pre-delete",
	} {
		if got := PhaseTitle(phase, PhaseHooks); got != want {
			t.Errorf("%s: %q, want %q", phase, got, want)
		}
	}
}
