// Package edit is the mode for editing a run: it opens the values in the user's editor, shows the
// planned changes for review, and polls the chart's directory for changes. Its central types are
// Edit, the mode, and Editor, which renders and plans.
package edit

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/page"
	"lockstep/ui/board/screen"
)

// Editor edits the revision that a run applies (R46).
type Editor interface {
	inspect.Editor
	// ChartChanged reports whether the chart's directory changed since the last rendering. The
	// screen polls it.
	ChartChanged() bool
	// Save writes the values that Editor.UserValues returned to a new file, and returns its path.
	Save(values string) (path string, err error)
}

// draft is an edit in progress. It keeps the user's text until the run accepts it.
type draft struct {
	edited      bool   // the user opened the values
	values, was string // the current and the original text
	all         bool   // the values include the charts' defaults
	chart       bool   // the revision has the current chart, but not the user's text
	busy        bool   // being rendered and planned
	result      inspect.Edited
	err         error // the edit is invalid
}

type (
	// EditorClosed is the text after the user closed the editor.
	EditorClosed struct {
		Values string
		Err    error
	}
	// planned is the result of planning a draft.
	planned struct {
		draft  *draft
		result inspect.Edited
		err    error
	}
	// ChartChecked reports whether the chart's directory has changed.
	ChartChecked bool
)

// Edit is the review of an edit, and the edit in progress.
type Edit struct {
	page.Text
	ctx    context.Context
	editor Editor // nil if nothing can be edited
	atQuit func(func()) (undo func())
	draft  *draft // may be nil

	paused  pause
	Polling bool // a check of the chart's directory is scheduled
	changed bool // the chart's directory changed
}

// New returns a closed review. While the user's editor runs, its cleanup is registered with
// atQuit in case the program exits at once.
func New(ctx context.Context, s *screen.Screen, editor Editor, atQuit func(func()) func()) *Edit {
	return &Edit{Text: page.Text{Screen: s}, ctx: ctx, editor: editor, atQuit: atQuit}
}

// Part is the heading of the keys of the review.
const Part = "in the edit review"

func (e *Edit) Keys() []keys.Binding {
	return slices.Concat([]keys.Binding{
		{Keys: "enter", Hint: e.applyHint, Disabled: e.whyNotApply, Do: e.apply, About: "apply the edited revision"},
		{Keys: "e", Hint: e.againHint, Disabled: e.WhyNot, Do: e.editAgain, About: "edit again"},
		{Keys: "ctrl+s", Label: "ctrl-s", Hint: keys.When("save values", func() bool { return e.whyNotSave() == "" }), Disabled: e.whyNotSave, Do: e.save, About: "save the values to a file"},
	}, e.ScrollKeys(), []keys.Binding{
		{Keys: "esc", Hint: keys.Always("discard"), Do: e.leave, About: "discard (e restores the text)"},
		{Keys: "ctrl+c", Label: "ctrl-c", Do: e.Abort, About: "abort (asks first)"},
	})
}

func (e *Edit) againHint() string {
	if e.draft.chart {
		return "edit values"
	}
	return "edit again"
}

func (e *Edit) applyHint() string {
	switch {
	case e.whyNotApply() != "":
		return ""
	case e.paused.ours:
		return "apply, resume"
	}
	return "apply"
}

func (e *Edit) close() { e.Modes.Close(e) }

// leave closes the review, and keeps the draft.
func (e *Edit) leave() tea.Cmd {
	e.close()
	return e.endPause()
}

// Draft returns the user's text that the run has not accepted yet.
func (e *Edit) Draft() (values string, ok bool) {
	if e.draft == nil {
		return "", false
	}
	return e.draft.values, true
}

// CanEdit reports whether the run can be edited now.
func (e *Edit) CanEdit() bool { return e.WhyNot() == "" }

// WhyNot says why the run cannot be edited now, "" if it can.
func (e *Edit) WhyNot() string {
	switch {
	case e.State.Operation.IsStack() || e.Stack != nil:
		return e.stackInstead()
	case e.Attached && e.editor == nil:
		return "edit in the terminal that started the run, or use " + text.Program + " ctl RELEASE edit -f FILE"
	case e.editor == nil:
		return "nothing to edit: this operation takes neither values nor a chart"
	case e.Over():
		return "the run is over; change the values and run the command again"
	case e.State.Status == event.RollingBack:
		return "a rollback cannot be edited"
	case !e.Held() && !e.Paused() && !e.pausesFirst():
		return "press p to pause the run first"
	}
	return ""
}

// stackInstead says how to continue a stack with other values or charts.
func (e *Edit) stackInstead() string {
	all := e.Stack
	if all == nil {
		all = &e.Picture
	}
	op, abort := all.State.Operation, "abort with a and K, then "
	if all.Over() {
		abort = ""
	}
	file, again := op.Chart, text.Program+" "+op.Name+" -f "+op.Chart+" again with the same flags"
	if file == "" || file == "-" {
		file, again = "the file", "the command again with the same flags"
	}
	run := "run " + again
	if e.Screen.Home == "home" && op.Name == "up" {
		run = "press esc to go home and U (up) there, or " + run
	}
	return "a stack cannot be edited: change the chart or " + file + ", " + abort + run
}

// ValuesHint returns the footer's word for e, "" while the run cannot be edited.
func (e *Edit) ValuesHint() string {
	switch {
	case !e.CanEdit():
		return ""
	case e.pausesFirst():
		return "pause, edit values"
	}
	return "edit values"
}

// ChartHint returns the footer's word for E, "" unless the chart changed.
func (e *Edit) ChartHint() string {
	if e.changed && e.CanEdit() {
		return "chart changed, render again"
	}
	return ""
}

// EditValues opens the values that the user set, EditAllValues also the charts' defaults, and editAgain
// the same as last time.
func (e *Edit) EditValues() tea.Cmd    { return e.open(false) }
func (e *Edit) EditAllValues() tea.Cmd { return e.open(true) }
func (e *Edit) editAgain() tea.Cmd     { return e.open(e.draft != nil && e.draft.all) }

// valuesTimeout is how long the screen waits for another process to send values.
const valuesTimeout = 5 * time.Second

// open opens the draft in the user's editor. Without one, or without the charts' defaults if all is set, it starts one from
// the run's values.
func (e *Edit) open(all bool) tea.Cmd {
	if e.draft != nil && e.draft.busy {
		return e.Say(theme.Quiet, "still rendering the edit")
	}
	if e.draft == nil || !e.draft.edited || e.draft.all != all && (all || e.draft.values == e.draft.was) {
		e.draft = nil
		ctx, cancel := context.WithTimeout(e.ctx, valuesTimeout)
		defer cancel()
		values, err := e.editor.Values(ctx, all)
		if err != nil {
			return e.Say(theme.Bad, "cannot edit the values: "+err.Error())
		}
		e.draft = &draft{edited: true, values: values, was: values, all: all}
	}
	return tea.Batch(e.pause(), Open(e.ctx, e.draft.values, e.atQuit))
}

// RenderAgain renders and plans the current content of the chart's directory.
func (e *Edit) RenderAgain() tea.Cmd {
	if e.draft == nil {
		e.draft = &draft{}
	}
	e.changed = false
	return tea.Batch(e.pause(), e.plan(Editor.Reload, true))
}

// Update handles a closed editor, a finished plan and a check of the chart's directory.
func (e *Edit) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case EditorClosed:
		return e.read(msg)
	case planned:
		e.show(msg)
	case ChartChecked:
		return e.chartChecked(bool(msg))
	case keys.Changed:
		if e.Over() {
			e.close()
		}
		return tea.Batch(e.resumeEdited(), e.pollChart())
	}
	return e.Text.Update(msg)
}

// Accepted reports whether an event says that the run accepted an edit.
func Accepted(ev event.Event) bool {
	return ev.Kind == event.KindCommand && ev.Command == event.Edit && ev.Status == event.Accepted
}

// Applied closes the review after the run accepted an edit, and discards the user's text unless the edit
// did not have it.
func (e *Edit) Applied() {
	e.paused.replaces = e.State.Operation.Revision
	if e.draft != nil && e.draft.chart && e.draft.edited {
		e.draft.chart = false
		e.close()
		return
	}
	e.discard()
}

// discard discards the user's text and closes the review.
func (e *Edit) discard() {
	e.draft = nil
	e.close()
}

// read plans the user's text.
func (e *Edit) read(msg EditorClosed) tea.Cmd {
	if e.draft == nil {
		return nil
	}
	e.draft.values = msg.Values
	switch {
	case msg.Err != nil:
		return e.Say(theme.Bad, msg.Err.Error())
	case msg.Values == e.draft.was:
		e.discard()
		return tea.Batch(e.endPause(), e.Say(theme.Quiet, "nothing changed"))
	}
	all := e.draft.all
	return e.plan(func(ed Editor, ctx context.Context) (inspect.Edited, error) { return ed.Edit(ctx, msg.Values, all) }, false)
}

// plan renders and plans a revision in the background: one with the current chart, or one with the user's
// text.
func (e *Edit) plan(render func(Editor, context.Context) (inspect.Edited, error), chart bool) tea.Cmd {
	if e.draft.busy {
		return nil
	}
	e.draft.busy, e.draft.chart = true, chart
	e.close()
	ctx, editor, d := e.ctx, e.editor, e.draft
	return tea.Batch(e.Say(theme.Quiet, "rendering the edit"), func() tea.Msg {
		result, err := render(editor, ctx)
		return planned{d, result, err}
	})
}

// show opens the review of a planned edit, unless the draft was discarded.
func (e *Edit) show(msg planned) {
	if msg.draft != e.draft {
		return
	}
	e.Flash.Text = ""
	e.draft.busy, e.draft.result, e.draft.err = false, msg.result, msg.err
	e.Home()
	e.Modes.OpenBelow(e)
}

func (e *Edit) apply() tea.Cmd {
	e.close()
	return e.Send(event.Command{Name: event.Edit, Edit: e.draft.result.Edit})
}

func (e *Edit) whyNotApply() string {
	if e.draft.err == nil && e.draft.result.Empty {
		return "nothing to apply"
	}
	return e.whyInvalid()
}

func (e *Edit) whyNotSave() string {
	if !e.draft.edited {
		return "only the chart changed; there are no edited values to save"
	}
	return e.whyInvalid()
}

func (e *Edit) whyInvalid() string {
	if e.draft.err != nil {
		return "the edit is invalid; press e to edit it again"
	}
	return ""
}

func (e *Edit) save() tea.Cmd {
	ctx, cancel := context.WithTimeout(e.ctx, valuesTimeout)
	defer cancel()
	values, err := e.editor.UserValues(ctx, e.draft.values, e.draft.all)
	path := ""
	if err == nil {
		path, err = e.editor.Save(values)
	}
	if err != nil {
		return e.Say(theme.Bad, "cannot save the values: "+err.Error())
	}
	return e.Say(theme.Good, "values saved to "+path)
}

// checkEvery is how often the chart's directory is checked.
const checkEvery = 2 * time.Second

// pollChart schedules a check of the chart's directory, if the run can be edited.
func (e *Edit) pollChart() tea.Cmd {
	if e.Polling || !e.CanEdit() {
		return nil
	}
	e.Polling = true
	ctx, editor := e.ctx, e.editor
	return func() tea.Msg {
		if !screen.Sleep(ctx, checkEvery) {
			return nil
		}
		return ChartChecked(editor.ChartChanged())
	}
}

// chartChecked shows a message the first time that the directory has changed.
func (e *Edit) chartChecked(changed bool) tea.Cmd {
	was := e.changed
	e.Polling, e.changed = false, changed
	if !was && changed && e.CanEdit() {
		return tea.Batch(e.pollChart(), e.Say(theme.Stopped, "chart changed on disk; press E to render it again"))
	}
	return e.pollChart()
}
