package report

import (
	"fmt"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// RunDetails are what is to be known of a run.
type RunDetails struct {
	Run
	// Cut says why the record does not go to the end of the run.
	Cut string `json:"cut,omitempty"`
	// Path is the critical path, in the order in which it ran.
	Path []PathStep `json:"criticalPath"`
	// Unlimited is how long the run would have taken on a machine without limits:
	// see forecast.Waits.
	Unlimited float64 `json:"unlimitedSeconds"`
	// Costliest is the gate that made the run longest, nil where none did.
	Costliest *CostlyGate `json:"costliestGate,omitempty"`
	// Failures are those that follow from no other.
	Failures []RunFailure `json:"failures,omitempty"`
}

// PathStep is a group on the critical path. Start counts from the beginning of the
// run; Waited is the part of Seconds that the cluster took.
type PathStep struct {
	Phase   string  `json:"phase"`
	Group   string  `json:"group"`
	Start   float64 `json:"start"`
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"`
}

// CostlyGate is a group that others wait for, and what would have been saved had it
// been ready at once.
type CostlyGate struct {
	Phase string  `json:"phase"`
	Group string  `json:"group"`
	Saves float64 `json:"savesSeconds"`
	name  string
}

// RunFailure is an object that failed, or a group where it is not known which.
type RunFailure struct {
	Phase    string       `json:"phase"`
	Group    string       `json:"group"`
	Object   *plan.Object `json:"object,omitempty"`
	Message  string       `json:"message,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`
}

// Details reckons them from a record.
func (r *Record) Details() RunDetails {
	s := r.State
	waits := forecast.Waits(s)
	d := RunDetails{Run: r.Run, Cut: r.Cut(), Path: []PathStep{}, Failures: failuresOf(s)}
	for _, p := range forecast.Path(s) {
		d.Path = append(d.Path, PathStep{p.Group.Phase, p.Group.ID, p.Start.Seconds(), p.Took.Seconds(), p.Waited.Seconds()})
	}
	d.Unlimited = forecast.Length(s, func(g *event.GroupState) time.Duration { return waits[g.Unit()] }).Seconds()
	if g, saved := forecast.Costliest(s); g != nil {
		d.Costliest = &CostlyGate{g.Phase, g.ID, saved.Seconds(), unitName(s, g)}
	}
	return d
}

// failuresOf are the failures of a run that follow from no other.
func failuresOf(s *event.State) []RunFailure {
	var out []RunFailure
	for _, r := range s.Roots() {
		f := RunFailure{Phase: r.Group.Phase, Group: r.Group.ID, Message: r.Group.Message, Cause: r.Cause, Evidence: r.Evidence}
		if r.Object != nil {
			f.Object = &r.Object.Object
		}
		out = append(out, f)
	}
	return out
}

func (m machine) Run(r *Record) error { return encode(m.out, r.Details()) }

func (h human) Run(r *Record) error {
	var b strings.Builder
	d, style := r.Details(), h.out.Style
	line := func(text string) { b.WriteString("  " + clean(text) + "\n") }
	b.WriteString(style.glyph(event.Status(r.ending())) + " " + r.headline(style) + "\n")
	why := r.Message
	if len(d.Failures) > 0 { // which say it
		why = r.State.Outcome
	}
	if why != "" {
		line(why)
	}
	if d.Cut != "" {
		line(d.Cut)
	}
	line(fmt.Sprintf("%s, lockstep replay %s", r.when(), r.Name))
	if len(d.Failures) > 0 {
		b.WriteString("\n")
		tellRoots(&b, r.State, style, len(d.Failures), len(d.Failures)*event.MostEvidence)
	}
	if path := forecast.Path(r.State); len(path) > 0 {
		b.WriteString("\n" + style.render(theme.Strong, "critical path") + "\n" + strings.Join(bars(r.State, path, style, h.out.Width), "\n") + "\n")
		line("on an unlimited machine: " + seconds(d.Unlimited))
	}
	if c := d.Costliest; c != nil && c.Saves > 0.05 {
		line(fmt.Sprintf("the gate that cost most: %s; ready at once, it would have saved %s", c.name, seconds(c.Saves)))
	}
	return write(h.text, b.String())
}

// headline says what was done and how that ended.
func (r *Record) headline(style Style) string {
	if r.Outcome == CutOff {
		return clean(fmt.Sprintf("%s %s cut off after %s (namespace %s)", r.Operation, r.Release, r.took(), r.Namespace))
	}
	return verdict(r.State, style)
}

func seconds(s float64) string { return Seconds(time.Duration(s * float64(time.Second))) }

// pad sets text to the right of a column.
func pad(text string, width int) string { return fmt.Sprintf("%*s", width, text) }
