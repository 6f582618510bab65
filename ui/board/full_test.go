package board

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
)

// mostEmpty is how many rows of a screen may be empty while a card is smaller than it could be.
const mostEmpty = 3

// TestRoomForCards: at the large sizes, over all recorded runs and in every tab, no card is smaller than it could be while
// more than three rows are empty.
func TestRoomForCards(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		runs := map[string][]event.Event{"40 groups": graphOf(40, 4), "120 groups": graphOf(120, 12), "120 groups in a row": graphOf(120, 3)}
		for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint", "sandbox-upgrade", "running", "failed", "retried"} {
			runs[run] = recorded(t, run, 0)
		}
		for run, all := range runs {
			for _, size := range sizes[3:] {
				for _, n := range []int{len(all) / 3, len(all) / 2, len(all) * 2 / 3, len(all)} {
					for tab := range 9 {
						s := newScreen(t, size[0], size[1], all[:n], answered)
						if tab > 0 {
							s.press(fmt.Sprint(tab))
							s.settle()
						}
						if empty := s.emptyRows(); empty > mostEmpty && s.board.HiddenRows() > 0 {
							t.Errorf("%s, event %d at %v, tab %d: %d rows are empty, and cards lack %d rows:\n%s", run, n, size, tab, empty, s.board.HiddenRows(), s.text())
						}
					}
				}
			}
		}
	})
}

// emptyRows returns how many rows below the header are empty.
func (s *rig) emptyRows() (n int) {
	for _, l := range s.lines()[s.header.Rows():] {
		if strings.TrimSpace(l) == "" {
			n++
		}
	}
	return n
}

// TestRoomForReleases: the same for the releases of a stack and for the board of each.
func TestRoomForReleases(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, size := range sizes[3:] {
			for _, n := range []int{40, 75, 120, 0} {
				all := openStack(t, size[0], size[1], n, dark, new([]event.Command))
				for _, m := range append(slices.Collect(maps.Values(all.boards)), all.model) {
					s := &rig{model: m}
					if empty := s.emptyRows(); empty > mostEmpty && s.board.HiddenRows() > 0 {
						t.Errorf("event %d at %v: %d rows are empty, and cards lack %d rows:\n%s", n, size, empty, s.board.HiddenRows(), s.text())
					}
				}
			}
		}
	})
}

// TestPlanSaysWhere: the screen of a plan names the cluster, the namespace and the revision, and says that it is a plan.
func TestPlanSaysWhere(t *testing.T) {
	op := &event.Operation{Name: "upgrade", Release: "shop", Namespace: "shop", Context: "prod-eu", Revision: 4}
	s := newScreen(t, 100, 30, nil, func(o *Options) { o.Title = "plan upgrade shop" })
	s.send(batchMsg{events: []event.Event{{Kind: event.KindPlan, Operation: op, Phases: phases(), Seq: 1, Time: time.Now()}}})
	if head := s.lines()[0]; !strings.Contains(head, "plan upgrade shop") || !strings.Contains(head, "prod-eu · ns shop · rev 4") {
		t.Errorf("the header is %q", head)
	}
}
