package board

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/golden"
)

// TestHooksOfStack: hooks of a helmfile are cards of the stack, with their command lines. Their output is in the pane, and enter opens
// it (S11a).
func TestHooksOfStack(t *testing.T) {
	step := func(release, at, command string, after ...string) *plan.Group {
		id, ns := release+"/"+at+"/"+command, "data"
		return &plan.Group{ID: id, Chart: id, Name: command, After: append([]string{}, after...), Objects: []plan.Object{{Kind: "Hook", Namespace: ns, Name: at + "/" + command}},
			Step: &plan.Step{Event: at, Release: release, Command: "./" + command, Args: []string{"data"}, Folder: "/stack"}}
	}
	release := func(id string, after ...string) *plan.Group {
		return &plan.Group{ID: id, Chart: id, Name: id, After: append([]string{}, after...), Objects: []plan.Object{{Group: "helm.sh", Kind: "Release", Namespace: "data", Name: id}}}
	}
	backup, smoke := step("data/db", "presync", "backup.sh"), step("data/db", "postsync", "smoke.sh", "data/db")
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{
			backup, release("data/db", backup.ID), smoke, release("data/web", smoke.ID)}}}},
		{Kind: event.KindGroup, Phase: "releases", Group: backup.ID, Status: event.Running},
		{Kind: event.KindObject, Phase: "releases", Group: backup.ID, Object: &backup.Objects[0], Status: event.Applying},
		{Kind: event.KindLog, Phase: "releases", Group: backup.ID, Object: &backup.Objects[0], Lines: []string{"dumping 3 tables", "2 of 3 done"}},
	}
	for i := range events {
		events[i].Time, events[i].Seq = time.Unix(int64(1000+i), 0), uint64(i+1)
	}
	held := append(events[:len(events):len(events)],
		event.Event{Kind: event.KindObject, Phase: "releases", Group: backup.ID, Object: &backup.Objects[0], Status: event.Failed, Message: "exited with code 3"},
		event.Event{Kind: event.KindGroup, Phase: "releases", Group: backup.ID, Status: event.Failed, Message: "exited with code 3"},
		event.Event{Kind: event.KindRun, Phase: "releases", Group: backup.ID, Status: event.Held, Message: "backup.sh failed"})
	for i := range held {
		held[i].Time, held[i].Seq = time.Unix(int64(1000+i), 0), uint64(i+1)
	}
	inBubble(t, func(t *testing.T) { // a hook is skipped for a reason, not re-checked, and is no release
		var s *stack
		var sent []event.Command
		s = newStack(t.Context(), Options{Source: idle{}, Theme: dark, Release: func(string) (inspect.Cluster, []string) { return nil, nil }, Command: func(c event.Command) { sent = append(sent, c) },
			Now: func() time.Time { return s.State.Now }})
		s.Update(tea.WindowSizeMsg{Width: 160, Height: 40})
		s.Update(batchMsg{events: held, more: true})
		for _, want := range []string{"A skip", "0 of 4 done"} {
			if view := ansi.Strip(s.View().Content); !strings.Contains(view, want) {
				t.Errorf("%q is missing in\n%s", want, view)
			}
		}
		for _, k := range []string{"A", "o", "l", "d", "enter"} {
			s.Update(keyPress(k))
			if view := ansi.Strip(s.View().Content); k == "d" && !strings.Contains(view, "reason: old") {
				t.Errorf("the reason is missing in\n%s", view)
			}
		}
		if len(sent) != 1 || sent[0].Name != event.Accept || sent[0].Reason != "old" {
			t.Errorf("sent %+v", sent)
		}
	})
	for name, keys := range map[string][]string{"hooks": {"home"}, "output": {"home", "enter"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var s *stack
				s = newStack(t.Context(), Options{Source: idle{}, Theme: dark, Release: func(string) (inspect.Cluster, []string) { return nil, nil }, Command: func(event.Command) {},
					Now: func() time.Time { return s.State.Now }})
				s.Update(tea.WindowSizeMsg{Width: 120, Height: 30})
				s.Update(batchMsg{events: events, more: true})
				for _, k := range keys {
					s.Update(keyPress(k))
				}
				golden.Compare(t, "stack-"+name+"-120x30", ansi.Strip(s.View().Content))
			})
		})
	}
}
