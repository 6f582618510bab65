package runs

import (
	"context"
	"errors"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/cli/screen"
)

// seen is an inspector of a release that has a record.
type seen struct{ inspect.Cluster }

func (seen) Events(context.Context, plan.Object) ([]event.ClusterEvent, error) {
	return []event.ClusterEvent{{Reason: "Created"}}, nil
}

// TestLateInspector: the screen of a run in the cluster sees events as soon as the release has a record, not only if it
// had one when the screen opened.
func TestLateInspector(t *testing.T) {
	asked := 0
	l := &lateInspector{ChangeSource: screen.NoChanges("none"), prepare: func(context.Context) (inspect.Cluster, error) {
		if asked++; asked == 1 {
			return nil, errors.New("release: not found")
		}
		return seen{}, nil
	}}
	if _, err := l.Events(t.Context(), plan.Object{}); !errors.As(err, new(inspect.Unavailable)) {
		t.Errorf("without a record: %v", err)
	}
	for range 2 {
		if events, err := l.Events(t.Context(), plan.Object{}); err != nil || len(events) != 1 {
			t.Errorf("with a record: %v, %v", events, err)
		}
	}
	if asked != 2 {
		t.Errorf("prepared %d times", asked)
	}
}
