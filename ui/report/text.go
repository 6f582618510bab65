package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lockstep/engine"
	"lockstep/theme"
)

// Options are what Text and Summary need besides events.
type Options struct {
	Style
	// Brief leaves the diagnosis of what failed out of the summary, all but
	// its first line.
	Brief bool
	// Next returns what the reader may want to type next, one command a line.
	Next func(*engine.State) []string
	// Record is the name under which the run can be replayed, or empty.
	Record func() string
}

// Text writes an operation for people who read a log: the plan, one line per
// thing that happens, the summary. Warnings go to a writer of their own. It
// goes on quietly where a writer fails.
type Text struct {
	out, warnings io.Writer
	opts          Options
	state         engine.State
	told          map[toldKey]bool // failed objects that have a line
	planned       map[string]bool  // phases that have been printed
	lastLog       toldKey
	quiet         bool // the last line belongs to the plan
}

type toldKey struct {
	phase, group string
	object       engine.Object
}

// NewText returns a Text that writes to out and warnings.
func NewText(out, warnings io.Writer, opts Options) *Text {
	return &Text{out: out, warnings: warnings, opts: opts, told: map[toldKey]bool{}, planned: map[string]bool{}}
}

// Consume writes what there is to say about an event.
func (t *Text) Consume(e engine.Event) {
	var was engine.Status
	if g := t.state.Find(e.Phase, e.Group); g != nil {
		was = g.Status
	}
	t.state.Apply(e)
	if e.Kind != engine.KindLog {
		t.lastLog = toldKey{}
	}
	switch e.Kind {
	case engine.KindOperation:
		t.operation(e)
	case engine.KindPlan:
		t.plan(e.Phases)
	case engine.KindRun:
		t.run(e)
	case engine.KindGroup:
		t.group(e, was)
	case engine.KindObject:
		t.object(e)
	case engine.KindCommand:
		t.command(e)
	case engine.KindBreakpoint:
		t.line(e, e.Status, "breakpoint "+string(e.Status)+" on "+e.Group)
	case engine.KindWarning:
		t.warning(e)
	case engine.KindWaiting:
		t.line(e, engine.InProgress, "waiting for "+place(e.Object, e.Group)+": "+e.Message)
	case engine.KindDiagnosis:
		t.diagnosis(e)
	case engine.KindLog:
		t.log(e)
	}
}

// line writes one line: the time since the start, the sign of a status, text.
func (t *Text) line(e engine.Event, st engine.Status, text string) {
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

func (t *Text) operation(e engine.Event) {
	switch e.Status {
	case engine.Running:
		fmt.Fprintln(t.out, headline(t.state.Operation))
		t.quiet = true
	case engine.RollingBack:
		text := "rolling back"
		switch {
		case e.Operation == nil:
		case e.Operation.ToRevision > 0:
			text += fmt.Sprintf(" to revision %d", e.Operation.ToRevision)
		default:
			text += " (" + e.Operation.Name + ")"
		}
		t.line(e, engine.RollingBack, withReason(text, e.Message))
	default:
		fmt.Fprintln(t.out)
		t.opts.Brief = true // the diagnosis stands above
		Summary(t.out, &t.state, t.opts)
	}
}

// headline names the operation with all that decides where it goes.
func headline(op engine.Operation) string {
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

func (t *Text) run(e engine.Event) {
	text, why := t.opts.word(e.Status), e.Message
	switch e.Status {
	case engine.Running:
		text = "going on"
	case engine.Held:
		text = "held on failure"
		why, _, _ = strings.Cut(why, ": ") // the group; its own line has said the rest
	}
	t.line(e, e.Status, withReason(text, why))
}

func (t *Text) command(e engine.Event) {
	text := string(e.Command)
	if e.Group != "" {
		text += " " + e.Group
	}
	t.line(e, e.Status, withReason(text+" "+string(e.Status), e.Message))
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

func (t *Text) warning(e engine.Event) {
	text := e.Message
	if e.Object != nil && !strings.Contains(text, e.Object.Name) {
		text = e.Object.String() + ": " + text
	}
	if e.Rule != "" {
		text += " (" + e.Rule + ")"
	}
	fmt.Fprintln(t.warnings, t.opts.render(theme.Stopped, "warning:"), clean(text))
}

func (t *Text) diagnosis(e engine.Event) {
	if g := t.state.Find(e.Phase, e.Group); g != nil && !g.Status.Over() { // it may still come
		t.line(e, engine.InProgress, withReason(place(e.Object, e.Group), e.Message))
		return
	}
	t.line(e, engine.Failed, withReason(place(e.Object, e.Group), e.Message))
	t.quote(e.Lines)
}

func (t *Text) log(e engine.Event) {
	key := toldKey{phase: e.Phase, group: e.Group}
	if e.Object != nil {
		key.object = *e.Object
	}
	if key != t.lastLog {
		t.line(e, "", "log of "+place(e.Object, e.Group))
	}
	t.lastLog = key
	t.quote(e.Lines)
}
