package report

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestLongPath names the ends of a long path, and counts what is between.
func TestLongPath(t *testing.T) {
	var path []*event.GroupState
	for n := range 30 {
		path = append(path, &event.GroupState{Group: &plan.Group{ID: fmt.Sprintf("c:g%d", n)}})
	}
	text := pathText(&event.State{}, path, Style{})
	for _, want := range []string{"c:g0 0.0s → ", "c:g7 0.0s → … 14 groups … → c:g22 0.0s", "→ c:g29 0.0s"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if text = pathText(&event.State{}, path[:16], Style{}); strings.Contains(text, "…") || strings.Count(text, "→") != 15 {
		t.Errorf("a path of 16: %s", text)
	}
}
