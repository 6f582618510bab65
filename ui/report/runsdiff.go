package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/theme"
)

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

func (m machine) RunsDiff(d RunsDiff) error { return encode(m.out, d) }

func (h human) RunsDiff(d RunsDiff) error {
	var b strings.Builder
	style := h.out.Style
	var rows [][]string
	for _, r := range []*Run{&d.A, &d.B} {
		rows = append(rows, []string{clean(r.Name), r.when(), clean(r.Operation + " " + r.Release), style.outcome(r.ending()), r.took()})
	}
	b.WriteString(strings.Join(tableIn(rows, h.out.Width, 1), "\n") + "\n\n")
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
	return write(h.text, b.String())
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
