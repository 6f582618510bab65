package home

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
)

// partHistory is the heading of the keys of the history.
const partHistory = "in the history"

// history is the mode that lists the revisions of a release, and shows how two of them differ.
type history struct {
	*model
	of        Key
	content   History // nil until it has been read
	err       error
	reading   bool
	readAt    time.Time
	seen      latest // what the snapshot said when the revisions were read last; zero if they were read before the first one
	revisions []Revision
	selected  int
	base      int // the revision to compare with; 0 for the one before the selected one
	scrolled
	compared map[[2]int][]inspect.Change
}

// scrolled is what of the history is in view.
type scrolled struct {
	top  int // the first revision
	line int // the first line of the changes
	last int // the maximum of line
}

// latest is the latest revision of a release in a snapshot.
type latest struct {
	listed   bool
	revision int // 0 if the release has none
	status   string
}

// historyMsg is the answer of Source.History.
type historyMsg struct {
	of      Key
	content History
	err     error
}

// openHistory opens the history of a release.
func (m *model) openHistory(of Key) tea.Cmd {
	m.state.History = &of
	h := &history{model: m, of: of}
	h.seen = h.latest()
	m.Modes.Open(h)
	return h.read()
}

// read reads the revisions.
func (h *history) read() tea.Cmd {
	h.reading = true
	ctx, source, of := h.ctx, h.options.Source, h.of
	return func() tea.Msg {
		content, err := source.History(ctx, of)
		return historyMsg{of, content, err}
	}
}

// latest returns the latest revision of the release in the snapshot.
func (h *history) latest() latest {
	now := latest{listed: h.snapshot.Listed}
	if i := slices.IndexFunc(h.snapshot.Releases, func(r Release) bool { return r.Key == h.of }); i >= 0 {
		now.revision, now.status = h.snapshot.Releases[i].Revision, h.snapshot.Releases[i].Status
	}
	return now
}

// refresh reads the revisions again if the snapshot shows that somebody has changed the release.
func (h *history) refresh() tea.Cmd {
	now := h.latest()
	if h.reading || !now.listed || now == h.seen {
		return nil
	}
	known := !h.seen.listed && len(h.revisions) > 0 && now == latest{true, h.revisions[0].Number, h.revisions[0].Status}
	if h.seen = now; known {
		return nil
	}
	return h.read()
}

// readEvery is how often the revisions are read of a release in a namespace that is not followed: it belongs to a run that is shown.
const readEvery = 10 * time.Second

// refreshOutside reads the revisions again if no snapshot shows that somebody changes the release.
func (h *history) refreshOutside() tea.Cmd {
	if h.reading || h.state.All || h.of.Namespace == h.state.Namespace || h.latest().revision > 0 || h.Now().Sub(h.readAt) < readEvery {
		return nil
	}
	return h.read()
}

// take takes the revisions that were read, and keeps the selection. If reading them again fails, the old ones stay.
func (h *history) take(msg historyMsg) tea.Cmd {
	h.reading, h.readAt = false, h.Now()
	if msg.err != nil && h.content != nil && h.latest().revision > 0 {
		return h.Say(theme.Bad, "cannot read the new revisions: "+msg.err.Error())
	}
	selected := h.state.Revision
	if r := h.revision(); r != nil {
		selected = r.Number
	}
	h.content, h.err, h.revisions, h.compared = msg.content, msg.err, nil, map[[2]int][]inspect.Change{}
	if h.err == nil {
		h.revisions = h.content.Revisions()
	}
	h.selected = max(slices.IndexFunc(h.revisions, func(r Revision) bool { return r.Number == selected }), 0)
	return h.refresh()
}

// Update takes the revisions once they have been read, and reads them again when the release changes.
func (h *history) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case historyMsg:
		if msg.of == h.of {
			return h.take(msg)
		}
	case snapshotMsg:
		return h.refresh()
	case tickMsg:
		return h.refreshOutside()
	case tea.MouseWheelMsg:
		h.scroll(map[tea.MouseButton]int{tea.MouseWheelUp: -3, tea.MouseWheelDown: 3}[msg.Button])
	}
	return nil
}

// revision returns the selected revision, nil if there is none.
func (h *history) revision() *Revision {
	if h.selected >= len(h.revisions) {
		return nil
	}
	return &h.revisions[h.selected]
}

// Keys returns the keys of the history in the order of the footer.
func (h *history) Keys() []keys.Binding {
	none := keys.Unless(func() bool { return h.revision() != nil }, "nothing is selected")
	hasRun := func() bool { return h.revision() != nil && h.revision().Run != "" }
	older := func() bool { return h.revision() != nil && h.selected > 0 }
	return []keys.Binding{
		{Keys: "esc h", Label: "esc", Hint: keys.Always("releases"), Do: keys.Run(h.close), Part: partHistory, About: "back"},
		{Keys: "enter", Hint: keys.When("open", func() bool { return h.revision() != nil }), Disabled: none, Do: h.watch, Part: partHistory, About: "open", More: "the objects of the revision, as they are now"},
		{Keys: "r", Hint: keys.When("roll back to it", func() bool { return older() && h.model.whyNot("rollback", h.of.Namespace) == "" }),
			Disabled: h.whyNoRollback, Do: h.rollBack, Part: partHistory, About: "roll back to it…", More: "shows the plan first"},
		{Keys: "u", Hint: keys.When("use its values", func() bool { return h.revision() != nil && h.model.whyNot("upgrade", h.of.Namespace) == "" }),
			Disabled: func() string { return cmp.Or(none(), h.model.whyNot("upgrade", h.of.Namespace)) }, Do: h.upgrade, Part: partHistory, About: "upgrade…", More: "with its values; shows the plan first"},
		{Keys: "P", Hint: keys.When("replay", hasRun), Disabled: keys.Unless(hasRun, "this machine has no record of its run"), Do: h.replay, Part: partHistory, About: "replay its run"},
		{Keys: "d", Hint: h.compareHint, Disabled: none, Do: h.compare, Part: partHistory, About: "compare", More: "mark a revision, then select the other"},
		{Keys: "up k", Do: keys.By(h.move, -1), Part: partHistory, About: "newer"},
		{Keys: "down j", Do: keys.By(h.move, 1), Part: partHistory, About: "older"},
		{Keys: "pgup ctrl+b", Label: "page up", Do: keys.By(h.page, -1), Part: partHistory, About: "scroll the changes up"},
		{Keys: "pgdown ctrl+f space", Label: "page down", Hint: keys.When("more", func() bool { return h.line < h.last }), Do: keys.By(h.page, 1), Part: partHistory, About: "scroll the changes down"},
		{Keys: "q ctrl+c", Label: "q", Also: "ctrl-c", Hint: keys.Always("quit"), Do: h.quit, Part: partHistory, About: "quit"},
		{Keys: "?", Hint: keys.Always("help"), Do: h.help.Open, Part: partHistory, About: "help"},
	}
}

func (h *history) close() {
	h.state.History, h.state.Revision = nil, 0
	h.Modes.Close(h)
}

func (h *history) move(by int) {
	h.selected = min(max(h.selected+by, 0), max(len(h.revisions)-1, 0))
	h.line = 0
	if r := h.revision(); r != nil {
		h.state.Revision = r.Number
	}
}

func (h *history) scroll(by int) { h.line = min(max(h.line+by, 0), h.last) }
func (h *history) page(by int)   { h.scroll(by * max(h.H/2-4, 1)) }

func (h *history) watch() tea.Cmd {
	return h.run("watch", h.of.Name, "--namespace", h.of.Namespace, "--revision", strconv.Itoa(h.revision().Number))
}

func (h *history) replay() tea.Cmd { return h.run("replay", h.revision().Run) }

func (h *history) whyNoRollback() string {
	switch {
	case h.revision() == nil:
		return "nothing is selected"
	case h.selected == 0:
		return "this is the latest revision; select an older one"
	}
	return h.model.whyNot("rollback", h.of.Namespace)
}

func (h *history) rollBack() tea.Cmd {
	return h.open(Request{Operation: "rollback", Release: h.of.Name, Namespace: h.of.Namespace, Revision: h.revision().Number})
}

// upgrade opens the form of an upgrade, with the values of the selected revision unless they are kept anyway.
func (h *history) upgrade() tea.Cmd {
	r := Request{Operation: "upgrade", Release: h.of.Name, Namespace: h.of.Namespace}
	if h.selected > 0 {
		r.Revision = h.revision().Number
	}
	return h.open(r)
}

// Draw draws the history instead of the table.
func (h *history) Draw() {
	cv := h.Canvas
	cv.Blank(canvas.Rect{W: h.W, H: h.H - 1})
	if h.TooSmall() {
		return
	}
	h.drawTitle("home", "history of "+h.of.Name, h.Join(h.options.Context, "ns "+h.of.Namespace), h.count())
	switch {
	case errors.Is(h.err, ErrNoRevisions):
		h.Canvas.PutFit(3, firstLine+1, h.W-6, theme.Text, h.whyNone())
		return
	case h.err != nil:
		for i, l := range canvas.Wrap(h.err.Error(), h.W-6) {
			cv.Put(3, firstLine+1+i, theme.Bad, l)
		}
		return
	case h.content == nil:
		cv.Put(3, firstLine+1, theme.Quiet, "reading the revisions")
		return
	}
	room := min(len(h.revisions), max(h.H/2-5, 3))
	h.top = scroll(h.top, h.selected, len(h.revisions), room)
	h.drawRevisions(canvas.Rect{Y: firstLine, W: h.W, H: room})
	h.drawChanges(firstLine + room + 1)
}

// count counts the revisions, "" until they have been read.
func (h *history) count() string {
	if len(h.revisions) == 0 {
		return ""
	}
	return text.Count(len(h.revisions), "revision")
}

// whyNone says why there is no revision.
func (h *history) whyNone() string {
	if run := h.lockedBy(h.of); run != nil {
		return "release " + h.of.Name + " has no revisions yet: its " + run.Operation + " has not created one"
	}
	return "release " + h.of.Name + " has no revisions"
}

// expected are Helm's descriptions that say no more than the status.
var expected = []string{"Install complete", "Upgrade complete"}

// drawRevisions draws the revisions in view.
func (h *history) drawRevisions(in canvas.Rect) {
	cv := h.Canvas
	chart, status, by := 5, 6, 2
	for _, r := range h.revisions {
		chart, status, by = max(chart, canvas.Width(r.Chart)), max(status, canvas.Width(r.Status)), max(by, canvas.Width(r.By))
	}
	chart, by = min(chart, h.W/4), min(by, h.W/6)
	if h.W < byFrom {
		by = 0
	}
	const rev, age = 3, len("15:04, 59 min ago")
	at := struct{ status, chart, age, by, what int }{}
	at.status = 3 + rev + gap
	at.chart = at.status + status + gap
	at.age = at.chart + chart + gap
	at.by = at.age + age + gap
	at.what = at.by
	if by > 0 {
		at.what += by + gap
	}
	for n := h.top; n < min(h.top+in.H, len(h.revisions)); n++ {
		r, y := &h.revisions[n], in.Y+n-h.top
		if n == h.selected {
			cv.Highlight(0, y, h.W)
			cv.Put(0, y, theme.Key, h.Theme.Lines.Cursor)
		}
		if r.Number == h.base {
			cv.Put(1, y, theme.Accent, h.Theme.Lines.Break)
		}
		cv.PutRight(3+rev, y, theme.Strong, strconv.Itoa(r.Number))
		cv.PutFit(at.status, y, status, statusRole(r.Status), r.Status)
		cv.PutFit(at.chart, y, chart, theme.Text, r.Chart)
		cv.PutFit(at.age, y, age, theme.Quiet, h.at(r.Changed))
		cv.PutFit(at.by, y, by, theme.Quiet, r.By)
		what := r.What
		if r.RollbackTo > 0 {
			what = text.Join(": ", fmt.Sprintf("rollback to %d", r.RollbackTo), what)
		}
		x := cv.PutFit(at.what, y, h.W-2-at.what, theme.Text, what)
		if !slices.Contains(expected, r.Description) && r.RollbackTo == 0 {
			said := r.Description
			if what != "" {
				said = prefixed(" "+h.Theme.Lines.Dot+" ", said)
			}
			cv.PutFit(x, y, h.W-2-x, theme.Quiet, said)
		}
	}
	cv.ScrollBar(h.W-1, in, h.top, len(h.revisions))
}
