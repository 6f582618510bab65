package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/ui/report/format"
)

// waiting writes a heartbeat, with the forecast of the run if there is one. It writes nothing if
// --readiness-timeout is about to expire, because the line about the failure says the same.
func (t *textLog) waiting(e event.Event) {
	if e.ReadyBy == event.BySettling {
		t.line(e, event.InProgress, e.Message+": "+objectIn(&t.state, e, e.Object)+" has a container without a readiness probe (--settle)")
		return
	}
	if g, o := t.find(e); o != nil {
		if left, limited := t.state.TimeLeft(g, o, e.Time); limited && left < time.Second {
			return
		}
	}
	text := t.about(e) + ": " + t.waitingFor(e)
	if !e.Outside {
		text = "waiting for " + text
	}
	if f, ok := forecast.Estimate(&t.state, e.Time); ok {
		switch left := f.String(); {
		case f.Left.Round(time.Second) > 0:
			text += "; " + left + " in this run"
		default:
			text += format.WithPrefix("; the run ", left)
		}
	}
	t.line(e, event.InProgress, text)
}

// waitingFor returns the state of an object, after the cause if that is known.
func (t *textLog) waitingFor(e event.Event) string {
	g, o := t.find(e)
	if e.Wait == nil && o != nil && e.Status == event.InProgress { // an old record
		e.Wait = &event.Wait{State: o.Message, For: e.Time.Sub(o.Sent)}
	}
	if e.Wait == nil { // what is left of a hook
		return e.Message
	}
	state := e.Wait.State
	cause := ""
	if o != nil && !o.OnlyState { // else the state is newer
		cause = phrase.CauseAt(g, o, e.Time)
	}
	if cause != "" {
		clauses := strings.Split(state, "; ")
		state = strings.Join(slices.DeleteFunc(clauses, func(clause string) bool { return event.Repeats(clause, cause) }), "; ")
	}
	if e.Status != event.InProgress {
		state = string(e.Status) + format.WithPrefix(", ", state)
	}
	text := phrase.Waiting(state, *e.Wait)
	if cause != "" {
		return cause + " (" + text + ")"
	}
	return text
}

// stepStatus writes a line for the new status of a group that runs a program.
func (t *textLog) stepStatus(e event.Event, g *event.GroupState, took time.Duration) {
	switch e.Status {
	case event.Running:
		if e.Code != event.Rechecking {
			t.line(e, e.Status, g.ID+" runs "+g.Step.Line())
		}
	case event.Ready:
		t.line(e, e.Status, fmt.Sprintf("%s %s (%s)", g.ID, stepOutcome(g), format.Duration(took)))
	case event.Failed:
		t.line(e, e.Status, format.WithReason(g.ID+" failed after "+format.Duration(took), g.Cause))
		if !g.Step.ShowLogs {
			t.quote(g.Evidence)
		}
	case event.Aborted:
		t.line(e, e.Status, g.ID+" aborted after "+format.Duration(took))
	case event.Skipped:
		t.skipped.add(e, g.ID)
	}
}

// stepOutcome says how the program of a group ended well.
func stepOutcome(g *event.GroupState) string {
	for _, o := range g.Objects {
		if o.Message != "" {
			return o.Message
		}
	}
	return "ran"
}
