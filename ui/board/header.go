package board

import (
	"fmt"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// drawHeader draws what is done to what, and the state line.
func (m *model) drawHeader() {
	m.drawOperation()
	m.drawState()
	if held(m) {
		m.drawWays(2 + max(len(m.lay.said)-1, 0))
	}
}

// drawOperation draws the first line: operation and release, where, how long.
// What there is no room for is left out from the middle.
func (m *model) drawOperation() {
	cv, op := m.canvas, m.State.Operation
	timing := canvas.Clock(m.State.Active(m.Now()))
	if op.Timeout > 0 {
		timing += " of " + canvas.Clock(op.Timeout)
	}
	if m.State.Started.IsZero() || m.planOnly() || op.Watches() {
		timing = ""
	}
	end := cv.PutRight(m.w-1, 0, theme.Text, timing) - 2

	x := cv.Put(1, 0, theme.Quiet, "")
	if m.w >= 70 {
		x = cv.Put(x, 0, theme.Quiet, "lockstep ")
	}
	x = m.drawBadge(cv.Put(x, 0, theme.Faint, m.Theme.Lines.More+" "))
	what := strings.TrimSpace(op.Name + " " + op.Release)
	if what == "" {
		what = m.opts.Title
	}
	x = cv.PutFit(x, 0, end-x, theme.Strong, what)

	where := m.where()
	for len(where) > 0 {
		text := strings.Join(where, " "+m.Theme.Lines.Dot+" ")
		if x+3+canvas.Width(text) <= end {
			from := max(x+3, (m.w-canvas.Width(text))/2)
			cv.Put(min(from, end-canvas.Width(text)), 0, theme.Quiet, text)
			return
		}
		where = where[:len(where)-1]
	}
}

// where lists context, namespace and revision, the most important first.
func (m *model) where() []string {
	op := m.State.Operation
	var out []string
	if op.Context != "" {
		out = append(out, canvas.Clean(op.Context))
	}
	if op.Namespace != "" {
		out = append(out, "ns "+canvas.Clean(op.Namespace))
	}
	if op.Revision > 0 {
		out = append(out, fmt.Sprintf("rev %d", op.Revision))
	}
	switch {
	case m.player != nil: // which says it
	case m.ReadOnly():
		out = append(out, "read-only")
	case m.opts.Attached:
		out = append(out, "attached")
	}
	return out
}

// drawState draws the line that the eye goes to first: the state, why it is
// so, how far things are.
func (m *model) drawState() {
	cv := m.canvas
	mark, text := m.stateMark()
	cv.Put(1, 1, mark.Role, mark.Glyph+" "+mark.Word)
	m.drawProgress(m.w-1, 1)
	x := m.stateFrom()
	room := m.stateRoom()
	if len(m.lay.said) > 0 && m.flash.text == "" {
		for n, l := range m.lay.said {
			cv.PutFit(x, 1+n, room, theme.Text, l)
			room = m.w - 1 - x
		}
		return
	}
	if m.flash.text != "" {
		cv.PutFit(x, 1, room, m.flash.role, m.flash.text)
		return
	}
	end := x + room
	if text != "" {
		x = cv.PutFit(x, 1, room, theme.Text, text) + 2
	}
	if m.State.Status == event.RollingBack && m.State.Run == event.Running || m.planOnly() {
		return // the text has said it
	}
	cv.Put(x, 1, theme.Quiet, m.others(end-x))
}

// stateFrom is where the text of the state line begins.
func (m *model) stateFrom() int {
	mark, _ := m.stateMark()
	return 1 + canvas.Width(mark.Glyph+" "+mark.Word) + 2
}

// stateRoom is how wide the text of the state line may be: counts and bar stay where
// they are whatever there is to say.
func (m *model) stateRoom() int {
	room := m.w - 1 - m.stateFrom()
	if w := m.progressWidth(); w > 0 {
		room -= w + 2
	}
	return max(room, 0)
}

// stateMark is the state in glyph and words, and what there is to say about it.
func (m *model) stateMark() (theme.Mark, string) {
	s := &m.State
	mark := m.Theme.Mark(string(s.Run))
	switch {
	case m.planOnly():
		mark = m.Theme.Mark(string(event.Waiting))
		mark.Word = "plan"
		return mark, fmt.Sprintf("%s, %s %s q leaves", canvas.Count(len(m.Graph.Nodes), "group"), canvas.Count(m.Tally.Total, "object"), m.Theme.Lines.Dot)
	case s.Status == "" && m.Over():
		return m.Theme.Mark("aborted"), "the record is empty"
	case s.Status == "":
		mark = m.Theme.Mark(string(event.Waiting))
		mark.Word = "starting"
		return mark, ""
	case m.Over():
		return m.endMark()
	case s.Run == event.Held:
		mark = m.Theme.Mark(string(event.Failed))
		mark.Word = "held"
		return mark, join(m.Theme, m.heldText(), m.awayText())
	case s.Run == event.Paused:
		text := m.Graph.Shorten(s.RunMessage)
		if m.went { // it says where the run paused, which is no longer here
			text = ""
		}
		if s.Status == event.RollingBack {
			text = strings.TrimSpace("rolling back " + text)
		}
		next := m.nextText()
		if next != "" && strings.HasSuffix(text, m.Graph.ByKey[m.Next.Unit()].Name) { // it says where the run stands
			next = ""
		}
		return mark, join(m.Theme, text, next, m.inFlight(), m.awayText())
	case s.Run == event.Replacing:
		return mark, join(m.Theme, s.RunMessage, m.inFlight())
	case s.Run == event.Aborting:
		return mark, join(m.Theme, s.RunMessage, m.inFlight(), m.awayText())
	case !s.Away.IsZero():
		return m.Theme.Mark(string(event.Away)), m.awayText()
	case s.Status == event.RollingBack:
		mark = m.Theme.Mark(string(event.RollingBack))
		return mark, join(m.Theme, m.others(m.w), m.Graph.Shorten(s.Message))
	}
	if s.Operation.Watches() {
		return m.liveMark(), ""
	}
	mark = m.Theme.Mark(string(event.Running))
	mark.Glyph = m.pulse(mark.Glyph)
	return mark, m.expected().text
}

// nextText names what a step lets go.
func (m *model) nextText() string {
	if m.Next == nil {
		return ""
	}
	return m.Theme.Lines.Next + " " + m.Graph.ByKey[m.Next.Unit()].Name
}

// awayText says for how long the API server has not answered, "" where it does.
func (m *model) awayText() string {
	if m.State.Away.IsZero() {
		return ""
	}
	return fmt.Sprintf("no answer from the API server for %s", m.Now().Sub(m.State.Away).Round(time.Second))
}

// liveMark is how a release that is watched is: the status of its record in
// words, the state of its objects in glyph and colour. What an operation is at work
// on, or was cut off at, is not well, however many objects are ready.
func (m *model) liveMark() theme.Mark {
	is := event.Running
	record := m.State.Message
	switch {
	case m.Tally.Failed > 0, record == "failed":
		is = event.Failed
	case record == "", record == "deployed", record == "superseded":
		if m.Tally.Done == m.Tally.Total {
			is = event.Ready
		}
	}
	mark := m.Theme.Mark(string(is))
	if record != "" {
		mark.Word = record
	}
	return mark
}

// planOnly reports whether a plan is shown that nothing is done about.
func (m *model) planOnly() bool { return m.State.Status == "" && m.Over() && len(m.Graph.Nodes) > 0 }

// endMark is the state once the operation is over.
func (m *model) endMark() (theme.Mark, string) {
	s := &m.State
	mark := m.Theme.Mark(string(s.Ending()))
	leave := "q leaves"
	if m.ReadOnly() && s.Status == event.Running {
		mark.Word = "up to here"
		ends := "the record ends"
		switch s.Run {
		case event.Held:
			ends += " while held on failure"
		case event.Paused, event.Aborting:
			ends += " while " + m.Theme.Mark(string(s.Run)).Word
		}
		return mark, join(m.Theme, ends, leave)
	}
	return mark, join(m.Theme, leave, m.Graph.Shorten(s.Reason()))
}

// inFlight says what a pause or an abort still waits for.
func (m *model) inFlight() string {
	switch n := m.Tally.Active; {
	case m.Tally.Requests > 0:
		return fmt.Sprintf("waiting for in-flight applies (%d)", m.Tally.Requests)
	case n > 0 && m.State.Run == event.Paused:
		return canvas.Count(n, "object") + " in progress"
	}
	return ""
}

func join(t theme.Theme, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, " "+t.Lines.Dot+" ")
}

// pulse turns the glyph of what runs, once a second.
func (m *model) pulse(glyph string) string {
	if m.Theme.Still || m.Theme.ASCII {
		return glyph
	}
	return [...]string{"◐", "◓", "◑", "◒"}[int(m.State.Active(m.Now()).Seconds())%4]
}
