package home

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/keys"
)

// The headings of the keys, in the order of the help.
const (
	partOpen   = "open"
	partChange = "change a release"
	partFind   = "find something"
	partMove   = "move around"
)

// keys returns the table of keys in the order of the footer, which always shows the last one.
func (m *model) keys() []keys.Binding {
	noRow := keys.Unless(func() bool { return m.row() != nil }, "nothing is selected")
	isRelease := func() bool { return m.release() != nil }
	hasHistory := func() bool { r := m.row(); return r != nil && r.key().Namespace != "" } // a stack has none
	hasHelmfile := func() bool { return m.options.Helmfile }
	noRelease := keys.Unless(isRelease, "select a release first")
	why := func(name string, needsRelease bool) string {
		if needsRelease && !isRelease() {
			return noRelease()
		}
		r := m.request(name)
		return cmp.Or(m.whyNot(name, r.Namespace), m.locked(Key{r.Namespace, r.Release}))
	}
	operation := func(key, name, word string, needsRelease bool, about, more string) keys.Binding {
		return keys.Binding{Keys: key, Part: partChange, About: about, More: more,
			Hint:     keys.When(word, func() bool { return m.options.Form != nil && (!needsRelease || isRelease()) }),
			Disabled: func() string { return why(name, needsRelease) },
			Do:       func() tea.Cmd { return m.open(m.request(name)) }}
	}
	return []keys.Binding{
		{Keys: "enter", Hint: m.enterHint, Disabled: func() string { return cmp.Or(noRow(), m.elsewhere()) }, Do: m.enter, Pinned: true, Part: partOpen, About: "open", More: "the release, or the screen of its run"},
		operation("u", "upgrade", "upgrade", true, "upgrade…", "shows the plan first"),
		operation("i", "install", "install", false, "install…", "a chart as a new release; shows the plan first"),
		{Keys: "h", Hint: keys.When("history", hasHistory), Disabled: keys.Unless(hasHistory, "select a release first"), Do: m.history, Part: partOpen, About: "history", More: "revisions of the release"},
		operation("r", "rollback", "roll back", true, "roll back…", "to an earlier revision; shows the plan first"),
		operation("x", "uninstall", "uninstall", true, "uninstall…", "shows the plan, and asks for the name"),
		{Keys: "U", Hint: keys.When("up", hasHelmfile), Disabled: keys.Unless(hasHelmfile, "there is no helmfile here"),
			Do: func() tea.Cmd { return m.run("up", "--step") }, Part: partChange, About: "up", More: "the helmfile here, paused before the first write"},
		{Keys: "/", Hint: keys.When("filter", func() bool { return len(m.snapshot.Releases)+len(m.snapshot.Runs) > 0 }), Do: m.filter.Open, Part: partFind, About: "filter…", More: "by name, chart, status or cause"},
		{Keys: "0", Hint: m.allHint, Do: keys.Run(m.toggleAll), Part: partFind, About: "all namespaces", More: "and back to one"},
		{Keys: ":", Hint: keys.Always("namespace"), Do: m.chooseNamespace, Part: partFind, About: "namespace…", More: "show another namespace"},
		{Keys: "P", Hint: keys.Always("past runs"), Do: m.openPast, Part: partOpen, About: "past runs", More: "of this machine and in the cluster"},
		{Keys: "s", Hint: keys.When("worst first", func() bool { return m.state.Sort == ByName && m.unwell() > 0 }), Do: keys.Run(m.nextSort), Part: partFind, About: "sort", More: "by health, last change, name"},
		operation("T", "test", "test", true, "test…", "runs the tests of the chart"),
		{Keys: "up k", Do: keys.By(m.move, -1), Part: partMove, About: "up one line"},
		{Keys: "down j", Do: keys.By(m.move, 1), Part: partMove, About: "down one line"},
		{Keys: "pgup ctrl+b", Label: "page up", Do: keys.By(m.page, -1), Part: partMove, About: "page up"},
		{Keys: "pgdown ctrl+f", Label: "page down", Do: keys.By(m.page, 1), Part: partMove, About: "page down"},
		{Keys: "home", Do: keys.Run(func() { m.selectRow(0) }), Part: partMove, About: "first line"},
		{Keys: "end", Do: keys.Run(func() { m.selectRow(len(m.table.rows) - 1) }), Part: partMove, About: "last line"},
		{Keys: "esc", Do: keys.Run(m.escape), Part: partMove, About: "back", More: "clears the filter"},
		{Keys: "q ctrl+c", Label: "q", Also: "ctrl-c", Hint: keys.Always("quit"), Do: m.quit, Part: partMove, About: "quit", More: "runs continue"},
		{Keys: "?", Hint: keys.Always("help"), Do: m.help.Open, Part: partFind, About: "help"},
	}
}

func (m *model) quit() tea.Cmd { return tea.Quit }

// run ends home with a command line.
func (m *model) run(args ...string) tea.Cmd {
	m.args = args
	return tea.Quit
}

// enter attaches to the selected run, or to that of the selected release; a release without one is watched.
func (m *model) enter() tea.Cmd {
	if r := m.row(); r.isStack() {
		return m.run("replay", r.stack.Record)
	}
	command, of := "watch", m.row().key()
	if run := m.runOf(m.row()); run != nil {
		command, of = "attach", run.Key
	}
	args := []string{command, of.Name}
	if namespace := of.Namespace; namespace != "" { // a stack has none
		args = append(args, "--namespace", namespace)
	}
	return m.run(args...)
}

// runOf returns the run of a row, or the one that works on its release and can be attached to, nil for none.
func (m *model) runOf(r *row) *LiveRun {
	if r == nil || r.run != nil || r.isStack() {
		return r.liveRun()
	}
	i := slices.IndexFunc(m.snapshot.Runs, func(run LiveRun) bool { return run.Elsewhere == "" && run.worksOn(r.release.Key) })
	if i < 0 {
		return nil
	}
	return &m.snapshot.Runs[i]
}

// elsewhere says why the selected run cannot be attached to, "" if it can.
func (m *model) elsewhere() string {
	if r := m.row(); r != nil && r.run != nil && r.run.Elsewhere != "" {
		return "cannot attach from here: " + r.run.Elsewhere
	}
	return ""
}

// lockedBy returns the live run that has locked a release, so that no operation on it can start, nil if none has.
func (m *model) lockedBy(of Key) *LiveRun {
	i := slices.IndexFunc(m.snapshot.Runs, func(run LiveRun) bool { return run.Status != Killed && run.worksOn(of) })
	if i < 0 {
		return nil
	}
	return &m.snapshot.Runs[i]
}

// locked says which live run has locked a release, "" if none has.
func (m *model) locked(of Key) string {
	run := m.lockedBy(of)
	if run == nil {
		return ""
	}
	reason := text.Join(" ", "release", of.Name, "is locked by its live run:", run.Operation, prefixed("by ", run.By))
	if run.Elsewhere != "" {
		return reason
	}
	return reason + "; press enter to attach"
}

func (m *model) enterHint() string {
	switch r := m.row(); {
	case r == nil:
		return ""
	case m.runOf(r) != nil:
		return "attach"
	case r.isStack():
		return "replay"
	}
	return "open"
}

// history opens the revisions of the selected release, or of the release of the selected run.
func (m *model) history() tea.Cmd { return m.openHistory(m.row().key()) }

// whyNot says why an operation cannot be started in a namespace, "" if it can.
func (m *model) whyNot(operation, namespace string) string {
	if m.options.Form == nil {
		return "use the command line: lockstep " + operation
	}
	return m.snapshot.Denied[namespace][operation]
}

// request returns the request for an operation on the selected release.
func (m *model) request(operation string) Request {
	r := Request{Operation: operation, Namespace: m.state.Namespace}
	if rel := m.release(); rel != nil && operation != "install" {
		r.Release, r.Namespace = rel.Name, rel.Namespace
	}
	return r
}

// open opens the form of a request.
func (m *model) open(r Request) tea.Cmd {
	if m.options.Form == nil {
		return nil
	}
	if why := m.locked(Key{r.Namespace, r.Release}); why != "" {
		return m.Say(theme.Bad, why)
	}
	m.Flash.Text = "" // it was about the screen before
	m.form = m.options.Form(m.Screen, r, func(args []string) tea.Cmd {
		m.Modes.Close(m.form)
		m.form = nil
		if args != nil {
			of := m.goTo(args)
			if run := m.lockedBy(of); run != nil && m.options.Open == nil {
				m.state.Selected = row{run: run}.id()
				m.arrange()
				return m.Say(theme.Bad, m.locked(of))
			}
			return m.run(args...)
		}
		if m.options.Open != nil {
			return m.quit()
		}
		return nil
	})
	m.Modes.Open(m.form)
	if starts, ok := m.form.(interface{ Init() tea.Cmd }); ok {
		return starts.Init()
	}
	return nil
}

// goTo makes home return to the release that a command line of a form changes, which it returns, or to its live run.
func (m *model) goTo(args []string) (k Key) {
	i := slices.Index(args, "-n")
	if i < 2 || i+1 >= len(args) {
		return
	}
	k = Key{args[i+1], args[1]}
	isShown := slices.ContainsFunc(m.snapshot.Releases, func(r Release) bool { return r.Key == k }) // perhaps in a stack
	if !m.state.All && m.state.Namespace != k.Namespace && !isShown {
		m.state.Namespace, m.state.Filter = k.Namespace, "" // the filter belonged to the one before
	}
	if args[0] == "uninstall" { // the filter may have matched only the release that goes
		m.state.Filter = ""
	}
	m.state.Selected = row{release: &Release{Key: k}}.id()
	return k
}

// unwell counts the releases that are known to have failed or to be degraded.
func (m *model) unwell() (n int) {
	for i := range m.snapshot.Releases {
		if mark := m.snapshot.Releases[i].mark(); mark == "failed" || mark == "degraded" {
			n++
		}
	}
	return n
}

func (m *model) nextSort() { m.state.Sort = (m.state.Sort + 1) % sorts; m.arrange() }

// namespacesMsg is the answer of Source.Namespaces, empty if they may not be listed.
type namespacesMsg []string

func (m *model) chooseNamespace() tea.Cmd {
	m.namespace.Reset()
	ctx, source := m.ctx, m.options.Source
	return tea.Batch(m.namespace.Open(), func() tea.Msg {
		names, _ := source.Namespaces(ctx) // the user may type one that cannot be listed
		return namespacesMsg(names)
	})
}

// suggested lists the namespaces that match what is typed.
func (m *model) suggested() string { return strings.Join(m.matching(), "  ") }

// matching returns the namespaces that start with what is typed, then those that contain it.
func (m *model) matching() (names []string) {
	typed := m.namespace.Value()
	for _, n := range m.namespaces {
		if strings.HasPrefix(n, typed) {
			names = append(names, n)
		}
	}
	for _, n := range m.namespaces {
		if strings.Contains(n, typed) && !strings.HasPrefix(n, typed) {
			names = append(names, n)
		}
	}
	return names
}

func (m *model) complete() {
	if names := m.matching(); len(names) > 0 {
		m.namespace.Set(names[0])
	}
}

// openNamespace shows the namespace that was typed, or the only one that starts with what was typed. The filter belonged to the
// one before.
func (m *model) openNamespace() {
	name := m.namespace.Value()
	if name == "" {
		return
	}
	starts := func(n string) bool { return strings.HasPrefix(n, name) }
	if found := m.matching(); len(found) > 0 && starts(found[0]) && (len(found) == 1 || !starts(found[1])) {
		name = found[0]
	}
	m.filter.Reset()
	m.state.Namespace, m.state.All, m.state.Filter = name, false, ""
	m.follow()
}

func (m *model) allHint() string {
	if m.state.All {
		return "one namespace"
	}
	return "all"
}

func (m *model) toggleAll() {
	m.state.All = !m.state.All
	m.follow()
}

func (m *model) page(by int) { m.move(by * max(m.layOut().releases.H-1, 1)) }

func (m *model) escape() { m.filter.Clear() }

// Doc documents the keys of home and of the history, part by part.
func Doc() (out []keys.Key) {
	m := &model{}
	for _, part := range []string{partOpen, partChange, partFind, partMove, partHistory, partPast} {
		for _, b := range slices.Concat(m.keys(), (&history{model: m}).Keys(), (&past{model: m}).Keys()) {
			if b.Part == part {
				out = append(out, keys.Key{Keys: b.Name(), Part: part, About: b.About, More: b.More})
			}
		}
	}
	return out
}
