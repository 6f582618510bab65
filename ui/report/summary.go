package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

const (
	// maxDiagnosis is the maximum number of lines of a diagnosis.
	maxDiagnosis = 20
	// maxFailures limits the failures at the end of the summary, maxEvidence their lines of
	// evidence. With the "next:" lines, these are at most 15 lines.
	maxFailures = 5
	maxEvidence = 6
	// maxNoted is the maximum number of objects whose notes are listed.
	maxNoted = 10
	// maxSlow is the maximum number of slow groups.
	maxSlow = 3
)

// Summary writes the result of an operation, with the most important part last: groups and times,
// notes, commands to run next, the outcome, and the failures with their causes.
func Summary(w io.Writer, s *event.State, o Options) {
	w = styled(w, o.Style)
	wrapped := wrapper{w, o.Width, o.Theme.Lines.Light[theme.ArmUp|theme.ArmDown]}
	writeGroups(wrapped, s, o)
	writeObjectNotes(wrapped, s, "ready as far as the spec allows", func(o *event.ObjectState) string { return o.Note })
	writeObjectNotes(wrapped, s, "applied, but the controller said nothing", func(o *event.ObjectState) string {
		if o.Shown() == event.Applied && o.Status == event.Ready {
			return o.Message
		}
		return ""
	})
	writeList(wrapped, "approved", cleaned(phrase.Approvals(s)...))
	writeList(wrapped, "what changed", cleaned(phrase.Changed(s)...))
	writeTimes(wrapped, s, o)
	if len(s.Notes) > 0 {
		fmt.Fprint(w, "\nNOTES:\n"+strings.Join(cleaned(s.Notes...), "\n")+"\n\n") // not wrapped: the chart lays them out
	}
	if o.Record != nil {
		if name := o.Record(); name != "" {
			fmt.Fprintln(w, "  replay this run: "+text.Program+" replay", name)
		}
	}
	if s.Status != event.Succeeded {
		fmt.Fprintln(w)
	}
	if o.Next != nil {
		for _, l := range o.Next(s) {
			fmt.Fprintln(w, "  next:", clean(l)) // not wrapped, so that it can be copied
		}
	}
	writeVerdict(wrapped, s, o.Style)
	writeFailures(wrapped, format.Failures(s), o.Style, maxFailures, maxEvidence)
}

// Warnings writes the warnings of a run and of its releases, each once, after its screen has closed.
func Warnings(w io.Writer, s *event.State, style Style) {
	w = styled(w, style)
	written := map[string]bool{}
	writeNew := func(warnings []event.Event) {
		for _, e := range warnings {
			if text := format.Warning(e.Rule, e.Object, e.Message); !written[text] {
				written[text] = true
				writeWarning(w, e, style)
			}
		}
	}
	writeNew(s.Warnings)
	for g := range s.GroupStates() {
		if release := s.Scopes[g.ID]; release != nil {
			writeNew(release.Warnings)
		}
	}
}

func writeWarning(w io.Writer, e event.Event, style Style) {
	fmt.Fprintln(w, style.render(theme.Stopped, "warning:"), clean(format.Warning(e.Rule, e.Object, e.Message)))
}

// writeVerdict writes the fixed failures and how the operation ended. It leaves out the reason if
// writeFailures writes it.
func writeVerdict(w io.Writer, s *event.State, style Style) {
	reason := phrase.Reason(s)
	switch {
	case s.Status == event.Succeeded:
		reason = s.Message
	case len(s.Roots()) > 0 && (s.Outcome != "" || s.Status == event.Failed):
		reason = s.Outcome
	}
	for _, f := range s.Fixed() {
		label := "  fixed:"
		if f.Again {
			label = "  failed:"
		}
		fmt.Fprintln(w, label, clean(phrase.Fixed(f)))
	}
	by := ""
	if s.Origin != nil && s.Origin.Why == "" {
		by = phrase.By(*s.Origin)
	}
	text := format.WithReason(verdict(s, by, style), clean(reason))
	if by != "" && s.Outcome != "" {
		text = verdict(s, by, style) + "; " + clean(phrase.AbortOutcome(s))
	}
	fmt.Fprintln(w, style.glyph(s.Ending()), text)
}

// writeObjectNotes writes the objects with a note under a title.
func writeObjectNotes(w io.Writer, s *event.State, title string, note func(*event.ObjectState) string) {
	lines := objectNotes(s, "", note)
	slices.Sort(lines)
	lines = slices.Compact(lines) // an object can be in several phases
	if more := len(lines) - maxNoted; more > 0 {
		lines = append(lines[:maxNoted], fmt.Sprintf("and %d more", more))
	}
	writeList(w, title, lines)
}

func objectNotes(s *event.State, prefix string, note func(*event.ObjectState) string) (lines []string) {
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			if note := note(o); note != "" {
				lines = append(lines, clean(format.WithReason(prefix+o.Object.String(), note)))
			}
		}
		if inner := s.Scopes[g.ID]; inner != nil {
			lines = append(lines, objectNotes(inner, g.ID+": ", note)...)
		}
	}
	return lines
}

// writeTimes writes the critical path, and those of the slowest groups whose times differ from the last run's.
func writeTimes(w io.Writer, s *event.State, o Options) {
	if path := forecast.ShownPath(s); len(path) > 0 {
		writeList(w, forecast.PathHeading(s), bars(s, path, o.Style, max(o.Width-2, 0)))
	}
	var rows [][]string
	for _, g := range forecast.LongestGroups(s, maxSlow) {
		if g.Differs() {
			name, took := format.GroupName(s, g.Group), alignRight(format.Duration(g.Took))
			rows = append(rows, cleaned(name, took, "last time "+format.Duration(g.Last), withSign(g.Difference().Seconds())))
		}
	}
	writeList(w, "compared with last time", table(rows))
}

// writeList writes indented lines below a heading, or nothing if there are none.
func writeList(w io.Writer, heading string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprint(w, "  "+heading+"\n  "+strings.Join(lines, "\n  ")+"\n")
	}
}

// writeFailures writes a line for each root failure, at most limit, and then at most evidence lines
// of evidence for all of them together.
func writeFailures(w io.Writer, roots []format.Failure, style Style, limit, evidence int) {
	more := max(len(roots)-limit, 0)
	roots = roots[:len(roots)-more]
	var known []string
	for _, f := range roots {
		fmt.Fprintln(w, style.glyph(event.Failed), clean(f.Sentence()))
		known = append(known, f.Cause)
	}
	if more > 0 {
		fmt.Fprintln(w, style.glyph(event.Failed), "and", more, "more, see above")
	}
	for n, f := range roots {
		lines := shorten(format.UnknownLines(f.Evidence, known), f.Log(), max(evidence/(len(roots)-n), 1))
		evidence -= len(lines)
		known = append(known, lines...)
		if len(roots) > 1 && f.Object != nil {
			lines = nameObject(*f.Object, lines)
		}
		for _, l := range lines {
			fmt.Fprintln(w, " ", style.bar(), clean(l))
		}
	}
}

// shorten drops lines of evidence over the limit, beginning with a container's oldest log lines.
func shorten(lines, log []string, limit int) []string {
	excess := len(lines) - limit
	lines = slices.DeleteFunc(lines, func(l string) bool {
		drop := excess > 0 && slices.Contains(log, l)
		if drop {
			excess--
		}
		return drop
	})
	return lines[:min(len(lines), limit)]
}

// nameObject puts the failed object in front of its lines.
func nameObject(o plan.Object, lines []string) []string {
	out := make([]string, len(lines))
	for n, l := range lines {
		out[n] = format.WithReason(o.String(), strings.TrimSpace(l))
	}
	return out
}

// verdict describes how an operation ended, and after what time. by says who aborted it, or is empty.
func verdict(s *event.State, by string, style Style) string {
	op := s.Operation
	ending := style.word(s.Status) + format.WithPrefix(" ", by) + " after "
	switch {
	case s.Ended.IsZero():
		ending = "still running after "
	case s.Status == event.Succeeded && len(s.Fixed()) > 0:
		ending = style.word(s.Ending()) + phrase.FixedNote(s) + " in "
	case s.Status == event.Succeeded:
		ending = style.word(s.Ending()) + " in "
	}
	end := cmp.Or(s.Ended, s.Now)
	total, paused := end.Sub(s.Started), ""
	switch idle := total - s.Active(end); {
	case idle <= 0:
	case format.Duration(idle) == format.Duration(total) && s.Stepped():
		paused = "stepped"
	case format.Duration(idle) == format.Duration(total) && !s.AnyGroupStarted():
		paused = s.IdleWord() + " throughout"
	default:
		paused = format.Duration(idle) + " " + s.IdleWord()
	}
	text := op.Name + " " + op.Release + " " + ending + format.Duration(total)
	revision := op.Revision
	if s.Code == event.NothingWritten {
		revision = 0
	}
	if details := format.NonEmpty(paused, format.WithPrefix("revision ", format.Number(revision)), format.WithPrefix("namespace ", op.Namespace)); len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return clean(text)
}

// writeGroups writes the totals, then each group that is not OK, with its diagnosis.
func writeGroups(w io.Writer, s *event.State, o Options) {
	if s.Operation.IsStack() {
		writeReleases(w, s, o)
		return
	}
	groups := collectGroups(s, o.Style)
	writeChanges(w, s, groups.done, groups.all, o)
	phase := ""
	for i, line := range table(groups.rows) {
		g := groups.shown[i]
		if event.IsRollback(g.Phase) && !event.IsRollback(phase) {
			fmt.Fprintln(w, "  during the rollback:")
		}
		phase = g.Phase
		fmt.Fprintln(w, line)
		writeDiagnosis(w, g, o)
	}
	for _, line := range groups.skipped {
		fmt.Fprintln(w, " ", line)
	}
}

// groupSummary is the groups of an operation as its summary shows them.
type groupSummary struct {
	done, all int                 // numbers of groups, without those of a rollback; done includes degraded ones
	shown     []*event.GroupState // the groups that are not OK
	rows      [][]string          // the table of shown
	skipped   []string            // a line for each reason for which many groups were skipped
}

func collectGroups(s *event.State, style Style) (out groupSummary) {
	skipped := map[string][]string{} // names by reason
	for g := range s.GroupStates() {
		if g.Status == event.Skipped {
			skipped[g.Message] = append(skipped[g.Message], format.GroupName(s, g))
		}
	}
	for g := range s.GroupStates() {
		ok := format.GroupOK(g)
		if !event.IsRollback(g.Phase) {
			out.all++
			if ok || g.Status == event.Ready {
				out.done++
			}
		}
		names := skipped[g.Message]
		switch {
		case ok:
		case g.Status != event.Skipped || len(names) <= format.MaxNamed:
			out.shown = append(out.shown, g)
			out.rows = append(out.rows, groupRow(s, g, style))
		case names[0] == format.GroupName(s, g): // the first of many
			text := clean(format.WithReason(format.Abbreviate(names), format.Problem(g)))
			out.skipped = append(out.skipped, style.glyphAndWord(event.Skipped)+"  "+text)
		}
	}
	return out
}

// writeChanges writes how many groups are done, and the changes to objects, which include those
// of groups that are not done.
func writeChanges(w io.Writer, s *event.State, done, all int, o Options) {
	changed, rolledBack := s.Changes(), s.RollbackChanges()
	changes, inAll := changed.String(), ""
	if changes != "" {
		inAll = phrase.InAll(s)
		changes += inAll
	}
	switch {
	case done < all && changes != "":
		fmt.Fprintln(w, " ", o.glyph(""), fmt.Sprintf("%d of %s done; %s", done, text.Count(all, "group"), changed.Sentence()+inAll))
	case done > 0:
		fmt.Fprintln(w, " ", o.glyph(event.Ready), format.WithReason(text.Count(done, "group")+" done", changes))
	case changes != "":
		fmt.Fprintln(w, " ", o.glyph(""), changes)
	}
	switch {
	case s.RollbackStopped():
		fmt.Fprintln(w, " ", o.glyph(event.Failed), "rollback stopped"+format.WithPrefix("; ", rolledBack.Sentence()))
	case s.RollbackFailed():
		fmt.Fprintln(w, " ", o.glyph(event.Failed), "rollback failed"+format.WithPrefix("; ", rolledBack.Sentence()))
	case rolledBack.String() != "":
		fmt.Fprintln(w, " ", o.glyph("rolled-back"), format.WithReason(o.word("rolled-back"), rolledBack.String()))
	}
}

// groupRow returns a row of the table: status, group, objects, time, problem.
func groupRow(s *event.State, g *event.GroupState, style Style) []string {
	took := ""
	if !g.Started.IsZero() && !g.Ended.IsZero() {
		took = format.Duration(g.Ended.Sub(g.Started))
	}
	return append([]string{style.glyphAndWord(format.GroupStatus(g))},
		cleaned(format.GroupName(s, g), fmt.Sprintf("%d/%d", g.Reached(), len(g.Objects)), took, format.Problem(g))...)
}

// writeDiagnosis writes the diagnoses of a group's objects, without the lines that writeFailures
// writes as evidence.
func writeDiagnosis(w io.Writer, g *event.GroupState, o Options) {
	if g.Status == event.Ready || g.Status == event.Gone {
		return
	}
	for _, obj := range g.Objects {
		if obj.Done() {
			continue
		}
		lines := obj.Diagnosis
		if g.Status == event.Failed && obj.InTrouble() {
			lines = format.UnknownDetails(lines, obj.Details, append([]string{obj.Cause}, obj.Evidence...))
		}
		for _, l := range lines[max(len(lines)-maxDiagnosis, 0):] {
			fmt.Fprintln(w, "     ", o.bar(), clean(l))
		}
	}
}
