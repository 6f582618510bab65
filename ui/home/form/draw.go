package form

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
)

// titles say what each form does.
var titles = map[string]string{
	Install:   "Install a chart as a new release.",
	Upgrade:   "Upgrade a release.",
	Rollback:  "Roll back to an earlier revision.",
	Uninstall: "Uninstall a release.",
	Test:      "Run the tests of a release.",
}

const (
	labelX = 3
	valueX = 15
	firstY = 3
)

// Draw draws the form over the whole screen.
func (m *Form) Draw() {
	m.at = nil
	if m.TooSmall() {
		return
	}
	m.Canvas.Blank(canvas.Rect{W: m.W, H: m.H})
	m.drawHeader()
	if m.review.open {
		m.drawReview()
	} else {
		m.drawFields()
	}
	m.drawFooter()
}

// drawHeader draws the operation and the cluster.
func (m *Form) drawHeader() {
	cv, in := m.Canvas, m.input()
	x := cv.Put(1, 0, theme.Quiet, "lockstep ")
	x = cv.Put(x, 0, theme.Faint, m.Theme.Lines.More+" ")
	x = cv.PutFit(x, 0, m.W-x-1, theme.Strong, text.Join(" ", m.o.Operation, in.Name))
	var place []string
	if m.o.Context != "" {
		place = append(place, m.o.Context)
	}
	if in.Namespace != "" {
		place = append(place, "ns "+in.Namespace)
	}
	where := canvas.Clean(m.Join(place...))
	if from := m.W - 1 - canvas.Width(where); from >= x+3 {
		cv.Put(from, 0, theme.Quiet, where)
	}
}

// drawFields draws the fields, the command, and what can be chosen for the field with the focus.
func (m *Form) drawFields() {
	cv := m.Canvas
	said := titles[m.o.Operation] + " " + planFirst
	if canvas.Width(said) > m.W-2 { // the header says the operation
		said = planFirst
	}
	cv.PutFit(1, 1, m.W-2, theme.Text, said)
	y := firstY
	width := m.valueWidth()
	for n, e := range m.fields {
		if m.shown(e.field) {
			m.drawField(y, width, e, n == m.focus)
			y++
		}
	}
	if len(m.o.Shown) > 0 {
		cv.Put(labelX, y, theme.Quiet, "flags")
		cv.PutFit(valueX, y, m.W-valueX-1, theme.Text, shell(m.o.Shown)[len(text.Program+" "):])
		y++
	}
	y = m.drawCommand(y+1, m.input())
	m.drawRows(y + 1)
}

const planFirst = "You see the plan before anything is written."

// valueWidth is the width of the column of texts, so that the remarks are beside them. It grows in steps: a character that is typed
// does not move the remarks.
func (m *Form) valueWidth() int {
	const step, least = 8, 8
	widest := 0
	for n, e := range m.fields {
		w := canvas.Width(canvas.Clean(e.input.Value()))
		if n == m.focus && w > 0 {
			w += canvas.Width(canvas.Clean(m.completion())) + 1 // the cursor
		}
		widest = max(widest, w)
	}
	return min(least+max(widest-least+step-1, 0)/step*step, min(max((m.W-valueX)*2/5, 22), 44))
}

// drawField draws a field: its label, its text, and a remark, which stands in the place of the text if that is empty.
func (m *Form) drawField(y, width int, e *entry, focus bool) {
	cv, role := m.Canvas, theme.Quiet
	if focus {
		cv.Put(labelX-2, y, theme.Accent, m.Theme.Lines.Cursor)
		role = theme.Accent
	}
	cv.Put(labelX, y, role, labels[e.field])
	remark, remarkRole := m.remark(e)
	value := e.input.Value()
	if e.field == Keep {
		cv.PutFit(valueX, y, width, theme.Text, cmp.Or(value, keepRows[0].Value))
	} else {
		m.drawInput(valueX, y, width, &e.input, focus)
		if focus && e.untouched && value != "" { // what is typed replaces it
			cv.Highlight(valueX, y, min(canvas.Width(canvas.Clean(value)), width))
		}
	}
	from := valueX + width + 2
	switch {
	case value != "" || e.field == Keep:
	case focus:
		from = valueX + 2 // the cursor
	default:
		from = valueX
	}
	cv.PutFit(from, y, m.W-1-from, remarkRole, remark)
}

// drawInput draws an input, and after its text the rest of the first suggestion that starts with it.
func (m *Form) drawInput(x, y, width int, in *textinput.Model, focus bool) {
	cv, value := m.Canvas, canvas.Clean(in.Value())
	if !focus {
		cv.Put(x, y, theme.Text, canvas.FitMiddle(value, width, m.Theme.Lines.Ellipsis))
		return
	}
	before := canvas.Width(canvas.Clean(string([]rune(in.Value())[:in.Position()])))
	if canvas.Width(value) >= width { // show the part around the cursor
		value = canvas.Tail(value, width-1)
		before = max(before-(canvas.Width(canvas.Clean(in.Value()))-canvas.Width(value)), 0)
	}
	end := cv.PutFit(x, y, width, theme.Text, value)
	m.at = &canvas.Rect{X: x + min(before, width-1), Y: y, W: 1, H: 1}
	if m.review.confirming {
		return
	}
	cv.PutFit(end, y, x+width-end, theme.Faint, m.completion())
}

// Cursor returns where the user types.
func (m *Form) Cursor() *tea.Cursor {
	if m.at == nil {
		return nil
	}
	return tea.NewCursor(m.at.X, m.at.Y)
}

// remark says what the text of a field means.
func (m *Form) remark(e *entry) (string, theme.Role) {
	in := m.input()
	value := in.Get(e.field)
	list := slices.Concat(m.lists.known[key(in, e.field)].list, []Suggestion{e.taken})
	if at := slices.IndexFunc(list, func(s Suggestion) bool { return s.Value == value }); at >= 0 && value != "" && list[at].About != "" {
		return list[at].About, theme.Quiet
	}
	switch {
	case e.field == Keep && in.Keep:
		return "the new ones on top of the last ones", theme.Quiet
	case e.field == Keep:
		return "only the new ones and the chart's defaults count", theme.Quiet
	case value == "" && e.field.needed():
		return "needed", theme.Stopped
	case e.field == Version && value == "":
		return "empty: the folder's, or the newest", theme.Quiet
	case e.field == Values && m.hasValues():
		return m.valuesRemark(in), theme.Quiet
	case e.field == Namespace && in.NewNamespace:
		return "new: lockstep creates it", theme.Stopped
	}
	return "", theme.Quiet
}

// valuesRemark says which values count.
func (m *Form) valuesRemark(in Input) string {
	switch {
	case strings.HasPrefix(in.Values, RevisionPrefix) && m.o.Operation == Upgrade:
		return "its values, on top of the chart's defaults"
	case in.Values != "":
		return "on top of the chart's defaults"
	case m.o.Operation == Install:
		return "empty: the chart's defaults"
	case in.hasValues() && !in.HasFlag("--reuse-values", "--reset-then-reuse-values"), in.HasFlag("--reset-values"):
		return "empty: only those of the flags"
	}
	return "empty: the last ones are kept"
}

// drawCommand draws the command to run and returns the line below it.
func (m *Form) drawCommand(y int, in Input) int {
	lines := canvas.Wrap(shell(in.ShownArgs()), m.W-labelX-3)
	for n, l := range lines[:min(len(lines), 3)] {
		if n == 0 {
			m.Canvas.Put(labelX-2, y, theme.Faint, "$")
		}
		m.Canvas.Put(labelX, y, theme.Quiet, l)
		y++
	}
	return y
}

// drawFooter draws the keys.
func (m *Form) drawFooter() {
	var hints []keys.Hint
	for _, b := range m.Keys() {
		if b.Hint == nil || !b.Active() {
			continue
		}
		if word := b.Hint(); word != "" {
			hints = append(hints, keys.Hint{Key: m.keyName(b), Word: word, Press: b.Key(), Pinned: b.Pinned, Dim: b.Disabled != nil && b.Disabled() != ""})
		}
	}
	x := 1
	for _, h := range keys.Fit(hints, m.W-2, 2) {
		x = m.PutHint(x, m.H-1, h, theme.Quiet) + 2
	}
}

func (m *Form) keyName(b keys.Binding) string {
	switch b.Key() {
	case "enter":
		return m.Theme.Lines.Enter
	case "up":
		if m.Theme.ASCII {
			return "up, down"
		}
		return "↑↓"
	}
	return b.FirstName()
}
