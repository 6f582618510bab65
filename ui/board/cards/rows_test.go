package cards

import (
	"testing"

	"lockstep/engine/event"
)

// TestChangedFirst: a low card shows what the run has changed, not what stayed as it was.
func TestChangedFirst(t *testing.T) {
	objects := []*event.ObjectState{{Change: event.Unchanged}, {Change: event.Configured}, {}}
	got := changedFirst(objects)
	if got[0] != objects[1] || got[1] != objects[2] || got[2] != objects[0] {
		t.Errorf("the order is %v", got)
	}
}
