package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// Options are for Display.Operation and Summary.
type Options struct {
	Style
	// Width is the number of columns for the summary, 0 for no limit.
	Width int
	// Next, if set, returns commands that the reader may want to run next.
	Next func(*event.State) []string
	// Steer is the start of commands that steer the run from another terminal, "lockstep ctl shop",
	// or "".
	Steer string
	// Record, if set, returns the name of the run's record, or "".
	Record func() string
	// OmitReply, if set, reports whether the log leaves out the reply to a command, because something else prints it.
	OmitReply func(event.Event) bool
}

// textLog writes an operation as a log: the plan, lines about events, the summary. Warnings go to a
// separate writer. It ignores write errors.
type textLog struct {
	out, warnings io.Writer
	opts          Options
	state         event.State
	reported      map[objectKey][]string // the causes and evidence of failed objects that were written
	regressed     map[objectKey]regression
	skipped       skippedGroups       // not yet written
	planned       map[string]bool     // phases that have been written
	warned        map[string]bool     // messages of warnings that have been written
	noReturn      map[string]bool     // reasons of points of no return that have been written, of all releases of a stack
	awaited       map[objectKey]bool  // objects outside the release for which a group waits
	slow          map[event.Unit]bool // groups that were reported as slow
	nextSlow      time.Time           // no other group becomes slow before this time
	lastLog       logKey
	blankLine     bool // to write before the next line
	// firstPause is the pause before the first group, until the plan is written.
	firstPause *event.Event

	scope        string              // the release of a stack, printed in front of each line
	stackStarted time.Time           // if scope is set
	scopes       map[string]*textLog // the logs of a stack's releases
}

// regression says whether an object is no longer ready although its group was, and how often the log has said so.
type regression struct {
	now   bool
	count int
}

type objectKey struct {
	phase, group string
	object       plan.Object
}

// logKey is the log of one container.
type logKey struct {
	objectKey
	container string
}

func newTextLog(out, warnings io.Writer, opts Options) *textLog {
	return &textLog{
		out: styled(out, opts.Style), warnings: styled(warnings, opts.Style), opts: opts,
		reported: map[objectKey][]string{}, regressed: map[objectKey]regression{}, planned: map[string]bool{}, noReturn: map[string]bool{}, warned: map[string]bool{}, slow: map[event.Unit]bool{}, awaited: map[objectKey]bool{}, scopes: map[string]*textLog{},
	}
}

// Consume writes an event.
func (t *textLog) Consume(e event.Event) {
	if e.Scope != "" {
		t.state.Apply(e)
		t.releaseEvent(e)
		return
	}
	before := t.previousStatus(e)
	t.state.Apply(e)
	if e.Kind != event.KindLog {
		t.lastLog = logKey{}
	}
	if !t.skipped.accepts(e) {
		t.flushSkipped()
	}
	t.reportSlow(e)
	if t.firstPause != nil && e.Kind != event.KindPlan && e.Kind != event.KindWarning {
		t.writeFirstPause()
	}
	switch {
	case e.Kind == event.KindRun && e.Status == event.Paused && len(t.state.Phases) == 0:
		t.firstPause = &e
	case t.scope != "" && e.Kind == event.KindOperation:
		t.releaseOperation(e)
	case t.scope != "" && e.Kind == event.KindPlan: // the stack's plan has the release
	default:
		t.writeEvent(e, before)
	}
}

// writeFirstPause writes that the run is paused before its first group, if that waits for the plan.
func (t *textLog) writeFirstPause() {
	if e := t.firstPause; e != nil {
		t.firstPause = nil
		t.writeEvent(*e, "")
	}
}

// previousStatus returns the status that the breakpoint or the group of an event had before, or "".
func (t *textLog) previousStatus(e event.Event) event.Status {
	u := e.Unit()
	g := t.state.Find(u.Phase, u.Group)
	switch {
	case e.Kind == event.KindBreakpoint && t.state.HasBreakpoint(u) && !t.state.PausesBefore(u):
		return event.Disabled
	case e.Kind == event.KindBreakpoint, g == nil:
		return ""
	}
	return g.Status
}

// writeEvent writes the lines about an event. before is the result of previousStatus.
func (t *textLog) writeEvent(e event.Event, before event.Status) {
	switch e.Kind {
	case event.KindOperation:
		t.operation(e)
	case event.KindPlan:
		t.plan(e.Phases)
		t.writeFirstPause()
	case event.KindRun:
		t.run(e)
	case event.KindGroup:
		t.group(e, before)
	case event.KindObject:
		t.object(e)
	case event.KindCommand:
		// The effect of an accepted command without a message has a line anyway.
		omit := t.opts.OmitReply != nil && t.opts.OmitReply(e)
		if !omit && e.Answers != event.InternalID && (e.Status == event.Refused || e.Message != "") {
			t.line(e, e.Status, commandReply(e))
		}
	case event.KindBreakpoint:
		word := string(e.Status) + " on"
		switch {
		case e.Status == event.Cleared:
			word = "removed from"
		case e.Status == event.Set && before == event.Disabled:
			word = "enabled on"
		}
		t.line(e, e.Status, "breakpoint "+word+" "+e.Group)
	case event.KindApproval:
		if e.Approval == nil { // what the group will change
			t.quote(e.Lines)
			break
		}
		t.line(e, e.Status, phrase.Approved(e.Group, *e.Approval))
	case event.KindNoReturn:
		if !t.noReturn[e.Message] {
			t.noReturn[e.Message] = true
			t.line(e, noReturn, phrase.NoReturnPassed(e.Group, e.Message))
		}
	case event.KindWarning:
		if e.Code == event.PlanWarning && t.warned[e.Message] { // an edited revision has it, too
			break
		}
		t.warned[e.Message] = true
		writeWarning(t.warnings, e, t.opts.Style)
	case event.KindWaiting:
		t.waiting(e)
	case event.KindServer:
		t.line(e, e.Status, e.Message)
	case event.KindDiagnosis:
		t.diagnosis(e)
	case event.KindDrift:
		if len(e.Drift) > 0 {
			t.line(e, event.Degraded, objectIn(&t.state, e, e.Object)+" "+phrase.Drift(e.Drift))
		}
	case event.KindLog:
		t.log(e)
	}
}

// line writes one line: the time since the start, the glyph of a status, the text.
func (t *textLog) line(e event.Event, st event.Status, text string) {
	if t.blankLine {
		fmt.Fprintln(t.out)
		t.blankLine = false
	}
	start, text := t.state.Started, clean(text)
	if t.scope != "" {
		start, text = t.stackStarted, t.opts.render(theme.Accent, clean(t.scope))+"  "+text
	}
	elapsed := t.opts.render(theme.Quiet, alignRight(format.Duration(e.Time.Sub(start))))
	fmt.Fprintln(t.out, elapsed, t.opts.glyph(st), text)
}

// quote writes details below a line.
func (t *textLog) quote(lines []string) {
	for _, l := range lines {
		fmt.Fprintln(t.out, strings.Repeat(" ", 9), t.opts.bar(), clean(l))
	}
}

func (t *textLog) operation(e event.Event) {
	switch e.Status {
	case event.Running:
		if e.Seq > 1 { // an edited revision, or the next pod of a run in the cluster
			t.line(e, event.Replacing, cmp.Or(e.Message, "the run resumes in another pod"))
			clear(t.reported)
			clear(t.planned)
			clear(t.slow)
			clear(t.regressed)
			t.nextSlow = time.Time{}
		}
		fmt.Fprintln(t.out, headline(t.state.Operation))
		t.blankLine = true
	case event.RollingBack:
		text, reason := rollingBackTo(e.Operation), e.Message
		if t.state.Operation.IsStack() {
			text = "rolling back all changed releases"
		}
		if t.state.Operation.IsStack() || len(t.state.Roots()) > 0 { // reported with the failure
			reason = ""
		}
		t.line(e, event.RollingBack, format.WithReason(text, reason))
	default:
		fmt.Fprintln(t.out)
		Summary(t.out, &t.state, t.opts)
	}
}

// rollingBackTo says what a rollback does: "rolling back to revision 3", "rolling back (uninstall)".
func rollingBackTo(op *event.Operation) string {
	switch {
	case op == nil:
		return "rolling back"
	case op.ToRevision > 0:
		return fmt.Sprintf("rolling back to revision %d", op.ToRevision)
	}
	return "rolling back (" + op.Name + ")"
}

// headline returns the first line of an operation.
func headline(op event.Operation) string {
	timeout := ""
	if op.Timeout > 0 {
		timeout = "timeout " + format.Timeout(op.Timeout)
		if op.ReadinessTimeout > 0 {
			timeout += " (" + format.Timeout(op.ReadinessTimeout) + " per object)"
		}
	}
	title := op.Title()
	if op.IsStack() { // the helmfile is often named like the stack
		if op.Chart != "" && op.Chart != op.Release {
			title += " (" + op.Chart + ")"
		}
		op.Chart = ""
	}
	target := format.Target(op)
	if op.ToRevision > 0 && op.Revision > 0 { // the revision is the last part
		target[len(target)-1] += fmt.Sprintf(" (a rollback to revision %d)", op.ToRevision)
	}
	parts := append(target, format.NonEmpty(timeout)...)
	return clean(format.WithReason(title, strings.Join(parts, ", ")))
}

func (t *textLog) run(e event.Event) {
	if g := t.state.HeldRelease(); g != nil { // the stack itself is only paused
		e.Status, e.Group = event.Held, g.ID
	}
	text, reason, commands := t.opts.word(e.Status), e.Message, ""
	switch e.Status {
	case event.Running:
		text = "resumed"
	case event.Paused:
		commands = "step|resume|abort"
		if e.Code == event.Unapproved || t.state.UnapprovedRelease() != nil { // step and resume are refused
			commands = "approve|abort"
		}
	case event.Held:
		// The screen calls accept re-check and give-up stop here; ctl has the names of commands.
		text, commands = "held on failure", "retry|accept|give-up|abort"
		reason = cmp.Or(e.Group, reason) // its own line has the rest
	}
	t.line(e, e.Status, withOrigin(text, reason, e.Origin))
	if t.opts.Steer != "" && commands != "" {
		t.line(e, e.Status, "control it with: "+t.opts.Steer+" "+commands)
	}
}

// withOrigin describes the status of a run: "paused: breakpoint db", "paused by lockstep ctl", "aborting (ctrl-c)".
func withOrigin(status, reason string, o *event.Origin) string {
	switch {
	case o == nil || o.Via == "" || o.Why != "":
		return format.WithReason(status, reason)
	case o.Command == event.Pause:
		return status + " " + phrase.By(*o)
	}
	return status + " (" + o.Via + ")"
}

func (t *textLog) log(e event.Event) {
	if g := t.state.Find(e.Phase, e.Group); g != nil && g.Step != nil && !g.Step.ShowLogs {
		return
	}
	key := logKey{objectKey{phase: e.Phase, group: e.Group}, e.Message}
	if e.Object != nil {
		key.object = *e.Object
	}
	if key != t.lastLog {
		t.line(e, "", t.logTitle(e))
	}
	t.lastLog = key
	t.quote(e.Lines)
}

// logTitle names the source of log lines: "log of Job/db (pod …-x7k2p, container main)".
func (t *textLog) logTitle(e event.Event) string {
	if e.Object == nil {
		return format.WithReason("log of "+e.Group, e.Message)
	}
	text := "log of " + e.Object.String()
	switch from := e.Source; {
	case from == nil && e.Object.Kind == "Hook":
		return "output of " + e.Group
	case from == nil: // an old record
		return format.WithReason(text, e.Message)
	case e.Object.Kind == "Pod" && e.Object.Name == from.Pod:
		return fmt.Sprintf("%s (container %s)", text, from.Container)
	default:
		pod := from.Pod
		if rest, ok := strings.CutPrefix(pod, e.Object.Name+"-"); ok {
			pod = t.opts.Theme.Lines.Ellipsis + "-" + rest
		}
		return fmt.Sprintf("%s (pod %s, container %s)", text, pod, from.Container)
	}
}
