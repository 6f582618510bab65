package columns

import (
	"iter"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// Select selects a group and scrolls it into view.
func (b *Board) Select(n *graph.Node) {
	b.Sel = screen.Spot{Unit: n.Unit()}
	b.Show()
}

// stops returns the selectable lines of a column or of the list, from top to bottom,
// including folded groups.
func (b *Board) stops(col int) []screen.Spot {
	placed := map[*graph.Node]*cards.Card{}
	for i := range b.Cards {
		placed[b.Cards[i].Node] = &b.Cards[i]
	}
	nodes := b.Visible()
	if !b.Narrow() || b.ShowsAll {
		nodes = b.ShownIn(col)
	}
	var out []screen.Spot
	for _, n := range nodes {
		c := placed[n]
		inPane := b.IsSelected(n) && (c == nil || c.IsLine()) && b.ShowsAll // its objects are in the pane
		if c != nil && !inPane {
			out = append(out, c.Spots()...)
			continue
		}
		out = append(out, screen.Spot{Unit: n.Unit()})
		if inPane {
			for _, o := range b.ShownObjects(n) {
				out = append(out, screen.Spot{Unit: n.Unit(), Object: o.Object})
			}
		}
	}
	return out
}

// Move goes up or down one line: to the next group or object in the column.
func (b *Board) Move(by int) {
	b.Follow = false
	n := b.Group()
	if n == nil {
		b.MoveGroup(by)
		return
	}
	b.Show()
	stops := b.stops(n.Col)
	at := slices.Index(stops, b.Sel)
	if at < 0 { // no line shows the object
		at = slices.Index(stops, screen.Spot{Unit: b.Sel.Unit})
	}
	if to := at + by; at >= 0 && to >= 0 && to < len(stops) {
		b.Sel = stops[to]
	}
	b.Show()
}

// MoveColumn goes to the nearest group of a neighbouring column. In the list, which has
// one column, it goes to the next or the previous group.
func (b *Board) MoveColumn(by int) {
	b.Follow = false
	n := b.Group()
	if n == nil || b.Narrow() && !b.ShowsAll {
		b.MoveGroup(by)
		return
	}
	cols := b.columns()
	at := slices.Index(cols, n.Col) + by
	if at < 0 || at >= len(cols) {
		return
	}
	from, _ := b.Extent(n)
	col := cols[at]
	b.showColumn(col)
	b.layOut()
	var best *graph.Node
	distance := 0
	for i := range b.Cards {
		c := &b.Cards[i]
		if c.Node.Col != col {
			continue
		}
		off := c.Rect.Y - (b.Area.Y - b.Top) - from
		if off = max(off, -off); best == nil || off < distance {
			best, distance = c.Node, off
		}
	}
	if best != nil {
		b.Select(best)
	}
}

// MoveGroup goes to the next or the previous group in plan order.
func (b *Board) MoveGroup(by int) {
	at := slices.Index(b.Visible(), b.Group())
	b.selectAt(func(n int) int { return (at + by + n) % n })
}

// MoveFirst and MoveLast go to the first or the last group.
func (b *Board) MoveFirst() { b.selectAt(func(int) int { return 0 }) }
func (b *Board) MoveLast()  { b.selectAt(func(n int) int { return n - 1 }) }

// selectAt selects the visible group at an index, computed from the number of visible groups.
func (b *Board) selectAt(index func(n int) int) {
	b.Follow = false
	if nodes := b.Visible(); len(nodes) > 0 {
		b.Select(nodes[index(len(nodes))])
	}
}

// Page moves by about a screen.
func (b *Board) Page(by int) {
	for range max(b.Area.H-2, 1) {
		b.Move(by)
	}
}

// problems yields, in plan order, the failed groups and objects and those that the run waits for,
// and whether each has failed.
func (b *Board) problems() iter.Seq2[screen.Spot, bool] {
	return func(yield func(screen.Spot, bool) bool) {
		for _, n := range b.Visible() {
			if n.Degraded == 0 && n.Status != event.Failed && n.Status != event.Running && n.Status != event.AtBreakpoint && n.Status != event.Applied {
				continue
			}
			found := false
			for _, o := range n.Objects {
				failed := o.Status == event.Failed || picture.Urgency(o) == 1 && n.Status == event.Failed || b.State.ReleaseRun(n.GroupState) == event.Held
				if !failed && !picture.Degraded(n, o) && (picture.Urgency(o) != 1 || n.Status != event.Running) {
					continue
				}
				found = true
				if !yield(screen.Spot{Unit: n.Unit(), Object: o.Object}, failed) {
					return
				}
			}
			if !found && (n.Status == event.Failed || n.Status == event.AtBreakpoint) && !yield(screen.Spot{Unit: n.Unit()}, n.Status == event.Failed) {
				return
			}
		}
	}
}

// Problems returns the failed groups and objects, and those that the run waits for, each in
// plan order.
func (b *Board) Problems() (failed, blocking []screen.Spot) {
	for spot, isFailed := range b.problems() {
		if isFailed {
			failed = append(failed, spot)
		} else {
			blocking = append(blocking, spot)
		}
	}
	return failed, blocking
}

// AnyProblem reports whether NextProblem has anywhere to go.
func (b *Board) AnyProblem() bool {
	for range b.problems() {
		return true
	}
	return false
}

// AnyFailure reports whether any of these problems is a failure.
func (b *Board) AnyFailure() bool {
	for _, failed := range b.problems() {
		if failed {
			return true
		}
	}
	return false
}

// NextProblem goes to the problem after the selected one. While anything has failed or is degraded, it skips the other groups
// that the run waits for.
func (b *Board) NextProblem() tea.Cmd {
	var list, others []screen.Spot
	for at, failed := range b.problems() {
		if failed || b.Graph.ByKey[at.Unit].Degraded > 0 {
			list = append(list, at)
		} else {
			others = append(others, at)
		}
	}
	if len(list) == 0 {
		list = others
	}
	b.Follow = false
	b.Sel = list[(slices.Index(list, b.Sel)+1)%len(list)]
	b.Show()
	return nil
}

// Click selects the group or object under the mouse, and reports whether it was already selected.
func (b *Board) Click(x, y int) (again bool) {
	if b.clickStrip(x, y) || b.clickFold(x, y) || !b.Area.Has(x, y) {
		return false
	}
	for i := range b.Cards {
		if c := &b.Cards[i]; c.Rect.Has(x, y) {
			was := b.Sel
			b.Sel = c.At(y - c.Rect.Y)
			again = b.Sel == was
			b.Follow = b.Follow && again
		}
	}
	return again
}

// clickFold switches to the overview and selects the first group of the fold.
func (b *Board) clickFold(x, y int) bool {
	for _, f := range b.Folds {
		if f.Rect.Has(x, y) {
			b.Follow, b.Detail = false, screen.Compact
			b.Select(f.Nodes[0])
			return true
		}
	}
	return false
}

// Wheel scrolls up and down, or sideways.
func (b *Board) Wheel(at tea.Mouse) {
	by := map[tea.MouseButton]int{tea.MouseWheelUp: -1, tea.MouseWheelLeft: -1, tea.MouseWheelDown: 1, tea.MouseWheelRight: 1}[at.Button]
	switch {
	case by == 0:
	case at.Mod.Contains(tea.ModShift), at.Button == tea.MouseWheelLeft, at.Button == tea.MouseWheelRight:
		b.scrollColumns(by)
	default:
		b.Follow = false
		b.Top = max(b.Top+3*by, 0)
	}
}

// scrollColumns moves the view sideways without changing the selection.
func (b *Board) scrollColumns(by int) {
	cols := b.columns()
	at := slices.IndexFunc(cols, func(i int) bool { return i >= b.First }) + by
	if at < 0 || at >= len(cols) || b.Narrow() || b.ShowsAll {
		return
	}
	if last := cols[len(cols)-1]; by > 0 && b.fits(b.Widths(), b.First, last) {
		return
	}
	b.Follow = false
	b.First = cols[at]
}

// NextDetail switches to the next detail level and shows its name.
func (b *Board) NextDetail() tea.Cmd {
	b.Detail = (b.Detail + 1) % screen.Details
	b.Follow = b.Follow && b.Detail == screen.Auto
	b.Show()
	return b.Say(theme.Quiet, [...]string{"card size: auto (z: compact)", "card size: compact (z: full)", "card size: full (z: auto)"}[b.Detail])
}

// FollowAgain makes the view follow the run again, as it does until the user moves.
func (b *Board) FollowAgain() tea.Cmd {
	b.Follow = true
	b.FollowRun()
	b.Show()
	return nil
}

// SelectVisible selects the first visible group if the filter hides the selected one.
func (b *Board) SelectVisible() {
	if n := b.Group(); n != nil && b.Shown(n) {
		b.Show()
	} else if nodes := b.Visible(); len(nodes) > 0 {
		b.Select(nodes[0])
	}
}
