package lease

import (
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestLostErrorOffersHistory: the error about a changed release names the command that shows its history, if it has one.
func TestLostErrorOffersHistory(t *testing.T) {
	for _, tt := range []struct {
		newer *event.NewerRevision
		want  bool
	}{
		{nil, true},
		{&event.NewerRevision{Revision: 3, Status: "deployed"}, true},
		{&event.NewerRevision{Revision: 3, Status: "uninstalled"}, true},
		{&event.NewerRevision{Status: event.NoRelease}, false},
	} {
		err := &LostError{Release: "s", Namespace: "n", Why: "why", RecordChanged: true, Newer: tt.newer}
		if got := strings.Contains(err.Error(), "lockstep history s -n n"); got != tt.want || !strings.Contains(err.Error(), "run the command again") {
			t.Errorf("%+v: %s", tt.newer, err)
		}
	}
}
