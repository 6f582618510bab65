package report

import (
	"fmt"

	"lockstep/engine/event"
)

// standing is how a run stands, for programs.
type standing struct {
	Operation event.Operation `json:"operation"`
	Status    event.Status    `json:"status"`
	Run       event.Status    `json:"run"`
	Message   string          `json:"message,omitempty"`
	Seq       uint64          `json:"seq"`
	Ready     int             `json:"ready"`
	Total     int             `json:"total"`
	Groups    []Group         `json:"groups"`
}

func standingOf(s *event.State) standing {
	n := s.Count()
	out := standing{Operation: s.Operation, Status: s.Status, Run: s.Run, Message: s.RunMessage, Seq: s.Seq, Ready: n.Done, Total: n.Total, Groups: Groups(s, nil)}
	if !s.Ended.IsZero() {
		out.Message = s.Message
	}
	return out
}

func (h human) Standing(s *event.State) error {
	at := standingOf(s)
	is := string(at.Run)
	switch {
	case !s.Ended.IsZero():
		is = string(at.Status)
	case at.Status == event.RollingBack && at.Run == event.Running:
		is = string(at.Status)
	case at.Status == event.RollingBack:
		is += " while rolling back"
	}
	op := s.Operation
	head := fmt.Sprintf("%s %s: %s, %d of %d objects ready (namespace %s)", op.Name, op.Release, withReason(is, at.Message), at.Ready, at.Total, op.Namespace)
	return write(h.text, clean(head)+"\n\n"+groupsText(at.Groups, h.out.Style))
}

func (m machine) Standing(s *event.State) error { return encode(m.out, standingOf(s)) }

// Answer tells what has become of a command.
func (h human) Answer(e event.Event) error { return write(h.text, clean(answered(e))+"\n") }

func (m machine) Answer(e event.Event) error { return writeEvent(m.out, e) }

// answered is the answer to a command, in words.
func answered(e event.Event) string {
	text := string(e.Command)
	if e.Group != "" {
		text += " " + e.Group
	}
	return withReason(text+" "+string(e.Status), e.Message)
}
