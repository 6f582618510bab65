package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// runDetails is what "runs show" prints.
type runDetails struct {
	Run
	// Incomplete is why the record does not cover the whole run, or "".
	Incomplete string `json:"cut,omitempty"`
	// Path is the critical path, in the order in which its groups ran.
	Path []pathStep `json:"criticalPath"`
	// BestTime would be the duration of the run in seconds if requests took no time, see
	// forecast.Waits. Groups that did not run count as instant.
	BestTime float64 `json:"unlimitedSeconds"`
	// Bottleneck is the group that delayed others most, or nil if none did or the run did not succeed.
	Bottleneck *bottleneck `json:"costliestGate,omitempty"`
	// Failures are the root failures.
	Failures []runFailure `json:"failures,omitempty"`
	// Fixed are the failures that were fixed.
	Fixed []format.FixedFailure `json:"mended,omitempty"`
}

// pathStep is a group on the critical path. Start counts from the start of the run; Waited
// is the part of Seconds that lockstep waited for the cluster.
type pathStep struct {
	Phase   string  `json:"phase"`
	Group   string  `json:"group"`
	Start   float64 `json:"start"`
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"`
}

// bottleneck is a group that others wait for. Saves is how much shorter the run would have been if
// the group had been ready instantly.
type bottleneck struct {
	Phase string  `json:"phase"`
	Group string  `json:"group"`
	Saves float64 `json:"savesSeconds"`
	name  string
}

// runFailure is a failure and the message of its group.
type runFailure struct {
	format.Failure
	Message string `json:"message,omitempty"`
}

func (r *Record) details() runDetails {
	s := r.State
	waits := forecast.Waits(s)
	d := runDetails{Run: r.Run, Incomplete: r.Incomplete(), Path: []pathStep{}, Fixed: format.FixedFailures(s)}
	for _, f := range format.Failures(s) {
		d.Failures = append(d.Failures, runFailure{f, f.State.Message})
	}
	for _, p := range forecast.Path(s) {
		d.Path = append(d.Path, pathStep{p.Group.Phase, p.Group.ID, p.Start.Seconds(), p.Took.Seconds(), p.Waited.Seconds()})
	}
	d.BestTime = forecast.TotalDuration(s, func(g *event.GroupState) time.Duration { return waits[g.Unit()] }).Seconds()
	if s.Status != event.Succeeded {
		return d // groups that did not run would count as instant
	}
	if g, saved := forecast.Bottleneck(s); g != nil {
		d.Bottleneck = &bottleneck{g.Phase, g.ID, saved.Seconds(), format.GroupName(s, g)}
	}
	return d
}

func (r *Record) jsonForm() any { return r.details() }

func (r *Record) text(to Stream) string {
	var b strings.Builder
	d, style := r.details(), to.Style
	line := func(text string) { b.WriteString("  " + clean(text) + "\n") }
	b.WriteString(style.glyph(r.Ending()) + " " + r.headline(style) + "\n")
	reason := r.Message
	if len(d.Failures) > 0 { // the failures below have the reason
		reason = r.State.Outcome
	}
	if reason != "" {
		line(reason)
	}
	if d.Incomplete != "" {
		line(d.Incomplete)
	}
	for _, f := range r.State.Fixed() {
		at := "fixed at " + f.Ready.Local().Format("15:04:05")
		if f.Again {
			at = "failed at " + f.Failed.Local().Format("15:04:05")
		}
		line(at + ": " + phrase.Fixed(f))
	}
	line(fmt.Sprintf("%s%s, %s replay %s", r.startTime(), format.WithPrefix(" by ", r.By), text.Program, r.Name))
	if len(d.Failures) > 0 {
		b.WriteString("\n")
		writeFailures(&b, format.Failures(r.State), style, len(d.Failures), len(d.Failures)*event.MaxEvidence)
	}
	if path := forecast.LongSteps(forecast.Path(r.State)); len(path) > 0 {
		b.WriteString("\n" + style.render(theme.Strong, forecast.PathHeading(r.State)) + "\n" + joinLines(bars(r.State, path, style, to.Width)))
		if r.State.Status == event.Succeeded {
			line("best possible time: " + format.Seconds(d.BestTime))
		}
	}
	if n := d.Bottleneck; n != nil && n.Saves > 0.05 {
		line(fmt.Sprintf("biggest bottleneck: %s (%s less if it were instant)", n.name, format.Seconds(n.Saves)))
	}
	return b.String()
}

// headline describes the run and how it ended.
func (r *Record) headline(style Style) string {
	how := map[string]string{Killed: "killed after", Unwatched: "in the cluster, watched for"}[r.Outcome]
	if how != "" {
		text := fmt.Sprintf("%s %s %s %s", r.Operation, r.Release, how, r.took())
		if r.Namespace != "" { // a stack has none
			text += " (namespace " + r.Namespace + ")"
		}
		return clean(text)
	}
	return verdict(r.State, "", style)
}

// runsDiff compares the groups of two runs.
type runsDiff struct {
	A      Run         `json:"a"`
	B      Run         `json:"b"`
	Groups []groupDiff `json:"groups"`
}

// groupDiff is a group in two runs. A or B is nil if the group did not start in that run.
type groupDiff struct {
	Phase string `json:"phase"`
	Group string `json:"group"`
	// Change is slower, faster, same, new or gone.
	Change  string       `json:"change"`
	A       *float64     `json:"aSeconds,omitempty"`
	B       *float64     `json:"bSeconds,omitempty"`
	StatusA event.Status `json:"aStatus,omitempty"`
	StatusB event.Status `json:"bStatus,omitempty"`
	name    string
}

// Changes of a group from one run to the other.
const (
	slower    = "slower"
	faster    = "faster"
	similar   = "same"
	newGroup  = "new"
	goneGroup = "gone"
)

// DiffRuns compares the groups of two runs. It leaves out groups that both runs planned but one of
// them never started. Slower groups come first, then faster, new, gone and similar ones.
func DiffRuns(a, b *Record) runsDiff {
	d := runsDiff{A: a.Run, B: b.Run, Groups: []groupDiff{}}
	before, after := startedGroups(a.State), startedGroups(b.State)
	for unit, g := range after {
		if before[unit] != nil || !planned(a.State, unit) {
			d.Groups = append(d.Groups, diffGroup(b.State, before[unit], g))
		}
	}
	for unit, g := range before {
		if after[unit] == nil && !planned(b.State, unit) {
			d.Groups = append(d.Groups, diffGroup(a.State, g, nil))
		}
	}
	order := []string{slower, faster, newGroup, goneGroup, similar}
	slices.SortFunc(d.Groups, func(x, y groupDiff) int {
		return cmp.Or(slices.Index(order, x.Change)-slices.Index(order, y.Change), cmp.Compare(math.Abs(y.delta()), math.Abs(x.delta())),
			cmp.Compare(x.Phase, y.Phase), cmp.Compare(x.Group, y.Group))
	})
	return d
}

// planned reports whether a run planned a group, whether or not the group started.
func planned(s *event.State, u event.Unit) bool { return s.Find(u.Phase, u.Group) != nil }

// startedGroups returns the groups that started.
func startedGroups(s *event.State) map[event.Unit]*event.GroupState {
	out := map[event.Unit]*event.GroupState{}
	for g := range s.GroupStates() {
		if !g.Started.IsZero() {
			out[g.Unit()] = g
		}
	}
	return out
}

func diffGroup(s *event.State, before, after *event.GroupState) groupDiff {
	g := cmp.Or(after, before)
	d := groupDiff{Phase: g.Phase, Group: g.ID, name: format.GroupTitle(s, g)}
	d.A, d.StatusA = result(before)
	d.B, d.StatusB = result(after)
	switch {
	case before == nil:
		d.Change = newGroup
	case after == nil:
		d.Change = goneGroup
	case !forecast.Differ(forecast.Took(before), forecast.Took(after)):
		d.Change = similar
	case d.delta() > 0:
		d.Change = slower
	default:
		d.Change = faster
	}
	return d
}

// result returns how long a group took in seconds, and its status. g may be nil.
func result(g *event.GroupState) (took *float64, status event.Status) {
	if g == nil {
		return nil, ""
	}
	s := forecast.Took(g).Seconds()
	return &s, g.Status
}

// delta returns how many seconds longer a group took than before.
func (d *groupDiff) delta() float64 {
	var none float64
	return *cmp.Or(d.B, &none) - *cmp.Or(d.A, &none)
}

func (d runsDiff) text(to Stream) string {
	var b strings.Builder
	style := to.Style
	var rows [][]string
	for _, r := range []*Run{&d.A, &d.B} {
		rows = append(rows, append(cleaned(r.Name, r.startTime(), r.Operation+" "+r.Release), style.mark(r.Ending()), r.took()))
	}
	b.WriteString(joinLines(tableIn(rows, to.Width, 1)) + "\n")
	rows = nil
	same := 0
	for _, g := range d.Groups {
		if g.Change == similar && g.StatusA == g.StatusB {
			same++
			continue
		}
		rows = append(rows, []string{g.Change, clean(g.name), g.times(style), g.statuses(style)})
	}
	b.WriteString(joinLines(table(rows)))
	if same > 0 {
		b.WriteString(style.render(theme.Quiet, "  "+text.Count(same, "group")+" about the same") + "\n")
	}
	if total := d.B.Seconds - d.A.Seconds; math.Abs(total) >= 0.5 { // ignore noise
		b.WriteString(style.render(theme.Quiet, "  total "+withSign(total)) + "\n")
	}
	return b.String()
}

func withSign(s float64) string {
	if s < 0 {
		return "-" + format.Seconds(-s)
	}
	return "+" + format.Seconds(s)
}

func (d *groupDiff) times(style Style) string {
	switch {
	case d.A == nil:
		return format.Seconds(*d.B)
	case d.B == nil:
		return format.Seconds(*d.A)
	}
	arrow := "→"
	if style.Theme.ASCII {
		arrow = "->"
	}
	return fmt.Sprintf("%s %s %s (%s)", format.Seconds(*d.A), arrow, format.Seconds(*d.B), withSign(d.delta()))
}

// statuses returns the group's final statuses, or "" if they are equal or one run lacks the group.
func (d *groupDiff) statuses(style Style) string {
	if d.StatusA == d.StatusB || d.StatusA == "" || d.StatusB == "" {
		return ""
	}
	return style.word(d.StatusB) + ", was " + style.word(d.StatusA)
}

// Columns for the bars of a whole run.
const (
	defaultBar = 40 // if the width of the terminal is unknown
	minBar     = 12
	maxBar     = 80
)

// bars draws a line for each step of a path: name, time, and a bar from its start to its end, whose
// two parts are sending requests and waiting for the cluster. columns is 0 without a terminal.
func bars(s *event.State, path []forecast.Step, style Style, columns int) []string {
	rows := make([][]string, len(path))
	for n, p := range path {
		rows[n] = cleaned(format.GroupName(s, p.Group), alignRight(format.Duration(p.Took)))
	}
	room := defaultBar
	if columns > 0 {
		room = min(max(columns-1-ansi.StringWidth(table(rows)[0])-2, minBar), maxBar)
	}
	if !style.Theme.Still { // no bars for screen readers
		for n, b := range forecast.Bars(path, room) {
			line := style.Theme.Lines
			rows[n] = append(rows[n], strings.Repeat(" ", b.From)+strings.Repeat(line.Rest, b.Requests)+strings.Repeat(line.Bar, b.Waited))
		}
	}
	return format.Fold(table(rows), "  "+style.Theme.Lines.Ellipsis+" %s")
}
