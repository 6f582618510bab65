package home

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
)

// The rows of the screen above and below the table.
const (
	firstRow = 2 // below the header and the state
	belowAll = 2 // a rule and the footer
)

// room returns how many rows of the table are in view.
func (m *model) room() int {
	room := m.H - firstRow - belowAll - 1 // the column heads
	if m.table.runs > 0 {
		room -= 1 // the heading of the runs
	}
	return max(room, 1)
}

func (m *model) draw() {
	m.stale = false
	if m.W <= 0 || m.H <= 0 {
		m.frame = ""
		return
	}
	m.Clear()
	if m.TooSmall() {
		m.Canvas.PutFit(0, 0, m.W, theme.Text, fmt.Sprintf("enlarge the terminal to %d×%d", 40, 10))
	} else {
		m.drawHeader()
		m.drawTable()
		m.Canvas.Heading(m.H-2, "")
		m.DrawFooter(m.hints(), m.state.Filter, m.matches())
	}
	for _, open := range m.Modes {
		open.Draw()
	}
	m.DrawFlash()
	m.frame = m.Canvas.String()
}

func (m *model) hints() (out []keys.Hint) {
	for _, b := range m.keys() {
		if b.Hint == nil {
			continue
		}
		if word := b.Hint(); word != "" {
			out = append(out, keys.Hint{Key: m.KeyName(b), Word: word, Press: b.Key(), Pinned: b.Pinned})
		}
	}
	return out
}

// drawHeader draws where the user is, and how many there are.
func (m *model) drawHeader() {
	cv := m.Canvas
	x := cv.Put(1, 0, theme.Quiet, "lockstep ")
	x = cv.Put(x, 0, theme.Faint, m.Theme.Lines.More+" ")
	x = cv.Put(x, 0, theme.Strong, "home")
	namespace := "ns " + m.state.Namespace
	if m.state.All {
		namespace = "all namespaces"
	}
	where := m.Join(m.options.Context, namespace)
	counts := ""
	if m.snapshot.Listed {
		counts = text.Count(len(m.snapshot.Releases), "release")
		if n := len(m.snapshot.Runs); n > 0 {
			counts = m.Join(counts, text.Count(n, "run"))
		}
	}
	end := cv.PutRight(m.W-1, 0, theme.Text, counts) - 2
	room := end - x - 3
	cv.PutFit(min(max(x+3, (m.W-canvas.Width(where))/2), max(end-canvas.Width(where), x+3)), 0, room, theme.Quiet, where)
	if m.snapshot.Away != "" {
		away := m.Theme.Mark(string(event.Away))
		cv.PutFit(1, 1, m.W-2, away.Role, away.Glyph+" "+m.snapshot.Away)
	}
}

// drawTable draws the rows in view with their headings.
func (m *model) drawTable() {
	cv, y := m.Canvas, firstRow
	rows := m.inView()
	switch {
	case !m.snapshot.Listed && len(rows) == 0:
		if m.snapshot.Away == "" {
			cv.Put(3, y, theme.Quiet, "listing the releases")
		}
		return
	case len(rows) == 0:
		m.drawEmpty(y)
		return
	}
	c := m.columns()
	for i, r := range rows {
		switch {
		case i == 0 && r.run != nil:
			cv.Put(1, y, theme.Strong, "runs")
			y++
		case r.release != nil && (i == 0 || rows[i-1].run != nil):
			c.drawHeads(y)
			y++
		}
		if m.top+i == m.selected {
			cv.Highlight(0, y, m.W)
			cv.Put(0, y, theme.Key, m.Theme.Lines.Cursor)
		}
		if r.run != nil {
			m.drawRun(y, r)
		} else {
			c.draw(y, r.release)
		}
		y++
	}
	cv.ScrollBar(m.W-1, canvas.Rect{X: m.W - 1, Y: firstRow, W: 1, H: y - firstRow}, m.top, len(m.table.rows))
}

// rowAt returns the row at a line of the screen.
func (m *model) rowAt(line int) (n int, ok bool) {
	y := firstRow
	rows := m.inView()
	for i, r := range rows {
		if i == 0 || r.release != nil && rows[i-1].run != nil {
			y++
		}
		if y == line {
			return m.top + i, true
		}
		y++
	}
	return 0, false
}

// drawEmpty says that there is nothing, and what to do.
func (m *model) drawEmpty(y int) {
	where := "in namespace " + m.state.Namespace
	if m.state.All {
		where = "in the cluster"
	}
	say := "No releases " + where + "."
	if m.state.Filter != "" {
		say = "Nothing matches the filter."
	}
	m.Canvas.PutFit(3, y+1, m.W-6, theme.Text, say)
	for i, line := range []canvas.Line{
		{{Role: theme.Key, Text: "i"}, {Role: theme.Quiet, Text: "  install a chart"}},
		{{Role: theme.Key, Text: ":"}, {Role: theme.Quiet, Text: "  another namespace"}},
		{{Role: theme.Key, Text: "A"}, {Role: theme.Quiet, Text: "  all namespaces"}},
	} {
		m.Canvas.Line(3, y+3+i, m.W-6, line)
	}
}

// name returns the name of a release or a run, with its namespace if several are shown.
func (m *model) name(k Key) string {
	if m.state.All || k.Namespace != m.state.Namespace {
		return k.Namespace + "/" + k.Name
	}
	return k.Name
}

// drawRun draws a run, or a release of its stack.
func (m *model) drawRun(y int, r row) {
	cv, end := m.Canvas, m.W-2
	if r.part != nil {
		mark := m.Theme.Mark(string(r.part.Status))
		branch := m.Theme.Lines.Light[theme.ArmUp|theme.ArmRight|theme.ArmDown]
		if r.last {
			branch = m.Theme.Lines.Light[theme.ArmUp|theme.ArmRight]
		}
		x := cv.Put(5, y, theme.Faint, branch+" ")
		x = cv.Put(x, y, mark.Role, mark.Glyph+" ")
		x = cv.PutFit(x, y, end-x, theme.Text, r.part.Name)
		cv.PutFit(x+2, y, end-x-2, theme.Quiet, cmp.Or(r.part.Why, mark.Word))
		return
	}
	mark := m.Theme.Mark(string(r.run.Status))
	if r.run.Status == event.Held {
		mark = m.Theme.HeldFailure()
	}
	where := ""
	if r.run.Cluster != "" {
		where = "in the cluster"
	}
	by := ""
	if r.run.By != "" {
		by = "by " + r.run.By
	}
	end = cv.PutRight(end, y, theme.Quiet, m.Join(where, by, m.age(r.run.Since))) - 2
	x := cv.Put(2, y, mark.Role, mark.Glyph+" ")
	x = cv.PutFit(x, y, min(max(m.W/4, 16), end-x), theme.Strong, m.name(r.run.Key)) + 2
	x = cv.PutFit(x, y, end-x, theme.Text, r.run.Operation) + 2
	x = cv.PutFit(x, y, end-x, mark.Role, mark.Word)
	if r.run.Why != "" && end-x > 4 {
		cv.PutFit(x, y, end-x, theme.Text, ": "+r.run.Why)
	}
}

// age formats how long ago something was.
func (m *model) age(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	d := max(m.Now().Sub(at), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d/time.Hour))
	}
	return fmt.Sprintf("%d d", int(d/(24*time.Hour)))
}

// columns are the places of the columns of the releases. A width of 0 leaves a column out.
type columns struct {
	*model
	name, chart, revision, status, health, age, by int
}

const gap = 2

// columns makes the columns as wide as their content, as far as there is room; health gets the rest.
func (m *model) columns() columns {
	c := columns{model: m, name: 8, revision: 3, status: 6, age: 7}
	for _, r := range m.table.rows[m.table.runs:] {
		c.name = max(c.name, canvas.Width(m.name(r.release.Key)))
		c.chart = max(c.chart, canvas.Width(r.release.Chart))
		c.status = max(c.status, canvas.Width(r.release.Status))
		c.by = max(c.by, canvas.Width(r.release.By))
	}
	c.name = min(c.name, max(m.W*3/10, 12))
	c.chart = min(max(c.chart, 5), m.W/5)
	c.by = min(c.by, m.W/6)
	if m.W < 110 {
		c.by = 0
	}
	if m.W < 90 {
		c.status = 0
	}
	used := 4 + c.name + gap + c.chart + gap + c.revision + gap + c.age + 2
	for _, w := range []int{c.status, c.by} {
		if w > 0 {
			used += w + gap
		}
	}
	c.health = max(m.W-used-gap, 0)
	return c
}

// cells returns the x of each column.
func (c *columns) cells() (name, chart, revision, status, health, age, by int) {
	name = 4
	chart = name + c.name + gap
	revision = chart + c.chart + gap
	status = revision + c.revision + gap
	health = status
	if c.status > 0 {
		health += c.status + gap
	}
	age = health + c.health + gap
	return name, chart, revision, status, health, age, age + c.age + gap
}

func (c *columns) drawHeads(y int) {
	cv := c.Canvas
	name, chart, revision, status, health, age, by := c.cells()
	cv.Put(1, y, theme.Strong, "releases")
	cv.Put(max(chart, 11), y, theme.Quiet, "chart")
	cv.Put(revision, y, theme.Quiet, "rev")
	if c.status > 0 {
		cv.Put(status, y, theme.Quiet, "status")
	}
	cv.PutFit(health, y, c.health, theme.Quiet, "health")
	cv.Put(age, y, theme.Quiet, "changed")
	if c.by > 0 {
		cv.Put(by, y, theme.Quiet, "by")
	}
	_ = name
}

func (c *columns) draw(y int, r *Release) {
	cv, mark := c.Canvas, c.Theme.Mark(r.mark())
	if r.mark() == "" {
		mark.Glyph, mark.Role = c.Theme.Lines.Dot, theme.Quiet
	}
	name, chart, revision, status, health, age, by := c.cells()
	cv.Put(2, y, mark.Role, mark.Glyph)
	cv.PutFit(name, y, c.name, theme.Text, c.model.name(r.Key))
	cv.PutFit(chart, y, c.chart, theme.Quiet, r.Chart)
	cv.PutRight(revision+c.revision, y, theme.Text, strconv.Itoa(r.Revision))
	role := theme.Text
	switch r.Status {
	case "deployed":
		role = theme.Quiet
	case "failed":
		role = theme.Bad
	}
	word := r.health()
	if c.status > 0 {
		cv.PutFit(status, y, c.status, role, r.Status)
	} else if r.Status != "deployed" {
		word = strings.Join(strings.Fields(r.Status+" "+word), " ")
	}
	healthRole := theme.Text
	if mark.Role == theme.Stopped || mark.Role == theme.Bad {
		healthRole = mark.Role
	}
	cv.PutFit(health, y, c.health, healthRole, word)
	cv.PutRight(age+c.age, y, theme.Quiet, c.model.age(r.Changed))
	if c.by > 0 {
		cv.PutFit(by, y, c.by, theme.Quiet, r.By)
	}
}
