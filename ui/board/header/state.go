package header

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// drawState draws the state line: the state, its reason, and the counts.
func (h *Header) drawState() {
	cv := h.Canvas
	mark, text := h.stateMark()
	cv.Put(1, 1, mark.Role, mark.Glyph+" "+mark.Word)
	h.drawProgress(h.W-1, 1)
	x, room := h.stateFrom(), h.stateRoom()
	for n, l := range h.StateLines {
		cv.PutFit(x, 1+n, room, theme.Text, l)
		room = h.W - 1 - x
	}
	if len(h.StateLines) > 0 {
		return
	}
	end := x + room
	since := h.changesSince()
	if left := room - canvas.Width(text); left < minSinceWidth && canvas.Width(h.Join(text, since)) > room {
		since = ""
	}
	if text = h.Join(text, since); text != "" {
		x = cv.Put(x, 1, theme.Text, h.fit(text, room)) + 2
	}
	if h.State.Status != "" && !h.textCounts() {
		cv.Put(x, 1, theme.Quiet, h.otherCounts(end-x))
	}
}

// textCounts reports whether the state's text has the counts.
func (h *Header) textCounts() bool {
	if h.Over() {
		return h.State.Operation.IsStack() && h.State.Status == event.Aborted && h.State.Outcome != ""
	}
	return h.State.Status == event.RollingBack && h.State.Run == event.Running
}

// minSinceWidth is the least width at which "since then" says anything.
const minSinceWidth = 30

// fit cuts the state's text to a width. It first drops the reason of a pause before the first group, then which group is next: the
// board marks it.
func (h *Header) fit(text string, width int) string {
	text = canvas.Clean(text)
	separator := " " + h.Theme.Lines.Dot + " "
	if canvas.Width(text) > width {
		text = strings.Replace(text, "before the first "+h.State.Operation.GroupNoun()+separator, "", 1)
	}
	if before, next, ok := strings.Cut(text, separator+h.Theme.Lines.Next+" next: "); ok && canvas.Width(text) > width {
		_, after, _ := strings.Cut(next, separator)
		text = h.Join(before, after)
	}
	return canvas.Fit(text, width, h.Theme.Lines.Ellipsis)
}

// stateFrom returns the x of the state line's text.
func (h *Header) stateFrom() int {
	mark, _ := h.stateMark()
	return after(mark)
}

// after returns the x of the text after a mark.
func after(mark theme.Mark) int { return 1 + canvas.Width(mark.Glyph+" "+mark.Word) + 2 }

// stateRoom returns the width of the state line's text, left of the progress bar and the counts.
func (h *Header) stateRoom() int { return h.roomFrom(h.stateFrom()) }

func (h *Header) roomFrom(x int) int {
	room := h.W - 1 - x
	if w := h.progressWidth(); w > 0 {
		room -= w + 2
	}
	return max(room, 0)
}

// stateMark returns the state as glyph and word, and the text after it.
func (h *Header) stateMark() (theme.Mark, string) {
	switch {
	case h.PlanOnly():
		groups := text.Count(len(h.Graph.Nodes), h.State.GroupNoun())
		if h.State.Operation.IsStack() {
			n := h.State.CountStack()
			groups = phrase.CountStack(n.Releases.Total, n.Hooks.Total)
		}
		return h.waitingMark("plan"), fmt.Sprintf("%s, %s %s press q to quit", groups, text.Count(h.Tally.Total, "object"), h.Theme.Lines.Dot)
	case h.State.Status == "" && h.Stack != nil:
		return h.notStarted()
	case h.State.Status == "" && h.Over():
		mark := h.Theme.Mark(string(event.Aborted))
		mark.Word = "incomplete"
		return mark, "the record is empty"
	case h.State.Status == "":
		return h.waitingMark("starting"), ""
	case h.Over():
		return h.endMark()
	}
	return h.runMark()
}

// waitingMark returns the mark of a waiting operation with another word.
func (h *Header) waitingMark(word string) theme.Mark {
	mark := h.Theme.Mark(string(event.Waiting))
	mark.Word = word
	return mark
}

// runMark returns the state of an operation that has started and is not over.
func (h *Header) runMark() (theme.Mark, string) {
	s := &h.State
	run, _ := h.RunStatus()
	switch {
	case run == event.Held:
		return h.Theme.HeldFailure(), h.Join(h.heldText(), h.awayText())
	case run == event.Paused:
		say := func(why string) string { return h.Join(h.workInReleases(), why, h.inFlight(), h.awayText()) }
		said := say(h.pauseText())
		if canvas.Width(said) > h.roomFrom(after(h.Theme.Mark(string(run)))) {
			said = say(phrase.Briefly(h.pauseText()))
		}
		if alone := h.Join(said, h.endsAlone()); canvas.Width(alone) <= h.W/2 { // what it waits for matters more
			said = alone
		}
		return h.Theme.Mark(string(run)), said
	case run == event.Replacing, run == event.Aborting:
		return h.Theme.Mark(string(run)), h.Join(s.RunMessage, h.inFlight(), h.awayText())
	case !s.AwaySince.IsZero():
		return h.Theme.Mark(string(event.Away)), h.awayText()
	case s.Status == event.RollingBack:
		why := h.Graph.Shorten(s.Message)
		if s.Origin != nil { // the message would repeat each failure
			why = phrase.Ended("aborted", h.origin())
		}
		return h.Theme.Mark(string(event.RollingBack)), h.Join(h.otherCounts(h.W), why)
	case s.Operation.Newest > 0:
		return h.watchMark(), fmt.Sprintf("objects as they are now; the latest revision is %d", s.Operation.Newest)
	case s.Operation.IsWatch():
		return h.watchMark(), ""
	}
	mark := h.Theme.Mark(string(event.Running))
	mark.Glyph = h.pulse(mark.Glyph)
	if h.Tally.Degraded > 0 {
		degraded := h.Theme.Mark(string(event.Degraded))
		mark.Glyph, mark.Role = degraded.Glyph, degraded.Role
	}
	if left, ok := s.Settling(h.Now()); ok {
		return mark, "settling: " + canvas.Span(left+time.Second-1) + " left"
	}
	if h.Tally.Degraded+h.Tally.Failed > 0 { // an estimate would assume that nothing fails
		return mark, ""
	}
	return mark, h.Outlook().Text
}

// workInReleases names the groups that run in a paused stack, whose counts are of releases.
func (h *Header) workInReleases() string {
	if !h.State.Operation.IsStack() {
		return ""
	}
	return h.State.InProgress()
}

// pauseText says why the run is paused, and which group a step starts.
func (h *Header) pauseText() string {
	reason, following := h.State.Pause()
	at := h.Graph.Select(func(n *graph.Node) bool { return n.Status == event.AtBreakpoint })
	if reason != "" && len(at) > 0 && !slices.ContainsFunc(at, func(n *graph.Node) bool { return h.PausedAt(n) != "" }) {
		reason = "before " + h.Graph.NameList(at) // the breakpoint was removed
	}
	said, next := h.Graph.Shorten(reason), ""
	if h.State.Status == event.RollingBack {
		said = text.Join(" ", "rolling back", said)
	}
	if o := h.State.RunOrigin; o != nil && o.Command == event.Pause && o.Why == "" && o.Via == "" {
		switch {
		case h.Pauses && h.Attached:
			said = text.Join(" ", said, "by you")
		case o.By != "":
			said = text.Join(" ", said, "by "+canvas.Clean(o.By))
		case h.Attached:
			said = text.Join(" ", said, "by "+canvas.Clean(cmp.Or(h.StartedBy, "the user who started the run")))
		}
	}
	if following != nil && h.Next == following {
		next = h.Theme.Lines.Next + " next: " + h.Graph.ByKey[following.Unit()].Name
		if group := h.State.NextInRelease(following); group != nil {
			next += ", group " + group.ID
		}
	}
	return h.Join(said, next)
}

// notStarted returns the state of a release before its operation starts: it waits for other
// releases, or the stack is paused, or ended without it.
func (h *Header) notStarted() (theme.Mark, string) {
	run, why := h.RunStatus()
	switch {
	case h.Over():
		return h.Theme.Mark(string(event.Skipped)), cmp.Or(h.Stack.State.Outcome, h.quitHint())
	case run == event.Paused || run == event.Held:
		return h.Theme.Mark(string(event.Paused)), h.Join("not started", why)
	}
	own := h.Stack.Graph.Select(func(n *graph.Node) bool { return n.ID == h.Scope && h.Stack.IsCurrent(n) })
	if len(own) > 0 && own[0].Status == event.Waiting {
		if blockers := picture.Blockers(own[0]); len(blockers) > 0 {
			return h.Theme.Mark(string(event.Waiting)), "for " + h.Graph.NameList(blockers)
		}
	}
	return h.waitingMark("starting"), ""
}

// awayText says how long the API server has been unreachable, "" if it answers.
func (h *Header) awayText() string {
	if h.State.AwaySince.IsZero() {
		return ""
	}
	return "API server unreachable for " + canvas.Span(h.Now().Sub(h.State.AwaySince))
}

// watchMark returns the state of a watched release: the word is the status in its record, glyph and
// colour are the state of its objects. A pending release is never shown as ready.
func (h *Header) watchMark() theme.Mark {
	status, record := event.Running, h.State.Message
	switch {
	case h.Tally.Failed > 0, record == "failed":
		status = event.Failed
	case h.Tally.Degraded > 0:
		status = event.Degraded
	case h.Tally.Done == h.Tally.Total && (record == "" || record == "deployed" || record == "superseded"):
		status = event.Ready
	}
	mark := h.Theme.Mark(string(status))
	mark.Word = cmp.Or(record, mark.Word)
	return mark
}

// endMark returns the state when the operation is over, or its record ends: the cause if there is one, otherwise how to quit.
func (h *Header) endMark() (theme.Mark, string) {
	s := &h.State
	mark := h.Theme.Mark(string(s.Ending()))
	quit := h.quitHint()
	fixed := phrase.FixedNote(s)
	if h.Observed != nil {
		mark.Word += " " + s.Ended.Local().Format("15:04:05")
	}
	if h.Attached && s.Ended.IsZero() {
		mark = h.Theme.Mark(string(event.Aborted))
		mark.Word = "connection lost"
		return mark, h.Join("the run continues, or its process was killed", quit)
	}
	if h.ReadOnly() && s.Status == event.Running {
		mark.Word = "incomplete" + fixed
		ends := "the record ends"
		switch s.Run {
		case event.Held:
			ends += " while held on failure"
		case event.Paused, event.Aborting:
			ends += " while " + h.Theme.Mark(string(s.Run)).Word
		}
		return mark, h.Join(ends, quit)
	}
	why := phrase.Reason(s)
	if s.Status == event.Aborted && s.Outcome != "" { // the reason would repeat each failure
		why = s.Outcome
	}
	if o := s.Origin; o != nil && o.Why == "" && (h.Aborts || o.Via+o.By != "") {
		mark.Word += " " + phrase.By(h.origin())
	}
	if why = h.Graph.Shorten(why); why == "" || canvas.Width(mark.Word+fixed+why) < h.W-minSinceWidth { // the report has it too
		mark.Word += fixed
	}
	return mark, cmp.Or(why, quit)
}

// origin returns who or what aborted the run, as this screen's user sees it. Elsewhere, "you" is the user who started the run.
func (h *Header) origin() event.Origin {
	switch o := *h.State.Origin; {
	case h.Aborts:
		return event.Origin{}
	case o.By == "" && (h.Replayed || h.Attached):
		o.By = cmp.Or(h.StartedBy, "the user")
		return o
	default:
		return o
	}
}

// quitHint says how to quit, and whether that deletes the cluster. For a release of a stack it says how
// to return to the stack.
func (h *Header) quitHint() string {
	switch {
	case h.Throwaway:
		return "press q to quit; this deletes the cluster"
	case h.Stack != nil:
		return "press esc to see all releases"
	case h.Home == "home":
		return "press esc to go home"
	case h.Home != "":
		return "press esc to go to " + h.Home
	}
	return "press q to quit"
}

// changesSince says how the release changed after the operation, "" if it did not.
func (h *Header) changesSince() string {
	if h.Observed == nil || !h.Over() {
		return ""
	}
	degraded, text := 0, ""
	for _, n := range h.Graph.Nodes {
		if n.Degraded > 0 && text == "" {
			o := picture.Worst(n)
			text = fmt.Sprintf("%s %s: %s", h.StatusMark(n, o).Glyph, h.Graph.Object(o.Object), cmp.Or(o.Cause, o.Message, "not ready"))
			if ago := h.DegradedFor(n, o); ago != "" {
				text += " (" + ago + " ago)"
			}
		}
		degraded += n.Degraded
	}
	if degraded > 1 {
		text += fmt.Sprintf(" and %d more", degraded-1)
	}
	if h.State.Status == event.Failed && degraded == 0 && h.Tally.Done > 0 && h.Tally.Done+h.Tally.Waiting == h.Tally.Total {
		text = "all applied objects are ready"
	}
	if text = h.Join(h.Observed.Message, text); text == "" {
		return ""
	}
	return "since then: " + text
}

// inFlight says how many requests a pause or an abort still waits for.
func (h *Header) inFlight() string {
	if n := h.Tally.Requests; n > 0 {
		return "waiting for " + text.Count(n, "request") + " in flight"
	}
	return ""
}

// pulse animates the glyph of a running operation, once a second.
func (h *Header) pulse(glyph string) string {
	if h.Theme.Still || h.Theme.ASCII {
		return glyph
	}
	return [...]string{"◴", "◷", "◶", "◵"}[int(h.State.Active(h.Now()).Seconds())%4]
}
