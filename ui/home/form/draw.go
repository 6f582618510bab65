package form

import (
	"cmp"
	"fmt"
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
	x = cv.PutFit(x, 0, m.W-x-1, theme.Strong, strings.TrimSpace(m.o.Operation+" "+in.Name))
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
	cv.PutFit(1, 1, m.W-2, theme.Text, titles[m.o.Operation]+" You see the plan before anything is written.")
	y := firstY
	width := min(max((m.W-valueX)*2/5, 22), 44)
	for n, e := range m.fields {
		if m.shown(e.field) {
			m.drawField(y, width, e, n == m.focus)
			y++
		}
	}
	if len(m.o.Shown) > 0 {
		cv.Put(labelX, y, theme.Quiet, "flags")
		cv.PutFit(valueX, y, m.W-valueX-1, theme.Text, shell(m.o.Shown)[len("lockstep "):])
		y++
	}
	y = m.drawCommand(y + 1)
	m.drawRows(y + 1)
}

// drawField draws a field: its label, its text, and a remark.
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
	}
	from := valueX + width + 2
	cv.PutFit(from, y, m.W-1-from, remarkRole, remark)
}

// drawInput draws an input, and after its text the rest of the first suggestion that starts with it.
func (m *Form) drawInput(x, y, width int, in *textinput.Model, focus bool) {
	cv, value := m.Canvas, canvas.Clean(in.Value())
	before := canvas.Width(canvas.Clean(string([]rune(in.Value())[:in.Position()])))
	if canvas.Width(value) >= width { // show the part around the cursor
		value = canvas.Tail(value, width-1)
		before = max(before-(canvas.Width(canvas.Clean(in.Value()))-canvas.Width(value)), 0)
	}
	end := cv.PutFit(x, y, width, theme.Text, value)
	if !focus {
		return
	}
	m.at = &canvas.Rect{X: x + min(before, width-1), Y: y, W: 1, H: 1}
	if m.review.confirming {
		return
	}
	typed, rows := last(m.current()), m.rows()
	if typed != "" && len(rows) > 0 && strings.HasPrefix(rows[0].Value, typed) {
		cv.PutFit(end, y, x+width-end, theme.Faint, rows[0].Value[len(typed):])
	}
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
	list := m.lists.known[key(in, e.field)].list
	if at := slices.IndexFunc(list, func(s Suggestion) bool { return s.Value == value }); at >= 0 && value != "" {
		return list[at].About, theme.Quiet
	}
	switch {
	case e.field == Keep && in.Keep:
		return "the new ones on top of the last ones", theme.Quiet
	case e.field == Keep:
		return "the last ones do not count", theme.Quiet
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
	case in.Values != "":
		return "on top of the chart's defaults"
	case m.o.Operation == Install:
		return "empty: the chart's defaults"
	case in.hasValues() && !in.hasFlag("--reuse-values", "--reset-then-reuse-values"), in.hasFlag("--reset-values"):
		return "empty: only those of the flags"
	}
	return "empty: the last ones are kept"
}

// drawCommand draws the command to run and returns the line below it.
func (m *Form) drawCommand(y int) int {
	lines := canvas.Wrap(shell(m.input().ShownArgs()), m.W-labelX-3)
	for n, l := range lines[:min(len(lines), 3)] {
		if n == 0 {
			m.Canvas.Put(labelX-2, y, theme.Faint, "$")
		}
		m.Canvas.Put(labelX, y, theme.Quiet, l)
		y++
	}
	return y
}

// headings name what can be chosen for each field.
var headings = map[Field]string{
	Name: "releases", Chart: "charts", Version: "versions", Values: "values files", Keep: "old values", Namespace: "namespaces", Revision: "revisions",
}

// drawRows draws the suggestions for the field with the focus, and the details of the selected one: at the right, or below.
func (m *Form) drawRows(y int) {
	f, found, rows := m.current().field, m.found(), m.rows()
	m.Canvas.Heading(y, headings[f])
	y++
	area := canvas.Rect{X: 0, Y: y, W: m.W, H: m.H - 1 - y}
	switch {
	case found.err != nil && len(rows) == 0:
		m.drawText(area, theme.Stopped, "cannot list them: "+found.err.Error())
		return
	case !found.done && f != Keep:
		m.drawText(area, theme.Quiet, "reading "+m.Theme.Lines.Ellipsis)
		return
	case len(rows) == 0:
		m.drawText(area, theme.Quiet, m.whyNone(len(found.list)))
		return
	}
	at := m.selected()
	if at < 0 || len(rows[at].Detail) == 0 {
		m.drawList(area, rows, at)
		return
	}
	detail := area
	if m.W >= 120 {
		area.W = min(max(rowWidth(rows)+5, m.W/3), m.W/2)
		detail.X, detail.W = area.W+1, m.W-area.W-1
		for n := range area.H {
			m.Canvas.Put(area.W, area.Y+n, theme.Faint, m.Theme.Lines.Light[5])
		}
	} else {
		area.H = min(len(rows), max(area.H/3, 3))
		m.Canvas.Heading(area.Y+area.H, "revision "+rows[at].Value+" changed")
		detail.Y, detail.H = area.Y+area.H+1, detail.H-area.H-1
	}
	m.drawList(area, rows, at)
	m.drawDetail(detail, rows[at].Detail)
}

// whyNone says why there is nothing to choose.
func (m *Form) whyNone(hidden int) string {
	switch f := m.current().field; {
	case hidden > 0:
		return "none of " + text.Count(hidden, strings.TrimSuffix(headings[f], "s")) + " matches the text"
	case f == Name && m.o.Operation == Install:
		return "type a name for the new release"
	case f == Values:
		return "no values files here; e opens an editor"
	}
	return "no " + headings[m.current().field] + " found; type it"
}

func (m *Form) drawText(r canvas.Rect, role theme.Role, s string) {
	for n, l := range canvas.Wrap(s, r.W-labelX-1) {
		if n < r.H {
			m.Canvas.Put(r.X+labelX, r.Y+n, role, l)
		}
	}
}

// rowWidth returns the width of the widest row.
func rowWidth(rows []Suggestion) (w int) {
	name := nameWidth(rows)
	for _, s := range rows {
		w = max(w, name+2+canvas.Width(canvas.Clean(s.About)))
	}
	return w
}

func nameWidth(rows []Suggestion) (w int) {
	for _, s := range rows {
		w = max(w, canvas.Width(canvas.Clean(s.Value)))
	}
	return w
}

// drawList draws rows, and scrolls so that the selected one is visible.
func (m *Form) drawList(r canvas.Rect, rows []Suggestion, at int) {
	l, cv := &m.lists, m.Canvas
	l.page = r.H
	if at >= 0 {
		l.top = min(max(l.top, at-r.H+1), at)
	}
	l.top = max(min(l.top, len(rows)-r.H), 0)
	name := min(nameWidth(rows), max(r.W/2-labelX, 8))
	for n, s := range rows[l.top:min(l.top+r.H, len(rows))] {
		y, role := r.Y+n, theme.Text
		if l.top+n == at {
			cv.Highlight(r.X+1, y, r.W-2)
			cv.Put(r.X+labelX-2, y, theme.Accent, m.Theme.Lines.Cursor)
			role = theme.Accent
		}
		value := canvas.FitMiddle(canvas.Clean(s.Value), name, m.Theme.Lines.Ellipsis)
		cv.Put(r.X+labelX, y, role, value)
		from := r.X + labelX + name + 2
		cv.PutFit(from, y, r.X+r.W-2-from, theme.Quiet, s.About)
	}
	cv.ScrollBar(r.X+r.W-1, r, l.top, len(rows))
}

// drawDetail draws the details of the selected row.
func (m *Form) drawDetail(r canvas.Rect, texts []string) {
	lines := wrap(texts, r.W-labelX)
	l := &m.lists
	l.page = r.H
	l.down = min(l.down, max(len(lines)-r.H, 0))
	for n, line := range lines[l.down:min(l.down+r.H, len(lines))] {
		m.Canvas.Line(r.X+2, r.Y+n, r.W-3, line)
	}
	m.Canvas.ScrollBar(r.X+r.W-1, r, l.down, len(lines))
}

// wrap breaks lines that start with the sign of a change to a width. They keep their indent.
func wrap(texts []string, width int) (lines []canvas.Line) {
	for _, t := range texts {
		body := strings.TrimLeft(t, " ")
		indent := min(len(t)-len(body), width/2)
		for n, part := range canvas.Wrap(body, width-indent-2) {
			if n > 0 {
				part = "  " + part
			}
			lines = append(lines, canvas.Plain(lineRole(t), strings.Repeat(" ", indent)+part))
		}
	}
	return lines
}

// lineRole returns the role of a line of a plan: of the sign that it starts with; headings are not indented.
func lineRole(line string) theme.Role {
	body := strings.TrimLeft(line, " ")
	sign := body[:min(1, len(body))]
	switch {
	case strings.HasPrefix(line, "warning: "):
		return theme.Stopped
	case strings.HasPrefix(line, "error: "):
		return theme.Bad
	case body == line:
		return theme.Strong
	case sign == "=":
		return theme.Quiet
	case sign == ">":
		return theme.Accent
	}
	return theme.DiffRole(sign)
}

// drawReview draws the command and its plan.
func (m *Form) drawReview() {
	r, cv := &m.review, m.Canvas
	role, status := m.status()
	cv.PutFit(1, 1, m.W-2, role, status)
	y := m.drawCommand(2)
	bottom := m.H - 1
	if r.confirming {
		bottom--
		x := cv.Put(1, bottom, theme.Strong, "Type "+canvas.Clean(m.input().Name)+" to start: ")
		m.drawInput(x, bottom, m.W-x-1, &r.name, true)
	}
	if note := m.deletesNote(); note != "" {
		lines := canvas.Wrap(note, m.W-2)
		lines = lines[:min(len(lines), 3)]
		bottom -= len(lines)
		for n, l := range lines {
			cv.Put(1, bottom+n, theme.Bad, l)
		}
	}
	lines := wrap(m.planLines(), m.W-2)
	r.room = max(bottom-y-1, 0)
	r.last = max(len(lines)-r.room, 0)
	r.scroll(0)
	title := "plan"
	if r.last > 0 {
		title = fmt.Sprintf("plan %s %d%%", m.Theme.Lines.Dot, 100*(r.top+r.room)/len(lines))
	}
	cv.Heading(y, title)
	area := canvas.Rect{X: 0, Y: y + 1, W: m.W, H: r.room}
	for n, l := range lines[r.top:min(r.top+r.room, len(lines))] {
		cv.Line(1, area.Y+n, m.W-2, l)
	}
	cv.ScrollBar(m.W-1, area, r.top, len(lines))
}

// status says how the plan stands.
func (m *Form) status() (theme.Role, string) {
	r := &m.review
	switch {
	case r.busy:
		mark := m.Theme.Mark("running")
		return mark.Role, mark.Glyph + " making the plan; nothing is written"
	case r.err != nil, r.plan.Refused:
		mark := m.Theme.Mark("refused")
		return mark.Role, mark.Glyph + " lockstep would refuse this"
	}
	mark := m.Theme.Mark("waiting")
	return theme.Strong, mark.Glyph + " " + m.Join("ready to start", r.plan.Summary)
}

func (m *Form) planLines() []string {
	switch r := &m.review; {
	case r.busy:
		return nil
	case r.err != nil:
		lines := slices.Clone(r.plan.Lines)
		for n, l := range strings.Split(r.err.Error(), "\n") {
			if n == 0 {
				l = "error: " + l
			}
			lines = append(lines, l)
		}
		return lines
	}
	return m.review.plan.Lines
}

// deletesNote names the objects that the command deletes.
func (m *Form) deletesNote() string {
	deletes := m.review.plan.Deletes
	if len(deletes) == 0 || m.whyNotStart() != "" {
		return ""
	}
	const most = 4
	named := strings.Join(deletes[:min(len(deletes), most)], ", ")
	if more := len(deletes) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return "Deletes " + text.Count(len(deletes), "object") + ": " + named
}

// drawFooter draws the keys.
func (m *Form) drawFooter() {
	var hints []keys.Hint
	for _, b := range m.Keys() {
		if b.Hint == nil || !b.Active() {
			continue
		}
		if word := b.Hint(); word != "" {
			hints = append(hints, keys.Hint{Key: m.keyName(b), Word: word, Press: b.Key(), Pinned: b.Pinned})
		}
	}
	x := 1
	for _, h := range keys.Fit(hints, m.W-2, 2) {
		x = m.PutHint(x, m.H-1, h, theme.Quiet) + 2
	}
}

func (m *Form) keyName(b keys.Binding) string {
	name := b.Name()
	switch b.Key() {
	case "enter":
		return m.Theme.Lines.Enter
	case "up":
		if m.Theme.ASCII {
			return "up, down"
		}
		return "↑↓"
	}
	first, _, _ := strings.Cut(name, ", ")
	return first
}
