package board

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
)

// While a run is paused or held, others go on: somebody mends an object in the
// cluster, somebody changes the chart's folder. The screen says so, for what R and E
// would do then.

// lookEvery is how often the chart's folder is looked at.
const lookEvery = 2 * time.Second

// drift is what is known of what others have done.
type drift struct {
	looking bool // at the chart's folder
	chart   bool // it has changed

	asked   drifted // what was asked about the cluster last
	reverts string  // what applying that again would take back
}

// drifted is a failed object at a moment.
type drifted struct {
	item   inspector.Item
	status event.Status
	since  time.Time
	begun  time.Time
}

type (
	// folderMsg tells whether the chart's folder has changed, revertsMsg what
	// applying an object again would take back.
	folderMsg  bool
	revertsMsg struct {
		of   drifted
		text string
	}
)

// lookAround asks for what others may have done.
func (m *model) lookAround() tea.Cmd { return tea.Batch(m.lookAtFolder(), m.askReverts()) }

// lookAtFolder looks at the chart's folder in a while, if it can be rendered again.
func (m *model) lookAtFolder() tea.Cmd {
	if m.drift.looking || !mayEdit(m) {
		return nil
	}
	m.drift.looking = true
	ctx, editor := m.ctx, m.opts.Editor
	return func() tea.Msg {
		if !sleep(ctx, lookEvery) {
			return nil
		}
		return folderMsg(editor.ChartChanged())
	}
}

// sawFolder tells of a folder that has changed, once.
func (m *model) sawFolder(msg folderMsg) tea.Cmd {
	was := m.drift.chart
	m.drift.looking, m.drift.chart = false, bool(msg)
	if !was && m.drift.chart && mayEdit(m) {
		m.stale = true
		return tea.Batch(m.lookAtFolder(), m.say(theme.Stopped, "chart changed on disk, E renders it again"))
	}
	return m.lookAtFolder()
}

// chartHint is the word for E, once there is something to render.
func chartHint(m *model) string {
	if m.drift.chart && mayEdit(m) {
		return "chart changed, render it again"
	}
	return ""
}

// askReverts asks what applying the failed object again would take back of what is in
// the cluster.
func (m *model) askReverts() tea.Cmd {
	answers := m.opts.Inspector
	if answers == nil || !held(m) {
		m.drift.asked, m.drift.reverts = drifted{}, ""
		return nil
	}
	nodes := m.failing()
	if len(nodes) == 0 {
		return nil
	}
	r := m.rootOf(nodes[0])
	if r.Object == nil {
		return nil
	}
	about := inspector.Subject{Picture: &m.Picture, Node: nodes[0]}
	of := drifted{about.ItemOf(r.Object), r.Object.Status, r.Object.Since, nodes[0].Started}
	if of == m.drift.asked {
		return nil
	}
	m.drift.asked, m.drift.reverts = of, ""
	ctx := m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		c, err := answers.Change(ctx, of.item)
		if err != nil || c.Action != inspector.Alter {
			return revertsMsg{of, ""}
		}
		return revertsMsg{of, reverts(c.Fields)}
	}
}

// lookTimeout is how long the cluster may take to answer.
const lookTimeout = 10 * time.Second

// sawReverts takes the answer, unless it is about another moment.
func (m *model) sawReverts(msg revertsMsg) {
	if msg.of == m.drift.asked {
		m.drift.reverts, m.stale = msg.text, true
	}
}

// reverts says what of the fields in the cluster goes away: "image: example/api:2",
// "3 fields".
func reverts(fields []inspector.Field) string {
	var gone []string
	for _, f := range fields {
		for _, l := range f.Lines {
			if live, ok := strings.CutPrefix(l, "-"); ok {
				gone = append(gone, strings.TrimSpace(live))
				break
			}
		}
	}
	switch len(gone) {
	case 0:
		return ""
	case 1:
		return gone[0]
	}
	return fmt.Sprintf("%s and %d more", gone[0], len(gone)-1)
}

// retryHint says what applying again takes back, where somebody has changed what is in
// the cluster, as far as there is room beside the other ways out.
func retryHint(m *model) string {
	switch {
	case !held(m):
		return ""
	case m.drift.reverts == "":
		return "retry"
	case m.w < 100:
		return "retry, reverts"
	}
	return "retry, which reverts " + canvas.FitMiddle(m.drift.reverts, m.w-80, m.Theme.Lines.Ellipsis)
}
