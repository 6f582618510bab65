package form

import (
	"context"
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/keys"
)

// review is the plan of the command, which the user reads before it starts.
type review struct {
	in     Input // the command that was planned
	open   bool
	n      int // counts the plans, so that the answer of a cancelled one is ignored
	busy   bool
	cancel context.CancelFunc // of the plan that is made
	plan   Plan
	err    error
	view   struct {
		top  int
		last int // the maximum of top
		room int // how many lines the last frame showed
	}

	confirming bool            // the user types the name of the release
	name       textinput.Model // that name
	paused     bool            // start paused
}

// planned is the answer of Source.Plan.
type planned struct {
	n    int
	in   Input
	plan Plan
	err  error
}

// stop cancels the plan that is made.
func (r *review) stop() {
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
}

func (r *review) scroll(by int) { r.view.top = min(max(r.view.top+by, 0), r.view.last) }

// asksName reports whether the user has to type the release's name, because objects are deleted, or taken from others.
func (m *Form) asksName() bool {
	return m.o.Operation == Uninstall || len(m.review.plan.Deletes) > 0 || m.review.in.HasFlag(takeOwnership)
}

// plan makes the plan of the command.
func (m *Form) plan() tea.Cmd {
	if n := m.missing(); n >= 0 {
		m.focusOn(n)
		return tea.Batch(m.suggest(), m.Say(theme.Stopped, "the "+labels[m.current().field]+" is missing"))
	}
	m.review.stop()
	ctx, cancel := context.WithCancel(m.ctx)
	in := m.input()
	m.review = review{in: in, open: true, busy: true, n: m.review.n + 1, cancel: cancel}
	n, source := m.review.n, m.o.Source
	return func() tea.Msg {
		defer cancel()
		if in.Operation == Install { // whether the namespace exists may be unknown, or no longer true
			list, err := source.Suggest(ctx, in, Namespace)
			in.NewNamespace = err == nil && !offers(list, in.Namespace)
		}
		p, err := source.Plan(ctx, in.Args())
		return planned{n, in, p, err}
	}
}

func (m *Form) planned(msg planned) {
	if msg.n != m.review.n || !m.review.open {
		return
	}
	m.review.busy, m.review.in, m.review.plan, m.review.err = false, msg.in, msg.plan, msg.err
}

// back returns to the fields, and cancels the plan if it is still made.
func (m *Form) back() {
	m.review.stop()
	m.review, m.taking = review{n: m.review.n}, nil
}

// goBack returns to where the user saw the plan from: the fields, or the screen that opened the form.
func (m *Form) goBack() tea.Cmd {
	if m.direct {
		return m.cancel()
	}
	m.back()
	return nil
}

func (m *Form) planKeys() []keys.Binding {
	r := &m.review
	return []keys.Binding{
		{Keys: "enter", Hint: m.startHint("start"), Disabled: m.whyNotStart, Do: func() tea.Cmd { return m.start(false) }, About: "start"},
		{Keys: "p", Hint: m.startHint("start paused"), Disabled: m.whyNotStart, Do: func() tea.Cmd { return m.start(true) }, About: "start paused, before the first write"},
		{Keys: "C", Hint: keys.Always("copy"), Do: m.copyCommand, About: "copy the command"},
		{Keys: "ctrl+s", Label: "ctrl-s", Only: func() bool { return m.o.Operation != Test }, Hint: m.startHint("save plan"), Disabled: m.whyNotStart, Do: m.savePlan, About: "save the plan, to have it approved (--plan)"},
		{Keys: "e", Only: m.hasValues, Hint: keys.Always("edit values"), Do: m.openValues, About: "edit the values in $EDITOR"},
		{Keys: "m", Hint: keys.When("take over fields", func() bool { return r.plan.Conflicts }), Disabled: keys.Unless(func() bool { return r.plan.Conflicts }, "no other manager owns a field that this sets"), Do: func() tea.Cmd { return m.planWith(forceConflicts) }, About: "take over fields of other managers (--force-conflicts)"},
		{Keys: "M", Hint: keys.When("take over objects", m.mayTake), Disabled: keys.Unless(m.mayTake, "the plan is not refused because of objects of others"), Do: m.takeOver, About: "take over objects of others (--take-ownership)"},
		{Keys: "I", Only: func() bool { return m.o.Operation == Install }, Hint: keys.When("infer order", m.mayInfer), Disabled: keys.Unless(m.mayInfer, "the order is already decided"), Do: func() tea.Cmd { return m.planWith(inferOrder) }, About: "deploy in the order that the objects imply (--order=inferred)"},
		{Keys: "up k", Label: "↑↓", Hint: keys.When("scroll", func() bool { return r.view.last > 0 }), Do: keys.By(r.scroll, -1), About: "up or down one line"},
		{Keys: "down j", Alias: true, Do: keys.By(r.scroll, 1)},
		{Keys: "pgup ctrl+b", Label: "page up", Do: keys.Run(func() { r.scroll(-max(r.view.room-1, 1)) }), About: "page up"},
		{Keys: "pgdown ctrl+f space", Label: "page down", Do: keys.Run(func() { r.scroll(max(r.view.room-1, 1)) }), About: "page down"},
		{Keys: "home", Do: keys.Run(func() { r.view.top = 0 }), About: "to the beginning"},
		{Keys: "end", Do: keys.Run(func() { r.view.top = r.view.last }), About: "to the end"},
		{Keys: "esc", Hint: keys.Always("back"), Pinned: true, Do: m.goBack, About: "back to the fields, or where you were"},
		{Keys: "ctrl+c", Label: "ctrl-c", Do: m.cancel, About: "cancel; nothing is written"},
		{Keys: "?", Do: m.help.Open, Hint: keys.Always("help"), About: "help"},
	}
}

// Flags that the user can add to the command after reading the plan.
const (
	forceConflicts = "--force-conflicts"
	inferOrder     = "--order=inferred"
	takeOwnership  = "--take-ownership"
)

// mayTake reports whether the plan is refused because of objects that the command can take over.
func (m *Form) mayTake() bool { return len(m.review.plan.Foreign) > 0 }

// takeOver makes the plan again with the objects of others.
func (m *Form) takeOver() tea.Cmd {
	m.taking = m.review.plan.Foreign
	return m.plan()
}

// mayInfer reports whether the order of the objects may be inferred, because the chart declares none.
func (m *Form) mayInfer() bool {
	return m.review.plan.Unordered && !slices.ContainsFunc(m.o.Flags, func(f string) bool { return strings.HasPrefix(f, "--order") })
}

// planWith makes the plan again with another flag.
func (m *Form) planWith(flag string) tea.Cmd {
	m.o.Flags, m.o.Shown = append(slices.Clone(m.o.Flags), flag), append(slices.Clone(m.o.Shown), flag)
	return m.plan()
}

// startHint is in the footer while the command can start.
func (m *Form) startHint(word string) func() string {
	return keys.When(word, func() bool { return m.whyNotStart() == "" })
}

func (m *Form) whyNotStart() string {
	switch {
	case m.review.busy:
		return "the plan is not ready yet"
	case m.direct && (m.review.err != nil || m.review.plan.Refused):
		return "lockstep would refuse it; press esc to go back"
	case m.review.err != nil, m.review.plan.Refused:
		return "lockstep would refuse it; press esc to change the fields"
	}
	return ""
}

// start ends the form with the command, or first asks for the release's name.
func (m *Form) start(paused bool) tea.Cmd {
	m.review.paused = paused
	if !m.asksName() {
		return m.end(m.startArgs())
	}
	m.review.confirming, m.review.name = true, keys.NewInput()
	m.review.name.Focus()
	return nil
}

// planSaved is the answer of Source.SavePlan.
type planSaved struct {
	path string
	err  error
}

func (m *Form) savePlan() tea.Cmd {
	in, ctx, source := m.review.in, m.ctx, m.o.Source
	return tea.Batch(m.Say(theme.Quiet, "saving the plan"), func() tea.Msg {
		path, err := source.SavePlan(ctx, in)
		return planSaved{path, err}
	})
}

func (m *Form) planSaved(msg planSaved) tea.Cmd {
	if msg.err != nil {
		return m.Say(theme.Bad, "cannot save the plan: "+text.CollapseSpace(msg.err.Error()))
	}
	return m.Say(theme.Good, "plan saved in "+msg.path+"; add --plan "+msg.path+" to the command")
}

// startArgs returns the command to run.
func (m *Form) startArgs() []string {
	args := m.review.in.Args()
	if m.review.paused && !slices.Contains(args, "--step") {
		args = append(args, "--step")
	}
	return args
}

func (m *Form) confirmKeys() []keys.Binding {
	return []keys.Binding{
		{Keys: "enter", Hint: keys.Always("start"), Disabled: m.whyNotConfirm, Do: func() tea.Cmd { return m.end(m.startArgs()) }, About: "start, if the name is right"},
		{Keys: "esc ctrl+c", Label: "esc", Hint: keys.Always("back"), Do: keys.Run(func() { m.review.confirming = false }), About: "back to the plan"},
	}
}

func (m *Form) whyNotConfirm() string {
	if name := m.review.in.Name; strings.TrimSpace(m.review.name.Value()) != name {
		return "type " + name + " to confirm"
	}
	return ""
}
