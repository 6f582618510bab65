package board

import (
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestInspectorSaysTheRule expects that the inspector says by which rule an object is ready, and shows one whose controller
// said nothing as applied (R22a).
func TestInspectorSaysTheRule(t *testing.T) {
	for by, want := range map[event.Judge]string{
		event.ByChart:    "ready by the chart's expressions, created",
		event.ByNoStatus: "applied: its controller wrote no status within 10s",
	} {
		events := recorded(t, "sandbox-held", 0)
		for n := range events {
			if e := &events[n]; e.Kind == event.KindObject && e.Status == event.Ready {
				if e.ReadyBy, e.Message = by, ""; by == event.ByNoStatus {
					e.Message = "its controller wrote no status within 10s"
				}
			}
		}
		s := newScreen(t, 120, 40, events)
		s.press("left", "enter", "down")
		if !strings.Contains(s.text(), want) {
			t.Errorf("no %q in\n%s", want, s.text())
		}
	}
}
