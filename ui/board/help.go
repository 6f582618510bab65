package board

import (
	"fmt"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// pager shows lines on top of the board.
type pager struct {
	title string
	make  func(width int) []canvas.Line
	top   int
	last  int // the last top that still fills the page
}

func (p *pager) scroll(by int) { p.top = min(max(p.top+by, 0), p.last) }

// partPager is the heading of the keys of a pager.
const partPager = "in the help, the warnings and other pages"

// pagerBindings are the keys while a pager is open.
func pagerBindings() []binding {
	scroll := func(by int) func(*model) tea.Cmd { return func(m *model) tea.Cmd { m.pager.scroll(by); return nil } }
	const all = 1 << 20
	return []binding{
		{keys: []string{"up", "k"}, label: "up k", do: scroll(-1), about: "line up"},
		{keys: []string{"down", "j"}, label: "down j", do: scroll(1), about: "line down"},
		{keys: []string{"pgup", "ctrl+b"}, label: "page up", do: scroll(-10), about: "page up"},
		{keys: []string{"pgdown", "ctrl+f", "space"}, label: "page down", do: scroll(10), about: "page down"},
		{keys: []string{"home", "g"}, label: "home g", do: scroll(-all), about: "to the beginning"},
		{keys: []string{"end", "G"}, label: "end G", do: scroll(all), about: "to the end"},
		{keys: []string{"esc", "enter", "q", "?", "w"}, label: "esc", do: func(m *model) tea.Cmd { m.pager = nil; return nil }, about: "close"},
		{keys: []string{"ctrl+c"}, label: "ctrl-c", do: func(m *model) tea.Cmd { m.pager = nil; return m.askAbort() }, about: "abort: asks"},
	}
}

func (m *model) openHelp() tea.Cmd {
	m.pager = &pager{title: "keys", make: m.helpLines}
	return nil
}

// helpLines is the key table as lines.
func (m *model) helpLines(width int) []canvas.Line {
	var out []canvas.Line
	part := ""
	for _, k := range Keys() {
		if m.ReadOnly() && (k.Part == partSteer || k.Part == partBreaks || k.Part == partEdit || k.Part == partAbort || k.Part == partGiveUp) || m.player == nil && k.Part == partReplay {
			continue
		}
		if k.Part != part {
			if part != "" {
				out = append(out, nil)
			}
			part = k.Part
			out = append(out, canvas.Plain(theme.Strong, part))
		}
		for i, s := range canvas.Wrap(k.About, width-12) {
			label := ""
			if i == 0 {
				label = k.Keys
			}
			out = append(out, canvas.Line{{Role: theme.Key, Text: fmt.Sprintf("%-12s", label)}, {Role: theme.Text, Text: s}})
		}
	}
	return append(out, m.legend()...)
}

// legend says what the glyphs mean.
func (m *model) legend() []canvas.Line {
	out := []canvas.Line{nil, canvas.Plain(theme.Strong, "glyphs")}
	for _, s := range []string{"ready", "in-progress", "applied", "waiting", "held", "failed", "skipped", "unchanged", "rolled-back"} {
		mark := m.Theme.Mark(s)
		out = append(out, canvas.Line{{Role: mark.Role, Text: fmt.Sprintf("%-11s", mark.Glyph)}, {Role: theme.Text, Text: " " + mark.Word}})
	}
	return append(out, canvas.Line{{Role: theme.Stopped, Text: fmt.Sprintf("%-11s", m.Theme.Lines.Break)}, {Role: theme.Text, Text: " breakpoint"}},
		canvas.Line{{Role: theme.Key, Text: fmt.Sprintf("%-11s", m.Theme.Lines.Next)}, {Role: theme.Text, Text: " what a step lets go"}})
}

func (m *model) openWarnings() tea.Cmd {
	m.pager = &pager{title: "warnings", make: m.warningLines}
	return nil
}

func (m *model) warningLines(width int) []canvas.Line {
	if len(m.State.Warnings) == 0 {
		return []canvas.Line{canvas.Plain(theme.Quiet, "there are none")}
	}
	var out []canvas.Line
	for _, w := range m.State.Warnings {
		for i, s := range canvas.Wrap(w.Message, width-6) {
			rule := ""
			if i == 0 {
				rule = w.Rule
			}
			out = append(out, canvas.Line{{Role: theme.Stopped, Text: fmt.Sprintf("%-6s", rule)}, {Role: theme.Text, Text: s}})
		}
	}
	return out
}

// drawPager draws help or warnings over the board.
func (m *model) drawPager() {
	w := min(m.w-4, 92)
	lines := m.pager.make(w - 4)
	room := max(m.h-5, 1)
	title := m.pager.title + " " + m.Theme.Lines.Dot + " esc closes"
	if len(lines) > room {
		m.pager.last = len(lines) - room
		m.pager.scroll(0)
		title = fmt.Sprintf("%s, up and down scroll (%d%%)", title, 100*(m.pager.top+room)/len(lines))
		lines = lines[m.pager.top:][:room]
		if m.w-w < 24 { // narrow strips of the board beside it would only be noise
			m.canvas.Blank(canvas.Rect{X: 0, Y: 0, W: m.w, H: m.h})
		}
	}
	m.canvas.Box(title, w, lines, theme.Accent)
}

// drawFooter draws the keys that can be obeyed now, as many as there is room
// for, or the filter while it is typed.
func (m *model) drawFooter() {
	y, cv := m.h-1, m.canvas
	if input, found := m.typed(); input != nil {
		x := cv.Put(1, y, theme.Key, "/")
		cv.PutFit(x, y, m.w-x-1, theme.Text, input.Value())
		cv.PutRight(m.w-1, y, theme.Quiet, found+"  "+m.Theme.Lines.Enter+" keep  esc clear")
		return
	}
	x, end := 1, m.w-1
	if m.searches() {
		end = cv.PutRight(end, y, theme.Stopped, canvas.Fit("/"+m.query.Value()+"  "+m.found+"  esc clears", m.w/2, m.Theme.Lines.Ellipsis)) - 2
	} else if m.filter.on() {
		end = cv.PutRight(end, y, theme.Stopped, canvas.Fit("/"+m.filter.input.Value()+"  "+m.foundGroups()+"  esc clears", m.w/2, m.Theme.Lines.Ellipsis)) - 2
	}
	hints := m.hints()
	if h := len(hints); h > 1 { // help is always there to be found
		rest := hints[h-1]
		if cells(hints, 2) > end-x {
			end = cv.PutRight(end, y, theme.Quiet, " "+rest.word)
			end = cv.PutRight(end, y, theme.Key, rest.key) - 2
			hints = hints[:h-1]
		}
	}
	kept := 0 // for those to come that stay
	for _, h := range hints {
		if h.stays {
			kept += h.width() + 2
		}
	}
	for _, h := range hints {
		if h.stays {
			kept -= h.width() + 2
		}
		if x+h.width()+kept > end {
			continue
		}
		x = cv.Put(x, y, theme.Key, h.key)
		x = cv.Put(x+1, y, theme.Quiet, h.word) + 2
	}
}

// cells is how wide hints are with a gap between.
func cells(hints []hint, gap int) int {
	w := -gap
	for _, h := range hints {
		w += h.width() + gap
	}
	return w
}

// typed is what keys are typed into, nil where they are not, and what is found
// that way.
func (m *model) typed() (input *textinput.Model, found string) {
	switch {
	case m.typing:
		return &m.filter.input, m.foundGroups()
	case m.seeking:
		return &m.query, m.found
	}
	return nil, ""
}

// foundGroups says how many groups the filter leaves.
func (m *model) foundGroups() string {
	if !m.filter.on() {
		return ""
	}
	return fmt.Sprintf("%d of %d groups", len(m.filter.groups), len(m.Graph.Nodes))
}
