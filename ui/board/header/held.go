package header

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/picture"
)

// heldText names the first failed group with its cause, and counts the others.
func (h *Header) heldText() string {
	nodes := h.Failing()
	if lines := h.releaseFailures(); len(lines) > 0 {
		return lines[0]
	}
	if len(nodes) == 0 {
		return h.Graph.Shorten(h.State.RunMessage)
	}
	name := nodes[0].Name
	if more := len(nodes) - 1; more > 0 {
		name += fmt.Sprintf(" and %d more", more)
	}
	root := h.RootOf(nodes[0])
	text := h.Join(name, h.cause(nodes[0], root))
	if canvas.Width(text) > h.W-10 { // the pane names the object
		text = h.Join(name, h.Graph.Shorten(root.Cause))
	}
	return text
}

// cause returns the cause of a group's failure, with the object unless the group is named
// after it.
func (h *Header) cause(n *graph.Node, r event.Root) string {
	if r.Object == nil {
		return h.Graph.Shorten(r.Cause)
	}
	name := h.Graph.Object(r.Object.Object)
	if n.Name == name || n.Name == r.Object.Object.String() {
		return r.Cause
	}
	return name + ": " + r.Cause
}

// endsAlone says when a held or paused run ends without a screen (R47), "" if it does not. Home counts that time down.
func (h *Header) endsAlone() string {
	within, op := h.Leave.Within, h.State.Operation
	if h.Attached && op.Job == "" {
		within = op.Timeout
	}
	if within == 0 || h.Replayed || !h.Steerable() || h.State.AwaitsApproval() != nil {
		return ""
	}
	end := "aborts"
	if run, _ := h.RunStatus(); run == event.Held {
		end = "fails"
	}
	return "if every screen closes, " + end + " after " + canvas.Span(within)
}

// nowReady names an object that made a group fail but has become ready since, "" if there is none.
func (h *Header) nowReady() string {
	for _, n := range h.Failing() {
		if o := h.RootOf(n).Object; o != nil && o.Done() {
			return h.Graph.Object(o.Object)
		}
	}
	return ""
}

// drawFailureKeys draws the keys that resolve a failure. It highlights the re-check if a failed object
// has become ready.
func (h *Header) drawFailureKeys(hints []keys.Hint, y int) {
	x, end := 3, h.W-1
	ready := h.nowReady()
	if text := ready + " is ready now"; ready != "" && canvas.Width(text)+3+keys.Cells(hints, 3) <= end-x {
		x = h.Canvas.Put(x, y, theme.Good, text) + 3
	}
	for _, hint := range keys.Fit(hints, end-x, 3) {
		role := theme.Text
		if hint.Key == "A" && ready != "" {
			role = theme.Strong
		}
		x = h.PutHint(x, y, hint, role) + 3
	}
	more := h.endsAlone()
	if len(h.StateLines) > 0 { // the state line has no room for the counts
		more = h.Join(h.otherCounts(end-x), more)
		if canvas.Width(more) > end-x {
			more = h.otherCounts(end - x)
		}
	}
	if canvas.Width(more) <= end-x {
		h.Canvas.PutRight(end, y, theme.Quiet, more)
	}
}

// Lines returns the state's text in at most room lines once the run is held or over; nil if it fits in
// one line, or if there is room for only one.
func (h *Header) Lines(room int) []string {
	run, _ := h.RunStatus()
	if run != event.Held && !h.Over() {
		return nil
	}
	width := h.W - 1 - h.stateFrom()
	var all, short []string // short has one line per failure, except the first
	for n, l := range h.failureLines() {
		if n == 0 {
			all = canvas.WrapAfter(l, h.stateRoom(), width)
			short = all
			continue
		}
		all = slices.Concat(all, canvas.Wrap(l, width))
		short = slices.Concat(short, []string{canvas.Fit(l, width, h.Theme.Lines.Ellipsis)})
	}
	if len(all) > room {
		all = short
	}
	if len(all) == 0 || len(all) > room {
		_, text := h.stateMark()
		all = canvas.WrapAfter(h.Join(text, h.changesSince()), h.stateRoom(), width)
	}
	if len(all) > room {
		rest := strings.Join(all[room-1:], " ")
		all = append(all[:room-1], h.fit(rest, width))
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// releaseFailures returns a line for each held failure in the releases of a stack.
func (h *Header) releaseFailures() (lines []string) {
	for _, n := range h.Graph.Nodes {
		if h.State.ReleaseRun(n.GroupState) != event.Held {
			continue
		}
		for _, r := range h.State.Scopes[n.ID].Roots() {
			group, cause := cmp.Or(r.Group.Name, r.Group.ID), r.Cause // the pane says which timeout expired, as on the release's own board
			if r.Object != nil && group != r.Object.Object.String() {
				cause = r.Object.Object.String() + ": " + cause
			}
			lines = append(lines, h.Join(n.Name, group, h.Graph.Shorten(cause)))
		}
	}
	return lines
}

// failureLines returns a line for each failure: group, object, cause. Once the run is over, the outcome
// comes first, and it returns nil unless several groups or objects failed.
func (h *Header) failureLines() []string {
	roots := h.State.Roots()
	if run, _ := h.RunStatus(); run == event.Held {
		lines := h.releaseFailures()
		for _, n := range h.Failing() {
			for _, r := range roots {
				if r.Group == n.GroupState {
					lines = append(lines, h.Join(n.Name, h.cause(n, r)))
				}
			}
		}
		return append(lines, h.alsoInTrouble()...)
	}
	if len(roots) < 2 || h.State.Status != event.Failed {
		return nil
	}
	lines := []string{h.Join(h.quitHint(), h.State.Outcome, h.changesSince())}
	for _, r := range roots {
		lines = append(lines, h.Graph.Shorten(phrase.Root(r)))
	}
	return lines
}

// alsoInTrouble returns a line for each group that does not hold the run but has a problem, and says when that would: the run still
// waits for the group, or looks at it once more at its end (R21).
func (h *Header) alsoInTrouble() (lines []string) {
	for _, n := range h.Graph.Nodes {
		if n.Degraded == 0 || n.Status == event.Failed || !h.IsCurrent(n) || h.State.ReleaseRun(n.GroupState) != "" {
			continue
		}
		o := picture.Worst(n)
		until := "the run waits for it"
		if n.Status.Over() {
			until = "checked again at the end of the run"
		}
		why := h.cause(n, event.Root{Object: o, Cause: cmp.Or(phrase.CauseAt(n.GroupState, o, h.Now()), o.Message)})
		lines = append(lines, "also "+h.GroupMark(n).Word+", "+until+": "+h.Join(n.Name, why))
	}
	return lines
}
