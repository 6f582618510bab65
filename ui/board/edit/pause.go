package edit

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
)

// pause is the pause of a running run for an edit. It lasts as long as the edit.
type pause struct {
	ours     bool // it was not the user who paused the run
	replaces int  // the revision that an accepted edit replaces
}

// pausesFirst reports whether an edit pauses the run, because something degraded may need one.
func (e *Edit) pausesFirst() bool {
	run, _ := e.RunStatus()
	return e.Steerable() && run == event.Running && e.Tally.Degraded > 0
}

// pause pauses the run before an edit, if it is running.
func (e *Edit) pause() tea.Cmd {
	if !e.pausesFirst() {
		e.paused.ours = e.paused.ours && e.Paused()
		return nil
	}
	e.paused = pause{ours: true}
	return e.Send(event.Command{Name: event.Pause})
}

// endPause resumes a run that was paused for an edit. A failure may hold it by now.
func (e *Edit) endPause() tea.Cmd {
	ours := e.paused.ours
	e.paused = pause{}
	if !ours || e.Held() {
		return nil
	}
	return e.Send(event.Command{Name: event.Resume})
}

// resumeEdited resumes the edited revision once it is paused before its first group.
func (e *Edit) resumeEdited() tea.Cmd {
	if e.paused.replaces == 0 || e.State.Operation.Revision <= e.paused.replaces || e.State.Run != event.Paused {
		return nil
	}
	return e.endPause()
}
