package board

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/golden"
)

// TestApprovalGolden compares a run that waits for an approval at all sizes and in all colours. A group that will need one says so
// before its turn.
func TestApprovalGolden(t *testing.T) {
	group := func(name, reason string, after ...string) *plan.Group {
		g := &plan.Group{ID: "shop:" + name, Chart: "shop", Name: name, After: after, Layer: len(after), Objects: []plan.Object{{Group: "apps", Kind: "Deployment", Name: name}}}
		if reason != "" {
			g.Approve = []plan.Approval{{Of: g.ID, Reason: reason}}
		}
		return g
	}
	groups := []*plan.Group{group("cache", ""), group("schema", "drops table users"), group("api", "restarts all clients", "shop:cache"), group("web", "", "shop:schema")}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "shop", Namespace: "shop", Context: "prod-eu", Timeout: 5 * time.Minute}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "shop:cache", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "shop:cache", Object: &groups[0].Objects[0], Status: event.Ready},
		{Kind: event.KindGroup, Phase: "apply", Group: "shop:cache", Status: event.Ready},
		{Kind: event.KindGroup, Phase: "apply", Group: "shop:schema", Status: event.AtBreakpoint, Code: event.Unapproved, Message: "waits for approval: drops table users"},
		{Kind: event.KindRun, Status: event.Paused, Code: event.Unapproved, Message: "shop:schema waits for approval: drops table users"},
	}
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), at.Add(time.Duration(i)*time.Second)
	}
	var all strings.Builder
	for _, size := range sizes {
		plain := newScreen(t, size[0], size[1], events, look(bare))
		fmt.Fprintf(&all, "%d×%d\n%s\n", size[0], size[1], plain.text())
		for _, l := range []theme.Options{dark, light} {
			if got := ansi.Strip(newScreen(t, size[0], size[1], events, look(l)).View().Content); golden.Trim(got) != golden.Trim(ansi.Strip(plain.View().Content)) {
				t.Errorf("%v in %s differs from the colourless screen:\n%s", size, l.Background, got)
			}
		}
		plain.shows(t, "O approve", "drops table users")
	}
	golden.Compare(t, "approval", all.String())
	s := newScreen(t, 160, 45, append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: "shop:api", Status: event.AtBreakpoint, Code: event.Unapproved, Message: "waits for approval"}))
	s.shows(t, "O approve schema") // it does not approve the other one
}
