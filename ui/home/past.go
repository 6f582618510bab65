package home

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/line"
)

// partPast is the heading of the keys of the past runs.
const partPast = "in the past runs"

// past is the mode that lists the recorded runs of this machine, and those in the cluster that have ended, the newest first.
type past struct {
	*model
	filter   *line.Line
	read     bool
	err      error
	all      []PastRun
	rows     []*PastRun // those that match the filter
	selected int
	top      int // the first row in view
	followed int // the number of runs that home followed when the list was read
}

// pastMsg is the answer of Source.PastRuns.
type pastMsg struct {
	runs []PastRun
	err  error
}

// openPast opens the past runs.
func (m *model) openPast() tea.Cmd {
	if m.state.Past == nil {
		m.state.Past = &PastState{}
	}
	p := &past{model: m}
	p.followed = len(m.snapshot.Runs)
	p.filter = line.New(m.Screen, line.Config{Prompt: "/", Enter: "keep", Esc: "clear", OnInput: p.setFilter, OnClear: func() { p.setFilter("") }, Status: p.matches})
	m.Modes.Open(p)
	return tea.Batch(p.readRuns(), pastTick())
}

func (p *past) readRuns() tea.Cmd {
	ctx, source, namespace := p.ctx, p.options.Source, p.state.scope()
	return func() tea.Msg {
		runs, err := source.PastRuns(ctx, namespace)
		return pastMsg{runs, err}
	}
}

// pastTickMsg asks whether a run has started or ended since the list was read.
type pastTickMsg struct{}

func pastTick() tea.Cmd {
	return tea.Tick(tickEvery, func(time.Time) tea.Msg { return pastTickMsg{} })
}

// Update takes the runs once they have been read, and selects the one that was selected before.
func (p *past) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case pastMsg:
		p.read, p.all, p.err = true, msg.runs, msg.err
		p.arrange()
	case pastTickMsg:
		if n := len(p.snapshot.Runs); n != p.followed {
			p.followed = n
			return tea.Batch(p.readRuns(), pastTick())
		}
		return pastTick()
	case tea.MouseWheelMsg:
		p.move(map[tea.MouseButton]int{tea.MouseWheelUp: -3, tea.MouseWheelDown: 3}[msg.Button])
	}
	return nil
}

// arrange filters the runs, and keeps the selection.
func (p *past) arrange() {
	words := wordsOf(p.state.Past.Filter)
	p.rows, p.selected = p.rows[:0], 0
	for i := range p.all {
		r := &p.all[i]
		if !matches(words, r.Record, r.Namespace, r.Name, r.Operation, r.Context, p.runMark(p.current(r).Status).Word, r.started(), p.current(r).Why, r.where(), r.By) {
			continue
		}
		if r.id() == p.state.Past.Selected {
			p.selected = len(p.rows)
		}
		p.rows = append(p.rows, r)
	}
}

func (p *past) setFilter(query string) {
	p.state.Past.Filter = query
	p.arrange()
}

// matches says how many runs match the filter.
func (p *past) matches() string { return text.Count(len(p.rows), "run") }

func (p *past) move(by int) {
	p.selected = min(max(p.selected+by, 0), max(len(p.rows)-1, 0))
	if p.selected < len(p.rows) {
		p.state.Past.Selected = p.rows[p.selected].id()
	}
}

// room is the number of rows that fit.
func (p *past) room() int { return max(p.H-1-firstLine-1-p.paneRows(), 1) }

// paneRows is the height of the pane with its heading, 0 without one.
func (p *past) paneRows() int {
	if p.H < paneFrom || len(p.rows) == 0 {
		return 0
	}
	return 4
}

// Keys returns the keys of the past runs in the order of the footer.
func (p *past) Keys() []keys.Binding {
	none := keys.Unless(func() bool { return len(p.rows) > 0 }, "nothing is selected")
	return []keys.Binding{
		{Keys: "esc P", Label: "esc", Hint: keys.Always("releases"), Do: keys.Run(p.back), Part: partPast, About: "back", More: "clears the filter first"},
		{Keys: "enter", Hint: p.enterHint, Disabled: none, Do: func() tea.Cmd { return p.run(p.rows[p.selected].command()...) }, Part: partPast, About: "replay the run"},
		{Keys: "/", Hint: keys.Always("filter"), Do: func() tea.Cmd { return p.filter.Open() }, Part: partPast, About: "filter…", More: "by release, operation, outcome, date or cause"},
		{Keys: "up k", Do: keys.By(p.move, -1), Part: partPast, About: "newer"},
		{Keys: "down j", Do: keys.By(p.move, 1), Part: partPast, About: "older"},
		{Keys: "pgup ctrl+b", Label: "page up", Do: func() tea.Cmd { p.move(1 - p.room()); return nil }, Part: partPast, About: "page up"},
		{Keys: "pgdown ctrl+f space", Label: "page down", Do: func() tea.Cmd { p.move(p.room() - 1); return nil }, Part: partPast, About: "page down"},
		{Keys: "home", Do: func() tea.Cmd { p.move(-len(p.rows)); return nil }, Part: partPast, About: "newest run"},
		{Keys: "end", Do: func() tea.Cmd { p.move(len(p.rows)); return nil }, Part: partPast, About: "oldest run"},
		{Keys: "q ctrl+c", Label: "q", Also: "ctrl-c", Hint: keys.Always("quit"), Do: p.quit, Part: partPast, About: "quit"},
		{Keys: "?", Hint: keys.Always("help"), Do: p.help.Open, Part: partPast, About: "help"},
	}
}

func (p *past) enterHint() string {
	if p.selected < len(p.rows) && p.rows[p.selected].Cluster != "" {
		return "open"
	}
	return "replay"
}

// command returns the command that shows the run again.
func (r *PastRun) command() []string {
	if r.Cluster != "" {
		return []string{"attach", r.Cluster, "--namespace", r.Namespace}
	}
	return []string{"replay", r.Record}
}

// id identifies a run while the list changes.
func (r *PastRun) id() string { return r.Record + r.Cluster }

// where says where the run was, "" for this machine.
func (r *PastRun) where() string {
	if r.Cluster != "" {
		return "in the cluster"
	}
	return ""
}

// back clears the filter, or closes the list.
func (p *past) back() {
	if p.state.Past.Filter != "" {
		p.filter.Clear()
		return
	}
	p.state.Past = nil
	p.Modes.Close(p)
}

// started returns the start of the run in local time.
func (r *PastRun) started() string { return r.Started.Local().Format("2006-01-02 15:04") }

// target returns the release of the run, with its cluster and its namespace if they are not the ones shown.
func (p *past) target(r *PastRun) string {
	name := p.name(r.Key)
	if r.Context != "" && r.Context != p.options.Context {
		name += " in " + r.Context
	}
	return name
}

// Draw draws the list instead of the table.
func (p *past) Draw() {
	cv := p.Canvas
	cv.Blank(canvas.Rect{W: p.W, H: p.H - 1})
	if p.TooSmall() {
		return
	}
	p.drawTitle("home", "past runs", "of this machine and in the cluster", p.matches())
	say := func(role theme.Role, said string) {
		for i, l := range canvas.Wrap(said, p.W-6) {
			cv.Put(3, firstLine+1+i, role, l)
		}
	}
	switch {
	case p.err != nil && len(p.all) == 0:
		say(theme.Bad, p.err.Error())
	case !p.read:
		say(theme.Quiet, "reading the records")
	case len(p.all) == 0:
		say(theme.Text, "no run has been recorded yet")
	case len(p.rows) == 0:
		say(theme.Text, noMatch("run", p.state.Past.Filter))
	default:
		p.drawRows(canvas.Rect{Y: firstLine, W: p.W, H: p.room()})
		p.drawPane(canvas.Rect{Y: p.H - 1 - p.paneRows(), W: p.W, H: p.paneRows()})
	}
}

// drawPane draws what the selected run has no room for.
func (p *past) drawPane(in canvas.Rect) {
	if in.H == 0 {
		return
	}
	r := p.rows[p.selected]
	mark, said := p.outcome(r)
	p.Canvas.Heading(in.Y, p.Join(p.target(r), r.Operation))
	lines := []canvas.Line{{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: said}}, canvas.Plain(theme.Quiet, p.Join(prefixed("started by ", r.By), "lockstep "+strings.Join(r.command(), " ")))}
	if p.err != nil {
		lines = append(lines, canvas.Plain(theme.Stopped, p.err.Error()))
	}
	p.drawLines(canvas.Rect{Y: in.Y + 1, H: in.H - 1}, lines)
}

// took returns the duration of a run; of one that has not ended, up to now.
func (p *past) took(r *PastRun) time.Duration {
	if r.Live {
		return max(p.Now().Sub(r.Started), 0)
	}
	return r.Took
}

// current returns a run as home shows it if it has not ended: home follows it, while the list was read once.
func (p *past) current(r *PastRun) *PastRun {
	i := slices.IndexFunc(p.snapshot.Runs, func(l LiveRun) bool { return l.Key == r.Key && l.Status != Locked })
	if !r.Live || i < 0 || r.Context != "" && r.Context != p.options.Context {
		return r
	}
	now := *r
	now.Status, now.Why = p.snapshot.Runs[i].Status, p.snapshot.Runs[i].Why
	return &now
}

// outcome returns how a run ended, and what to say after the word: ": why", or " by whom", and where it was.
func (p *past) outcome(r *PastRun) (mark theme.Mark, said string) {
	r = p.current(r)
	mark = p.runMark(r.Status)
	where := prefixed(" "+p.Theme.Lines.Dot+" ", r.where())
	if rest, repeated := strings.CutPrefix(r.Why, mark.Word); repeated { // "aborted by ctrl-c"
		return mark, rest + where
	}
	return mark, prefixed(": ", r.Why) + where
}

// operation returns the operation of a run; on a narrow screen without its chart, which the pane has.
func (p *past) operation(r *PastRun) string {
	if p.W < chartFrom {
		name, _, _ := strings.Cut(r.Operation, " ")
		return name
	}
	return r.Operation
}

// drawRows draws the runs in view: how they ended matters more than how long they took, and that more than who started them.
func (p *past) drawRows(in canvas.Rect) {
	cv := p.Canvas
	p.top = scroll(p.top, p.selected, len(p.rows), in.H)
	shown := p.rows[p.top:min(p.top+in.H, len(p.rows))]
	target, operation, took, by := 7, 7, 0, 0
	for _, r := range shown {
		target, operation = max(target, canvas.Width(p.target(r))), max(operation, canvas.Width(p.operation(r)))
		took, by = max(took, canvas.Width(canvas.Took(p.took(r)))+gap), max(by, canvas.Width(canvas.Clean(r.By)))
	}
	target, operation, by = min(target, p.W*3/10), min(operation, p.W/4), min(by, p.W/5)
	if p.W < chartFrom {
		took = 0
	}
	end := p.W - 2
	if p.W >= byFrom && by > 0 {
		end -= by + gap
	}
	for i, r := range shown {
		y := in.Y + i
		mark, said := p.outcome(r)
		if p.top+i == p.selected {
			cv.Highlight(0, y, p.W)
			cv.Put(0, y, theme.Key, p.Theme.Lines.Cursor)
		}
		cv.Put(2, y, mark.Role, mark.Glyph)
		x := cv.Put(4, y, theme.Quiet, r.started()) + gap
		cv.PutFit(x, y, target, theme.Strong, p.target(r))
		x += target + gap
		cv.PutFit(x, y, operation, theme.Text, p.operation(r))
		x += operation + gap
		if took > 0 {
			cv.PutRight(x+took-gap, y, theme.Quiet, canvas.Took(p.took(r)))
		}
		x = cv.PutFit(x+took, y, end-x-took, mark.Role, mark.Word)
		cv.PutFit(x, y, end-x, theme.Text, said)
		if end < p.W-2 {
			cv.PutFit(end+gap, y, by, theme.Quiet, r.By)
		}
	}
	cv.ScrollBar(p.W-1, in, p.top, len(p.rows))
}
