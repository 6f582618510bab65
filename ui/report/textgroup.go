package report

import (
	"strings"
	"time"

	"lockstep/engine/event"
)

// group writes a line where a group's change of state is news. was is its
// status before.
func (t *Text) group(e event.Event, was event.Status) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	removing := t.removing(e.Phase)
	took := e.Time.Sub(g.Started)
	switch e.Status {
	case event.Running:
		t.line(e, e.Status, started(g, removing, was))
	case event.Held:
		t.line(e, e.Status, withReason(unitName(&t.state, g)+" held", e.Message))
	case event.Ready, event.Applied, event.Gone:
		t.line(e, e.Status, t.ended(g, was, took))
		t.failures(e, g)
	case event.Failed:
		t.failed(e, g, took, doneOf(g, removing))
	case event.Aborted:
		t.line(e, e.Status, withReason(unitName(&t.state, g)+" aborted after "+Seconds(took)+" ("+doneOf(g, removing)+")", unlike(e.Message, "aborted")))
	case event.Skipped:
		reason := e.Message
		if reason == "" {
			reason = t.opts.word(e.Status)
		}
		t.line(e, e.Status, unitName(&t.state, g)+" "+reason)
	}
}

func (t *Text) removing(phase string) bool {
	for _, p := range t.state.Phases {
		if p.Name == phase {
			return p.Kind == event.PhaseRemove
		}
	}
	return false
}

func started(g *event.GroupState, removing bool, was event.Status) string {
	text := g.ID
	if removing {
		text += " removal"
	}
	text += " started"
	if was.Over() {
		text += " again"
	}
	return text + " (" + Count(len(g.Objects), "object") + ")"
}

func (t *Text) ended(g *event.GroupState, was event.Status, took time.Duration) string {
	text := g.ID + " " + t.opts.word(g.Status) + " ("
	if was != event.Applied {
		text += outcome(g) + ", "
	}
	return text + Seconds(took) + ")"
}

// failed writes that a group failed. The engine's message names the object, so
// that object needs no line of its own.
func (t *Text) failed(e event.Event, g *event.GroupState, took time.Duration, done string) {
	text := unitName(&t.state, g) + " failed"
	if !g.Started.IsZero() {
		text += " after " + Seconds(took)
	}
	t.line(e, e.Status, withReason(text+" ("+done+")", e.Message))
	for _, o := range g.Objects {
		if o.Status == event.Failed && strings.HasPrefix(e.Message, o.Object.String()+":") {
			t.told[toldKey{e.Phase, e.Group, o.Object}] = true
		}
	}
	t.failures(e, g)
}

// unlike returns s unless it says nothing new.
func unlike(s, known string) string {
	if s == known {
		return ""
	}
	return s
}

// object writes a line where an object failed and its group does not say so, or
// where one that had failed is well again.
func (t *Text) object(e event.Event) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return
	}
	key := toldKey{e.Phase, e.Group, *e.Object}
	switch {
	case e.Status == event.Failed && g.Status != event.Running:
		t.failures(e, g)
	case e.Status == event.Ready && t.told[key]:
		delete(t.told, key)
		t.line(e, e.Status, place(e.Object, e.Group)+" ready after all")
	}
}

// failures writes a line for every failed object of a group that has none yet.
func (t *Text) failures(e event.Event, g *event.GroupState) {
	for _, o := range g.Objects {
		key := toldKey{e.Phase, g.ID, o.Object}
		if o.Status != event.Failed || t.told[key] {
			continue
		}
		t.told[key] = true
		t.line(e, o.Status, withReason(place(&o.Object, g.ID)+" failed", o.Message))
	}
}
