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
	x, end := m.stateFrom(), m.w-1
	if len(m.lay.said) > 0 && m.flash.text == "" {
		for n, l := range m.lay.said {
			cv.PutFit(x, 1+n, end-x, theme.Text, l)
		}
		return
	}
	if said := max(canvas.Width(text), canvas.Width(m.flash.text)); m.Tally.Total > 0 && !m.planOnly() && x+said+2 < end-m.barWidth() {
		end = m.drawBar(end) - 2
	}
	if m.flash.text != "" {
		cv.PutFit(x, 1, end-x, m.flash.role, m.flash.text)
		return
	}
	if text != "" {
		x = cv.PutFit(x, 1, end-x, theme.Text, text) + 2
	}
	if m.State.Status == event.RollingBack && m.State.Run == event.Running || m.planOnly() {
		return // the text has said it
	}
	cv.Put(x, 1, theme.Quiet, m.progress(end-x))
}

// stateFrom is where the text of the state line begins.
func (m *model) stateFrom() int {
	mark, _ := m.stateMark()
	return 1 + canvas.Width(mark.Glyph+" "+mark.Word) + 2
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
		return mark, join(m.Theme, text, m.inFlight(), m.awayText())
	case s.Run == event.Replacing:
		return mark, join(m.Theme, s.RunMessage, m.inFlight())
	case s.Run == event.Aborting:
		return mark, join(m.Theme, s.RunMessage, m.inFlight(), m.awayText())
	case !s.Away.IsZero():
		return m.Theme.Mark(string(event.Away)), m.awayText()
	case s.Status == event.RollingBack:
		mark = m.Theme.Mark(string(event.RollingBack))
		return mark, join(m.Theme, m.progress(m.w), m.Graph.Shorten(s.Message))
	}
	if s.Operation.Watches() {
		return m.liveMark(), ""
	}
	mark = m.Theme.Mark(string(event.Running))
	mark.Glyph = m.pulse(mark.Glyph)
	return mark, m.expected().text
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
	mark := m.Theme.Mark(string(s.Status))
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

// progress is how far things are, in as many numbers as fit a width.
func (m *model) progress(room int) string {
	t := m.Tally
	if t.Total == 0 {
		return ""
	}
	done := "ready"
	if m.removes() {
		done = "gone"
	}
	active := "in progress"
	if m.State.Status == event.Succeeded { // leaves (R21)
		active = "not waited for"
	}
	parts := []string{fmt.Sprintf("%d of %d %s", t.Done, t.Total, done)}
	for _, p := range []struct {
		n    int
		word string
	}{{t.Active, active}, {t.Applied, "applied"}, {t.Failed, "failed"}, {t.Waiting, "waiting"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if n := len(m.State.Warnings); n > 0 {
		parts = append(parts, canvas.Count(n, "warning"))
	}
	for len(parts) > 0 {
		if text := join(m.Theme, parts...); canvas.Width(text) <= room {
			return text
		}
		parts = parts[:len(parts)-1]
	}
	return ""
}

// removes reports whether the phases that matter now take objects away.
func (m *model) removes() bool {
	removes := false
	for _, p := range m.State.Phases {
		if strings.HasPrefix(p.Name, event.RollbackPrefix) != m.RollingBack() {
			continue
		}
		if p.Kind == event.PhaseApply {
			return false
		}
		removes = removes || p.Kind == event.PhaseRemove
	}
	return removes
}

// barWidth is how long the progress bar is, 0 where there is no room for one.
func (m *model) barWidth() int {
	if m.w < 90 {
		return 0
	}
	return min((m.w-60)/2, 48)
}

// drawBar draws the progress bar and returns where it begins.
func (m *model) drawBar(end int) int {
	w := m.barWidth()
	l := m.Theme.Lines
	x := end - w
	ready := m.Tally.Done * w * 2 / m.Tally.Total
	reached := (m.Tally.Done + m.Tally.Applied) * w * 2 / m.Tally.Total
	for i := range w {
		char, role := l.Rest, theme.Faint
		switch {
		case 2*i+1 < reached:
			char, role = l.Bar, m.barRole()
		case 2*i < reached:
			char, role = l.Half, m.barRole()
		}
		if 2*i >= ready && char != l.Rest { // nobody has waited for it to be ready (R21)
			role = theme.Quiet
		}
		m.canvas.Put(x+i, 1, role, char)
	}
	return x
}

// barRole is the colour of the progress bar: that of the state.
func (m *model) barRole() theme.Role {
	switch {
	case m.State.Status == event.Failed || m.State.Run == event.Held:
		return theme.Bad
	case m.State.Run == event.Paused, m.State.Status == event.Aborted, m.RollingBack():
		return theme.Stopped
	case m.State.Operation.Watches() && !m.Over():
		return m.liveMark().Role
	}
	return theme.Good
}
