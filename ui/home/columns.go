package home

import (
	"fmt"
	"strconv"
	"time"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// columns are the widths of the columns. A width of 0 leaves a column out.
type columns struct {
	*model
	name, chart, revision, status, health, age, by int
	operation                                      int // of runs
}

const gap = 2

// The widths of a screen below which a column is left out.
const (
	whereFrom  = 140 // of runs
	byFrom     = 110
	statusFrom = 110 // health says a status that is not the usual one
	chartFrom  = 70  // the pane has it
)

// maxSince is the widest text at the end of a run's line on a screen that is narrower than whereFrom.
const maxSince = len("59 min ago") + gap

// columns makes the columns as wide as their content, as far as there is room; health gets the rest. The chart of a run gives way to
// the cause: the pane has both.
func (m *model) columns() columns {
	w := m.table.widths
	c := columns{model: m, revision: 4, age: canvas.Width("changed 00"), name: w.name, chart: max(w.chart, 5), status: max(w.status, 6), by: max(w.by, 2), operation: w.operation}
	c.name = min(max(c.name, 8), max(m.W*3/10, 12))
	c.by = min(c.by, m.W/6)
	c.operation = min(c.operation, max(w.verb, m.W-4-c.name-gap-gap-w.why-gap-maxSince))
	if m.W < byFrom {
		c.by = 0
	}
	if m.W < statusFrom {
		c.status = 0
	}
	if m.W < chartFrom {
		c.chart = 0
	}
	used := 4 + c.name + gap + c.revision + gap + c.age + 2
	for _, w := range []int{c.status, c.by} {
		if w > 0 {
			used += w + gap
		}
	}
	if c.chart > 0 {
		c.chart = min(c.chart, max(m.W/5, m.W-used-gap-gap-w.health))
		used += c.chart + gap
	}
	c.health = max(m.W-used-gap, 0)
	return c
}

// places are where the columns start.
type places struct{ name, chart, revision, status, health, age, by int }

func (c *columns) places() (p places) {
	p.name = 4
	p.chart = p.name + c.name + gap
	p.revision = p.chart
	if c.chart > 0 {
		p.revision += c.chart + gap
	}
	p.status = p.revision + c.revision + gap
	p.health = p.status
	if c.status > 0 {
		p.health += c.status + gap
	}
	p.age = p.health + c.health + gap
	p.by = p.age + c.age + gap
	return p
}

func (c *columns) drawHeads(y int) {
	cv, p := c.Canvas, c.places()
	cv.Put(1, y, theme.Strong, "releases")
	cv.PutFit(p.chart, y, c.chart, theme.Quiet, "chart")
	cv.PutRight(p.revision+c.revision, y, theme.Quiet, "rev")
	cv.PutFit(p.status, y, c.status, theme.Quiet, "status")
	role := func(order Sort) theme.Role {
		if c.state.Sort == order {
			return theme.Strong
		}
		return theme.Quiet
	}
	cv.PutFit(p.health, y, c.health, role(ByHealth), "health")
	cv.PutFit(p.age, y, c.age, role(ByChange), "changed")
	cv.PutFit(p.by, y, c.by, theme.Quiet, "by")
}

// armWidth is the width of the arm before a release of a stack.
const armWidth = 3

// arm draws the arm of a tree at x, and returns where what it leads to starts.
func (m *model) arm(x, y int, last bool) int {
	arms := theme.ArmUp | theme.ArmRight | theme.ArmDown
	if last {
		arms = theme.ArmUp | theme.ArmRight
	}
	return m.Canvas.Put(x, y, theme.Faint, m.Theme.Lines.Light[arms]+m.Theme.Lines.Rest+" ")
}

// drawStack draws the last run of a stack.
func (c *columns) drawStack(y int, s *Stack) {
	cv, mark, p := c.Canvas, c.runMark(s.Status), c.places()
	cv.Put(2, y, mark.Role, mark.Glyph)
	x := cv.PutFit(p.name, y, c.W-2-p.name, theme.Strong, s.Name) + gap
	x = max(x, p.name+c.name+gap)
	x = cv.PutFit(x, y, max(p.age-gap-x, 0), theme.Quiet, "stack "+c.Theme.Lines.Dot+" "+s.Operation+" ")
	cv.PutFit(x, y, max(p.age-gap-x, 0), mark.Role, mark.Word)
	cv.PutFit(p.age, y, c.age, theme.Quiet, c.ago(s.Ended))
	cv.PutFit(p.by, y, c.by, theme.Quiet, s.By)
}

func (c *columns) draw(y int, row row) {
	if row.isStack() {
		c.drawStack(y, row.stack)
		return
	}
	r := row.release
	cv, mark, p := c.Canvas, c.releaseMark(r), c.places()
	x := 2
	if row.stack != nil {
		x = c.arm(x, y, row.last)
	}
	x = cv.Put(x, y, mark.Role, mark.Glyph) + 1
	cv.PutFit(x, y, p.name+c.name-x, theme.Text, c.model.name(r.Key))
	cv.Put(p.chart, y, theme.Quiet, canvas.FitMiddle(canvas.Clean(r.Chart), c.chart, c.Theme.Lines.Ellipsis)) // the version stays
	cv.PutRight(p.revision+c.revision, y, theme.Text, strconv.Itoa(r.Revision))
	word, cause, role := r.ready(), r.Health.Cause, theme.Text
	if mark.Role == theme.Stopped || mark.Role == theme.Bad {
		role = mark.Role
	}
	switch {
	case c.status > 0:
		cv.PutFit(p.status, y, c.status, statusRole(r.Status), r.Status)
	case r.Status != "deployed":
		word = text.Join(", ", r.Status, word)
	}
	x = cv.PutFit(p.health, y, c.health, role, word)
	if cause != "" && word != "" {
		cause = " " + c.Theme.Lines.Dot + " " + cause
	}
	cv.PutFit(x, y, p.health+c.health-x, theme.Text, cause)
	cv.PutFit(p.age, y, c.age, theme.Quiet, c.ago(r.Changed))
	cv.PutFit(p.by, y, c.by, theme.Quiet, r.By)
}

func statusRole(status string) theme.Role {
	switch status {
	case "deployed":
		return theme.Quiet
	case "failed":
		return theme.Bad
	}
	return theme.Text
}

// ago says how long ago something was: "5 min ago".
func (m *model) ago(at time.Time) string {
	d := max(m.Now().Sub(at), 0)
	switch {
	case at.IsZero():
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d/time.Hour))
	}
	return fmt.Sprintf("%d d ago", int(d/(24*time.Hour)))
}

// at returns a time of the past in local time: the time of the day, and how long ago that was; a time before that as a date.
func (m *model) at(at time.Time) string {
	local, now := at.Local(), m.Now().Local()
	switch {
	case at.IsZero():
		return ""
	case now.Sub(local) < 24*time.Hour:
		return local.Format("15:04, ") + m.ago(at)
	case local.Year() == now.Year():
		return local.Format("2 Jan 15:04")
	}
	return local.Format("2 Jan 2006")
}
