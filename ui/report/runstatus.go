package report

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// The state of a run, and its replies to commands, as lockstep ctl prints them.

// RunStatus is the current state of a run.
type RunStatus struct {
	Operation event.Operation `json:"operation"`
	Status    event.Status    `json:"status"`
	Run       event.Status    `json:"run"`
	Message   string          `json:"message,omitempty"`
	Seq       uint64          `json:"seq"`
	Ready     int             `json:"ready"`
	Total     int             `json:"total"`
	Groups    []Group         `json:"groups"`
	// Next is the group that a step would start, while the run is paused.
	Next  string `json:"next,omitempty"`
	state *event.State
}

// NewRunStatus summarises the state of a run.
func NewRunStatus(s *event.State) RunStatus {
	n := s.Count()
	out := RunStatus{
		Operation: s.Operation, Status: s.Status, Seq: s.Seq,
		Ready: n.Done, Total: n.Total, Groups: Groups(s, nil), state: s,
	}
	out.Run, out.Message = s.RunStatus()
	switch next := s.Next(); {
	case !s.Ended.IsZero():
		out.Message = s.Message
	case out.Run == event.Paused && next != nil:
		out.Next = next.ID
	}
	return out
}

func (r RunStatus) text(to Stream) string {
	s, status, working, next := r.state, string(r.Run), "", ""
	switch {
	case !s.Ended.IsZero(), s.Status == event.RollingBack && s.Run == event.Running:
		status = to.Style.word(s.Status)
	case s.Status == event.RollingBack:
		status += " while rolling back"
	}
	if r.Run == event.Paused && s.Ended.IsZero() {
		if r.Operation.IsStack() { // whose list has releases, not groups
			working = s.InProgress()
		}
		if _, group := s.Pause(); group != nil {
			next = "next: " + format.GroupTitle(s, group)
			if inner := s.NextInRelease(group); inner != nil {
				next += ", group " + inner.ID
			}
		}
	}
	count := fmt.Sprintf("%d of %d objects %s", r.Ready, r.Total, doneWord(s))
	if r.Operation.IsStack() {
		n := s.CountStack()
		count = fmt.Sprintf("%d of %s ready", n.Releases.Done, text.Count(n.Releases.Total, "release"))
		if n.Hooks.Total > 0 {
			count += fmt.Sprintf(", %d of %s done", n.Hooks.Done, text.Count(n.Hooks.Total, "hook"))
		}
	}
	if r.Operation.Namespace != "" {
		count += " (namespace " + r.Operation.Namespace + ")"
	}
	head := r.Operation.Name + " " + r.Operation.Release + " " + withOrigin(status, r.Message, s.RunOrigin)
	return clean(strings.Join(format.NonEmpty(head, working, next, count), "; ")) + "\n\n" + formatGroups(r.Groups, to.Style)
}

// doneWord describes the objects that count as done.
func doneWord(s *event.State) string {
	var applies, removes bool
	for _, p := range s.Phases {
		applies, removes = applies || p.Kind == event.PhaseApply, removes || p.Kind == event.PhaseRemove
	}
	switch {
	case !removes:
		return "ready"
	case applies:
		return "ready or gone"
	}
	return "gone"
}

// Answer is the reply to a command.
type Answer event.Event

func (a Answer) jsonForm() any { return compact{event.Event(a)} }

// text is empty for a refusal, which is the command's error.
func (a Answer) text(Stream) string {
	if a.Status == event.Refused {
		return ""
	}
	return clean(commandReply(event.Event(a))) + "\n"
}

// Refusal describes which command was refused, and why.
func (a Answer) Refusal() string {
	name := string(a.Command)
	if !strings.Contains(a.Message, a.Group) {
		name += format.WithPrefix(" ", a.Group)
	}
	return format.WithReason(name+" refused", a.Message)
}

func commandReply(e event.Event) string {
	if e.Status == event.Refused {
		return Answer(e).Refusal()
	}
	did := string(e.Command) + format.WithPrefix(" ", e.Group) + " " + string(e.Status)
	if e.Command == event.Accept {
		did = "re-check" + format.WithPrefix(" of ", e.Group) + " started"
	}
	return format.WithReason(did, e.Message)
}

// Breakpoint is the reply to an accepted command that toggles a group's breakpoint. Set and Enabled are the
// breakpoint's state after the command.
type Breakpoint struct {
	Answer
	Set, Enabled bool
}

func (b Breakpoint) text(Stream) string {
	now := "removed"
	switch {
	case b.Command == event.Disable && b.Enabled:
		now = "enabled"
	case b.Enabled:
		now = "set"
	case b.Set:
		now = "disabled"
	}
	return clean("breakpoint "+b.Group+" "+now) + "\n"
}
