package stack

import (
	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
)

// blamed is an object of a release.
type blamed struct {
	event.Unit
	object plan.Object
}

// diagnosis returns the diagnosis of the release, without its place, if an event has changed it: that of the object that was
// diagnosed last or, once that is out of trouble, of another one that is not. The event has been applied to the state.
func (m *member) diagnosis(e event.Event) (d event.Event, changed bool) {
	d.Kind = event.KindDiagnosis
	if e.Kind == event.KindDiagnosis && e.Object != nil && e.Cause != "" {
		m.blamed = &blamed{e.Unit(), *e.Object}
		return m.blame(d, e.Status, e.Cause, e.Evidence), true
	}
	if m.blamed == nil {
		return d, false
	}
	if g := m.state.Find(m.blamed.Phase, m.blamed.Group); g != nil {
		if o := g.Find(m.blamed.object); o != nil && o.InTrouble() {
			return d, false
		}
	}
	m.blamed = nil
	for g := range m.state.GroupStates() {
		for _, o := range g.Objects {
			if m.blamed == nil && o.Cause != "" && !o.Done() {
				m.blamed = &blamed{g.Unit(), o.Object}
				var status event.Status
				if o.Degraded {
					status = event.Degraded
				}
				d = m.blame(d, status, o.Cause, o.Evidence)
			}
		}
	}
	return d, true
}

// blame completes a diagnosis of the release with the cause of the blamed object.
func (m *member) blame(d event.Event, status event.Status, cause string, evidence []string) event.Event {
	b := m.blamed
	d.Status, d.Cause, d.Evidence = status, b.Group+": "+b.object.String()+": "+cause, evidence
	if phrase.NamesObject(m.state.Find(b.Phase, b.Group), b.object) {
		d.Cause = b.Group + ": " + cause
	}
	d.Message = d.Cause
	return d
}
