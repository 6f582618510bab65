package stack

import (
	"cmp"
	"errors"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
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

// failure is the error of a release's operation. It has the root cause for the stack's diagnosis.
type failure struct {
	text    string
	reason  string // without the outcome for the release
	finding run.Finding
	aborted bool
	error   // of the operation
}

func (f *failure) Error() string        { return f.text }
func (f *failure) Unwrap() error        { return f.error }
func (f *failure) Finding() run.Finding { return f.finding }

// Is makes errors.Is(f, run.ErrAborted) true for an aborted operation, so that the engine does not count it as failed.
func (f *failure) Is(target error) bool { return f.aborted && target == run.ErrAborted }

// explain returns the *failure for the error of a release's operation.
func (s *Stack) explain(m *member, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &failure{reason: cmp.Or(phrase.FirstFailure(&m.state), text.CollapseSpace(err.Error())), aborted: errors.Is(err, run.ErrAborted), error: err}
	f.text = f.reason
	if reason := phrase.Reason(&m.state); reason != "" && m.state.Code != event.NothingWritten { // that is true of this release only
		f.text = reason
	}
	f.finding = run.Finding{Cause: f.text, Degraded: true}
	if roots := m.state.Roots(); len(roots) > 0 {
		f.finding.Cause, f.finding.Evidence = roots[0].Group.ID+": "+phrase.RootInGroup(roots[0]), roots[0].Evidence
	}
	return f
}
