package report

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestSummaryNotes expects the notes of objects that got as far as their spec lets them (R22), and none that was resolved
// in the meantime.
func TestSummaryNotes(t *testing.T) {
	keep, web := plan.Object{Group: "apps", Kind: "StatefulSet", Name: "keep"}, plan.Object{Kind: "Service", Name: "web"}
	state := func() *event.State {
		s := &event.State{}
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r"}})
		s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{
			Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "r:web", Objects: []plan.Object{keep, web}}},
		}}})
		s.Apply(event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &keep, Status: event.Ready, Note: "2 pods still run the old version: OnDelete"})
		s.Apply(event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &web, Status: event.Ready, Note: "no address yet"})
		s.Apply(event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &web, Status: event.Ready})
		return s
	}
	single := state()
	stack := &event.State{Scopes: map[string]*event.State{"default/r": single}}
	stack.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "s"}})
	stack.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "default/r"}}}}})
	for want, s := range map[string]*event.State{
		"  ready as far as the spec allows\n  StatefulSet/keep: 2 pods still run the old version: OnDelete\n":            single,
		"  ready as far as the spec allows\n  default/r: StatefulSet/keep: 2 pods still run the old version: OnDelete\n": stack,
	} {
		var out bytes.Buffer
		Summary(&out, s, Options{})
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "no address") {
			t.Errorf("%s\nwant\n%s", out.String(), want)
		}
	}
}
