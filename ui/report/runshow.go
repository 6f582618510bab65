package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
	d := RunDetails{Run: r.Run, Cut: r.Incomplete(), Path: []PathStep{}, Failures: failuresOf(s)}
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

func (r *Record) form() any { return r.Details() }

func (r *Record) text(to Stream) string {
	var b strings.Builder
	d, style := r.Details(), to.Style
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
		b.WriteString("\n" + style.render(theme.Strong, "critical path") + "\n" + strings.Join(bars(r.State, path, style, to.Width), "\n") + "\n")
		line("on an unlimited machine: " + seconds(d.Unlimited))
	}
	if c := d.Costliest; c != nil && c.Saves > 0.05 {
		line(fmt.Sprintf("the gate that cost most: %s; ready at once, it would have saved %s", c.name, seconds(c.Saves)))
	}
	return b.String()
}

// headline says what was done and how that ended.
func (r *Record) headline(style Style) string {
	if r.Outcome == Killed {
		return clean(fmt.Sprintf("%s %s cut off after %s (namespace %s)", r.Operation, r.Release, r.took(), r.Namespace))
	}
	return verdict(r.State, style)
}

func seconds(s float64) string { return Seconds(time.Duration(s * float64(time.Second))) }

// pad sets text to the right of a column.
func pad(text string, width int) string { return fmt.Sprintf("%*s", width, text) }

// RunsDiff is how the groups of two runs differ in time.
type RunsDiff struct {
	A      Run         `json:"a"`
	B      Run         `json:"b"`
	Groups []GroupDiff `json:"groups"`
}

// GroupDiff is a group in two runs. Seconds are missing where it did not run.
type GroupDiff struct {
	Phase string `json:"phase"`
	Group string `json:"group"`
	// Change is slower, faster, same, new or gone.
	Change string       `json:"change"`
	A      *float64     `json:"aSeconds,omitempty"`
	B      *float64     `json:"bSeconds,omitempty"`
	Was    event.Status `json:"aStatus,omitempty"`
	Is     event.Status `json:"bStatus,omitempty"`
	name   string
}

// What became of a group from one run to another.
const (
	slower = "slower"
	faster = "faster"
	alike  = "same"
	isNew  = "new"
	isGone = "gone"
)

// DiffRuns compares two runs: what is slower comes first, by how much; then what is
// faster, new and gone, and what took about as long.
func DiffRuns(a, b *Record) RunsDiff {
	d := RunsDiff{A: a.Run, B: b.Run, Groups: []GroupDiff{}}
	was, is := ranGroups(a.State), ranGroups(b.State)
	for unit, g := range is {
		d.Groups = append(d.Groups, diffGroup(b.State, was[unit], g))
	}
	for unit, g := range was {
		if is[unit] == nil {
			d.Groups = append(d.Groups, diffGroup(a.State, g, nil))
		}
	}
	order := []string{slower, faster, isNew, isGone, alike}
	slices.SortFunc(d.Groups, func(x, y GroupDiff) int {
		return cmp.Or(slices.Index(order, x.Change)-slices.Index(order, y.Change), cmp.Compare(math.Abs(y.delta()), math.Abs(x.delta())),
			cmp.Compare(x.Phase, y.Phase), cmp.Compare(x.Group, y.Group))
	})
	return d
}

// ranGroups are the groups that have begun.
func ranGroups(s *event.State) map[event.Unit]*event.GroupState {
	out := map[event.Unit]*event.GroupState{}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if !g.Started.IsZero() {
				out[g.Unit()] = g
			}
		}
	}
	return out
}

func diffGroup(s *event.State, was, is *event.GroupState) GroupDiff {
	of := is
	if of == nil {
		of = was
	}
	d := GroupDiff{Phase: of.Phase, Group: of.ID, name: unitName(s, of)}
	if was != nil {
		took := forecast.Took(was).Seconds()
		d.A, d.Was = &took, was.Status
	}
	if is != nil {
		took := forecast.Took(is).Seconds()
		d.B, d.Is = &took, is.Status
	}
	switch {
	case was == nil:
		d.Change = isNew
	case is == nil:
		d.Change = isGone
	case !forecast.Differ(forecast.Took(was), forecast.Took(is)):
		d.Change = alike
	case d.delta() > 0:
		d.Change = slower
	default:
		d.Change = faster
	}
	return d
}

// delta is how much longer a group took than before.
func (d *GroupDiff) delta() float64 {
	switch {
	case d.A == nil && d.B == nil:
		return 0
	case d.A == nil:
		return *d.B
	case d.B == nil:
		return -*d.A
	}
	return *d.B - *d.A
}

func (d RunsDiff) text(to Stream) string {
	var b strings.Builder
	style := to.Style
	var rows [][]string
	for _, r := range []*Run{&d.A, &d.B} {
		rows = append(rows, []string{clean(r.Name), r.when(), clean(r.Operation + " " + r.Release), style.outcome(r.ending()), r.took()})
	}
	b.WriteString(strings.Join(tableIn(rows, to.Width, 1), "\n") + "\n\n")
	rows = nil
	same := 0
	for _, g := range d.Groups {
		if g.Change == alike && g.Was == g.Is {
			same++
			continue
		}
		rows = append(rows, []string{g.Change, clean(g.name), g.times(style), g.statuses(style)})
	}
	for _, l := range table(rows) {
		b.WriteString(l + "\n")
	}
	if same > 0 {
		b.WriteString(style.render(theme.Quiet, "  "+Count(same, "group")+" took about as long") + "\n")
	}
	if total := d.B.Seconds - d.A.Seconds; math.Abs(total) >= 0.5 { // no two runs take exactly as long
		b.WriteString(style.render(theme.Quiet, "  in all "+signed(total)) + "\n")
	}
	return b.String()
}

func signed(s float64) string {
	if s < 0 {
		return "-" + seconds(-s)
	}
	return "+" + seconds(s)
}

// times are how long a group took in both runs, and the difference.
func (d *GroupDiff) times(style Style) string {
	switch {
	case d.A == nil:
		return seconds(*d.B)
	case d.B == nil:
		return seconds(*d.A)
	}
	arrow := "→"
	if style.Theme.ASCII {
		arrow = "->"
	}
	return fmt.Sprintf("%s %s %s (%s)", seconds(*d.A), arrow, seconds(*d.B), signed(d.delta()))
}

// statuses say how a group ended where that differs.
func (d *GroupDiff) statuses(style Style) string {
	if d.Was == d.Is || d.Was == "" || d.Is == "" {
		return ""
	}
	return style.word(d.Is) + ", was " + style.word(d.Was)
}

// How wide the whole of a run is drawn: where it is not known how wide the terminal
// is, at the least, and at the most.
const (
	barRoom  = 40
	leastBar = 12
	mostBar  = 80
)

// longestPath is how many groups of a path are named; of longer ones those in
// the middle are counted.
const longestPath = 16

// bars draws the steps of a path below each other, each from when it began to when
// it was over: the part in which the cluster was waited for, and what was left.
// They take what names and times leave of a width.
func bars(s *event.State, path []forecast.Step, style Style, wide int) []string {
	room := barRoom
	if wide > 0 {
		taken := 0
		for _, p := range path {
			taken = max(taken, width(clean(unitName(s, p.Group)))+2+2+7+2)
		}
		room = min(max(wide-1-taken, leastBar), mostBar)
	}
	var rows [][]string
	for n, b := range forecast.Bars(path, room) {
		bar := strings.Repeat(" ", b.From) + strings.Repeat(style.Theme.Lines.Rest, b.Sent) + strings.Repeat(style.Theme.Lines.Bar, b.Waited)
		if style.Theme.Still { // it is read out
			bar = ""
		}
		rows = append(rows, []string{clean(unitName(s, path[n].Group)), pad(Seconds(path[n].Took), 7), bar})
	}
	return folded(table(rows), style)
}

// folded are the lines of a path, those in the middle of a long one counted.
func folded(lines []string, style Style) []string {
	over := len(lines) - longestPath
	if over <= 0 {
		return lines
	}
	dots := "  " + style.Theme.Lines.Ellipsis + " " + Count(over, "group")
	return append(append(lines[:longestPath/2:longestPath/2], dots), lines[len(lines)-longestPath/2:]...)
}

// undoing reports whether a phase is part of a rollback of the operation.
func undoing(p *event.PhaseState) bool { return strings.HasPrefix(p.Name, event.RollbackPrefix) }
