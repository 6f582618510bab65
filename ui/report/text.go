package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Options are what Text and Summary need besides events.
type Options struct {
	Style
	// Width is how many columns the summary may take, 0 for any number.
	Width int
	// Next returns what the reader may want to type next, one command a line.
	Next func(*event.State) []string
	// Steer is how a run that waits for somebody is steered from elsewhere, or
	// empty.
	Steer string
	// Record is the name under which the run can be replayed, or empty.
	Record func() string
}

// Text writes an operation for people who read a log: the plan, one line per
// thing that happens, the summary. Warnings go to a writer of their own. It
// goes on quietly where a writer fails.
type Text struct {
	out, warnings io.Writer
	opts          Options
	state         event.State
	told          map[toldKey]why     // what has been told of objects that failed
	skipped       skipped             // groups that were never started, and have no line yet
	planned       map[string]bool     // phases that have been printed
	slow          map[event.Unit]bool // groups of which that has been told
	slowAgain     time.Time           // until when there can be no others
	lastLog       logKey
	quiet         bool // the last line belongs to the plan
}

// why is what a failed object has a line about, and lines below that.
type why struct {
	cause string
	lines []string
}

type toldKey struct {
	phase, group string
	object       plan.Object
}

// logKey is a log: that of a container of a pod of an object.
type logKey struct {
	toldKey
	container string
}

// NewText returns a Text that writes to out and warnings.
func NewText(out, warnings io.Writer, opts Options) *Text {
	return &Text{out: styled(out, opts.Style), warnings: styled(warnings, opts.Style), opts: opts, told: map[toldKey]why{}, planned: map[string]bool{}, slow: map[event.Unit]bool{}}
}

// Consume writes what there is to say about an event.
func (t *Text) Consume(e event.Event) {
	var was event.Status
	if g := t.state.Find(e.Phase, e.Group); g != nil {
		was = g.Status
	}
	t.state.Apply(e)
	if e.Kind != event.KindLog {
		t.lastLog = logKey{}
	}
	if !t.skipped.takes(e) {
		t.flushSkipped()
	}
	t.slowGroups(e)
	switch e.Kind {
	case event.KindOperation:
		t.operation(e)
	case event.KindPlan:
		t.plan(e.Phases)
	case event.KindRun:
		t.run(e)
	case event.KindGroup:
		t.group(e, was)
	case event.KindObject:
		t.object(e)
	case event.KindCommand:
		t.command(e)
	case event.KindBreakpoint:
		t.line(e, e.Status, "breakpoint "+string(e.Status)+" on "+e.Group)
	case event.KindWarning:
		t.warning(e)
	case event.KindWaiting:
		t.line(e, event.InProgress, "waiting for "+place(e.Object, e.Group)+": "+t.waiting(e)+t.outlook(e.Time))
	case event.KindServer:
		t.line(e, e.Status, e.Message)
	case event.KindDiagnosis:
		t.diagnosis(e)
	case event.KindLog:
		t.log(e)
	}
}

// line writes one line: the time since the start, the sign of a status, text.
func (t *Text) line(e event.Event, st event.Status, text string) {
	if t.quiet {
		fmt.Fprintln(t.out)
		t.quiet = false
	}
	at := fmt.Sprintf("%7s", Seconds(e.Time.Sub(t.state.Started)))
	fmt.Fprintln(t.out, t.opts.render(theme.Quiet, at), t.opts.glyph(st), clean(text))
}

// quote writes text of several lines below the line it belongs to.
func (t *Text) quote(lines []string) {
	for _, l := range lines {
		fmt.Fprintln(t.out, strings.Repeat(" ", 9), t.opts.bar(), clean(l))
	}
}

func (t *Text) operation(e event.Event) {
	switch e.Status {
	case event.Running:
		if e.Seq > 1 { // an edited revision begins
			t.line(e, event.Replacing, e.Message)
			clear(t.told)
			clear(t.planned)
			clear(t.slow)
			t.slowAgain = time.Time{}
		}
		fmt.Fprintln(t.out, headline(t.state.Operation))
		t.quiet = true
	case event.RollingBack:
		text := "rolling back"
		switch {
		case e.Operation == nil:
		case e.Operation.ToRevision > 0:
			text += fmt.Sprintf(" to revision %d", e.Operation.ToRevision)
		default:
			text += " (" + e.Operation.Name + ")"
		}
		reason := e.Message
		if len(t.state.Roots()) > 0 { // which has just been told
			reason = ""
		}
		t.line(e, event.RollingBack, withReason(text, reason))
	default:
		fmt.Fprintln(t.out)
		Summary(t.out, &t.state, t.opts)
	}
}

// headline names the operation with all that decides where it goes.
func headline(op event.Operation) string {
	parts := []string{}
	add := func(what, value string) {
		if value != "" {
			parts = append(parts, what+" "+value)
		}
	}
	add("chart", op.Chart)
	add("namespace", op.Namespace)
	add("context", op.Context)
	if op.Revision > 0 {
		add("revision", fmt.Sprint(op.Revision))
	}
	if op.ToRevision > 0 {
		add("back to revision", fmt.Sprint(op.ToRevision))
	}
	if op.Timeout > 0 {
		add("timeout", shortDuration(op.Timeout))
	}
	head := clean(op.Name + " " + op.Release)
	if len(parts) == 0 {
		return head
	}
	return head + ": " + clean(strings.Join(parts, ", "))
}

// shortDuration writes 5m0s as 5m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (t *Text) run(e event.Event) {
	text, why := t.opts.word(e.Status), e.Message
	switch e.Status {
	case event.Running:
		text = "going on"
	case event.Held:
		text = "held on failure"
		why, _, _ = strings.Cut(why, ": ") // the group; its own line has said the rest
	}
	t.line(e, e.Status, withReason(text, why))
	switch {
	case t.opts.Steer == "":
	case e.Status == event.Held:
		t.line(e, e.Status, "steer with: "+t.opts.Steer+" retry, accept, give-up, abort")
	case e.Status == event.Paused:
		t.line(e, e.Status, "steer with: "+t.opts.Steer+" step, continue, abort")
	}
}

func (t *Text) command(e event.Event) {
	t.line(e, e.Status, answered(e))
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

func (t *Text) warning(e event.Event) {
	text := e.Message
	if e.Object != nil && !strings.Contains(text, e.Object.Name) {
		text = e.Object.String() + ": " + text
	}
	if e.Rule != "" {
		text += " (" + e.Rule + ")"
	}
	fmt.Fprintln(t.warnings, t.opts.render(theme.Stopped, "warning:"), clean(text))
}

func (t *Text) log(e event.Event) {
	key := logKey{toldKey{phase: e.Phase, group: e.Group}, e.Message}
	if e.Object != nil {
		key.object = *e.Object
	}
	if key != t.lastLog {
		t.line(e, "", withReason("log of "+place(e.Object, e.Group), e.Message))
	}
	t.lastLog = key
	t.quote(e.Lines)
}
