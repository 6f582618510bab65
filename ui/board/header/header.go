// Package header draws the first lines of the screen: the operation, its state, and a held failure
// with the keys that resolve it. Its central type is Header.
package header

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// Header is the first lines of the screen.
type Header struct {
	*screen.Screen
	// Title is shown if the operation has no name.
	Title string
	// Context is the name of the cluster, "" for the operation's.
	Context string
	// StateLines is the state's text, if it takes several lines.
	StateLines []string
}

// Rows returns the height of the header.
func (h *Header) Rows() int {
	rows := 1 + max(len(h.StateLines), 1)
	if h.H >= 36 || h.Held() {
		rows++
	}
	return rows
}

// UsualRows returns how many rows the header takes while nothing has failed.
func (h *Header) UsualRows() int {
	if h.H >= 36 {
		return 3
	}
	return 2
}

// Draw draws the operation, the state, and the keys that resolve a failure.
func (h *Header) Draw(hints []keys.Hint) {
	h.drawOperation()
	h.drawState()
	if h.Held() {
		h.drawFailureKeys(hints, 1+max(len(h.StateLines), 1))
	}
}

// drawOperation draws the first line: operation and release, cluster and namespace, time.
// If it is too long, it drops parts of the middle.
func (h *Header) drawOperation() {
	cv, op := h.Canvas, h.State.Operation
	elapsed := ""
	timed := &h.State
	if h.Stack != nil && timed.Status == "" {
		timed = &h.Stack.State // the release has not started
	}
	if !timed.Started.IsZero() && !h.PlanOnly() && !op.IsWatch() {
		spent, timeout := timed.Spent(h.Now())
		if !timed.Ended.IsZero() {
			spent = spent.Round(time.Second) // as the report
		}
		elapsed = canvas.Clock(spent)
		if timeout > 0 {
			elapsed += " of " + canvas.Clock(timeout)
		}
	}
	end := cv.PutRight(h.W-1, 0, theme.Text, elapsed) - 2

	x := 1
	if h.W >= 70 {
		x = cv.Put(x, 0, theme.Quiet, "lockstep ")
		x = cv.Put(x, 0, theme.Faint, h.Theme.Lines.More+" ")
	}
	if badge := " REPLAY "; h.Replayed {
		cv.Highlight(x, 0, len(badge))
		x = cv.Put(x, 0, theme.Accent, badge) + 1
	}
	title := cmp.Or(op.Title(), h.Title)
	if h.PlanOnly() {
		title = cmp.Or(h.Title, title)
	}
	if h.Stack != nil {
		title = strings.Join([]string{h.Stack.State.Operation.Name, h.Stack.State.Operation.Release, h.Theme.Lines.More, title}, " ")
	}
	x = cv.PutFit(x, 0, end-x, theme.Strong, title)

	for parts := h.location(); len(parts) > 0; parts = parts[:len(parts)-1] {
		text := h.Join(parts...)
		if from := end - canvas.Width(text); from >= x+3 {
			cv.Put(min(max(x+3, (h.W-canvas.Width(text))/2), from), 0, theme.Quiet, text)
			return
		}
	}
}

// location lists context, namespace, revision and how the screen is connected, the most important
// first.
func (h *Header) location() (out []string) {
	add := func(text string, show bool) {
		if show && text != "" {
			out = append(out, canvas.Clean(text))
		}
	}
	op := h.State.Operation
	contexts, namespaces := []string{op.Context}, []string{op.Namespace}
	switch {
	case op.IsStack():
		contexts, namespaces = places(&h.Picture)
	case h.Stack != nil && h.State.Status == "":
		contexts, namespaces = h.placeAhead()
	}
	if h.Context != "" {
		contexts = []string{h.Context}
	}
	place := strings.Join(contexts, ", ")
	add(place, place != "")
	add("ns "+strings.Join(namespaces, ", "), namespaces != nil && namespaces[0] != "")
	add(op.Chart, op.IsStack() && op.Chart != "")
	add(h.revision(), true)
	add("read-only", h.ReadOnly() && !h.Replayed) // the badge says so for a replay
	add("attached", h.Attached && !h.ReadOnly())
	add(text.Count(h.screens(), "screen"), h.screens() > 1 && !h.Over() && !h.Replayed)
	add("live", h.Observed != nil && h.NotLive == "")
	add(h.NotLive, h.NotLive != "")
	add("timeout "+canvas.Clock(op.ReadinessTimeout)+" per object", op.ReadinessTimeout > 0 && !h.PlanOnly())
	return out
}

// screens returns how many screens show the run.
func (h *Header) screens() int {
	if h.Stack != nil {
		return h.Stack.State.Screens
	}
	return h.State.Screens
}

// revision names the revision that the operation or its rollback writes, and the one that it restores; "" once the release is
// uninstalled.
func (h *Header) revision() string {
	op := h.State.Operation
	if undo := h.State.Undo; undo != nil && undo.Name == "rollback" {
		op = *undo
	}
	switch {
	case op.Revision == 0, h.State.Release == event.NoRelease:
		return ""
	case op.ToRevision > 0:
		return fmt.Sprintf("rev %d, as rev %d", op.Revision, op.ToRevision)
	}
	return fmt.Sprintf("rev %d", op.Revision)
}

// mostPlaces limits how many contexts or namespaces of a stack the first line names.
const mostPlaces = 3

// places returns the contexts and the namespaces of a stack's releases; of many it counts them.
func places(p *picture.Picture) (contexts, namespaces []string) {
	add := func(list []string, name string) []string {
		if name == "" || slices.Contains(list, name) {
			return list
		}
		return append(list, name)
	}
	for _, n := range p.Graph.Nodes {
		if release := p.State.Scopes[n.ID]; release != nil {
			contexts = add(contexts, release.Operation.Context)
		}
		if n.Step != nil {
			continue
		}
		if namespace, _, ok := strings.Cut(n.ID, "/"); ok { // NAMESPACE/NAME, in several contexts CONTEXT/NAMESPACE/NAME
			if parts := strings.Split(n.ID, "/"); len(parts) > 2 {
				namespace = parts[len(parts)-2]
			}
			namespaces = add(namespaces, namespace)
		}
	}
	if n := len(contexts); n > mostPlaces {
		contexts = []string{text.Count(n, "context")}
	}
	if n := len(namespaces); n > mostPlaces {
		namespaces = append(namespaces[:mostPlaces-1], fmt.Sprintf("%d more", n-mostPlaces+1))
	}
	return contexts, namespaces
}

// placeAhead returns the context and the namespace of a stack's release that has not started. Its scope is NAMESPACE/NAME, in
// several contexts CONTEXT/NAMESPACE/NAME.
func (h *Header) placeAhead() (contexts, namespaces []string) {
	parts := strings.Split(h.Scope, "/")
	last := len(parts) - 1
	if last > 0 {
		namespaces = parts[last-1 : last]
	}
	if last > 1 {
		return []string{strings.Join(parts[:last-1], "/")}, namespaces
	}
	contexts, _ = places(h.Stack)
	return contexts, namespaces
}

// DrawTooSmall draws a screen that is too small for the board: the state and the size needed. Keys
// still work.
func (h *Header) DrawTooSmall() {
	mark, text := h.stateMark()
	if text = h.Join(text, h.changesSince()); h.Flash.Text != "" {
		text = h.Flash.Text
	}
	x := h.Canvas.PutFit(0, 0, h.W, mark.Role, mark.Glyph+" "+mark.Word)
	h.Canvas.PutFit(x+1, 0, h.W-x-1, theme.Text, text)
	h.Canvas.PutFit(0, 1, h.W, theme.Quiet, fmt.Sprintf("%d of %d", h.Tally.Done, h.Tally.Total))
	for i, s := range canvas.Wrap(fmt.Sprintf("the terminal is %d×%d; lockstep needs at least %d×%d; enlarge it", h.W, h.H, screen.SmallestWidth, screen.SmallestHeight), h.W) {
		h.Canvas.Put(0, 2+i, theme.Quiet, s)
	}
}
