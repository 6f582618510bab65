package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/theme"
)

const (
	// mostDetail is how many lines of a diagnosis are repeated.
	mostDetail = 20
	// mostRoots is how many failures are told in full in the end, mostEvidence how
	// many lines of evidence they share: together with what to type next they are
	// the last 15 lines, which is what people look at.
	mostRoots    = 5
	mostEvidence = 6
)

// Summary writes what became of an operation. In the end stands how that ended and,
// where it has not succeeded, what failed and why: people look there, and programs
// that read the end of the output do. Before that stands what to type next, and
// first all that is only of interest: what is well is counted.
func Summary(w io.Writer, s *event.State, o Options) {
	w = styled(w, o.Style)
	fit := fitted{w, o.Width, o.Theme.Lines.Light[theme.ArmUp|theme.ArmDown]}
	background(fit, s, o)
	tellNotes(w, s) // they are laid out as their chart has them
	tellRecord(w, o)
	if s.Status != event.Succeeded {
		fmt.Fprintln(w)
	}
	tellNext(w, s, o) // to be copied, so it is not broken into lines
	tellEnd(fit, s, o.Style)
	tellRoots(fit, s, o.Style, mostRoots, mostEvidence)
}

// tellEnd writes how an operation has ended, and why where its roots do not tell
// that.
func tellEnd(w io.Writer, s *event.State, style Style) {
	why := s.Reason()
	switch {
	case s.Status == event.Succeeded:
		why = s.Message
	case len(s.Roots()) > 0 && (s.Outcome != "" || s.Status == event.Failed):
		why = s.Outcome
	}
	fmt.Fprintln(w, style.glyph(s.Ending()), withReason(verdict(s, style), clean(why)))
}

// background writes what became of the groups, and what took the time.
func background(w io.Writer, s *event.State, o Options) {
	summariseGroups(w, s, o)
	if path := forecast.Path(s); len(path) > 1 && s.Status != event.Aborted {
		fmt.Fprintln(w, "  critical path")
		for _, l := range bars(s, path, o.Style, max(o.Width-len(further), 0)) {
			fmt.Fprintln(w, further+l)
		}
	}
	tellSlowest(w, s)
}

// further is how much further in what belongs to a line stands.
const further = "  "

// mostSlow is how many of the slowest groups are told of.
const mostSlow = 3

// tellSlowest writes which groups took longest, against the last time.
func tellSlowest(w io.Writer, s *event.State) {
	var rows [][]string
	for _, g := range forecast.Slowest(s, mostSlow) {
		rows = append(rows, []string{clean(unitName(s, g.Group)), pad(Seconds(g.Took), 7), "last time " + Seconds(g.Usual), against(g)})
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(w, "  slowest groups")
	for _, l := range table(rows) {
		fmt.Fprintln(w, further+l)
	}
}

// against is how much longer a group took than the last time.
func against(g forecast.Slow) string {
	if !g.Differs() {
		return "about the same"
	}
	return signed((g.Took - g.Usual).Seconds())
}

// tellNotes writes the chart's notes.
func tellNotes(w io.Writer, s *event.State) {
	if len(s.Notes) == 0 {
		return
	}
	fmt.Fprintln(w, "\nNOTES:")
	for _, l := range s.Notes {
		fmt.Fprintln(w, clean(l))
	}
	fmt.Fprintln(w)
}

// tellRoots writes the failures that follow from no other, a line each, and then
// the lines that they are drawn from, of which they share so many.
func tellRoots(w io.Writer, s *event.State, style Style, most, evidence int) {
	roots := s.Roots()
	more := max(len(roots)-most, 0)
	roots = roots[:len(roots)-more]
	var said []string
	for _, r := range roots {
		fmt.Fprintln(w, style.glyph(event.Failed), clean(r.String()+" (in "+rootPlace(s, r)+")"))
		said = append(said, r.Cause)
	}
	if more > 0 {
		fmt.Fprintln(w, style.glyph(event.Failed), "and", more, "more, see above")
	}
	for n, r := range roots {
		lines := unsaid(r.Evidence, said)
		lines = shortened(lines, r, max(evidence/(len(roots)-n), 1))
		evidence -= len(lines)
		said = append(said, lines...)
		for _, l := range ofObject(r, lines, len(roots) > 1) {
			fmt.Fprintln(w, " ", style.bar(), clean(l))
		}
	}
}

// shortened are so many of the lines of evidence of a failure. A container's oldest
// log lines are left out first.
func shortened(lines []string, r event.Root, most int) []string {
	printed := func(l string) bool { return r.Object != nil && slices.Contains(r.Object.Diagnosis, "  "+l) }
	excess := len(lines) - most
	lines = slices.DeleteFunc(lines, func(l string) bool {
		old := excess > 0 && printed(l)
		if old {
			excess--
		}
		return old
	})
	return lines[:min(len(lines), most)]
}

// rootPlace names the group that has failed, and says where that was no part of what
// was asked for.
func rootPlace(s *event.State, r event.Root) string {
	name := unitName(s, r.Group)
	if strings.HasPrefix(r.Group.Phase, event.RollbackPrefix) {
		name += ", rolling back"
	}
	return name
}

// ofObject are the lines that tell of a failure, which name its object where there
// are others.
func ofObject(r event.Root, lines []string, others bool) []string {
	if !others || r.Object == nil {
		return lines
	}
	out := make([]string, len(lines))
	for n, l := range lines {
		out[n] = withReason(r.Object.Object.String(), strings.TrimSpace(l))
	}
	return out
}

// tellNext writes what to type next.
func tellNext(w io.Writer, s *event.State, o Options) {
	if o.Next == nil {
		return
	}
	for _, l := range o.Next(s) {
		fmt.Fprintln(w, "  next:", clean(l))
	}
}

func tellRecord(w io.Writer, o Options) {
	if o.Record == nil {
		return
	}
	if name := o.Record(); name != "" {
		fmt.Fprintln(w, "  record: lockstep replay", name)
	}
}

// verdict is the first line of a summary.
func verdict(s *event.State, style Style) string {
	op := s.Operation
	how := style.word(s.Status) + " after "
	if s.Status == event.Succeeded {
		how = style.word(s.Ending()) + " in "
	}
	end := s.Ended
	if end.IsZero() {
		end, how = s.Now, "not over after "
	}
	total := end.Sub(s.Started)
	how += Seconds(total)
	if idle := total - s.Active(end); idle > 0 {
		how += ", " + Seconds(idle) + " of it paused"
	}
	var where []string
	if op.Revision > 0 {
		where = append(where, fmt.Sprintf("revision %d", op.Revision))
	}
	if op.Namespace != "" {
		where = append(where, "namespace "+op.Namespace)
	}
	text := op.Name + " " + op.Release + " " + how
	if len(where) > 0 {
		text += " (" + strings.Join(where, ", ") + ")"
	}
	return clean(text)
}

// summariseGroups writes what has been done in all, a line for each group that is not
// well, and what was found out about it. Where many were never started, they are
// named in a line.
func summariseGroups(w io.Writer, s *event.State, o Options) {
	var shown []*event.GroupState
	var rows [][]string
	fine := 0
	never := neverStartedBy(s)
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			switch {
			case wentWell(g):
				if !undoing(p) {
					fine++
				}
			case g.Status == event.Skipped && len(never.names[g.Message]) > mostNamed:
			default:
				shown = append(shown, g)
				rows = append(rows, groupRow(s, g, o.Style))
			}
		}
	}
	tellChanges(w, s, fine, o)
	phase := ""
	for i, line := range table(rows) {
		g := shown[i]
		if g.Phase != phase && strings.Contains(g.Phase, "/") { // a rollback
			fmt.Fprintln(w, " ", clean(g.Phase)+":")
		}
		phase = g.Phase
		fmt.Fprintln(w, " ", o.glyph(g.Status)+clean(line[1:]))
		detail(w, g, o)
	}
	for _, why := range never.reasons {
		if names := never.names[why]; len(names) > mostNamed {
			fmt.Fprintln(w, " ", o.glyph(event.Skipped), clean(withReason(o.word(event.Skipped)+"  "+someOf(names), strings.TrimPrefix(why, "not started: "))))
		}
	}
}

// tellChanges writes how many groups are well, and what has been done to objects.
func tellChanges(w io.Writer, s *event.State, fine int, o Options) {
	did, undid := s.Changes(false).String(), s.Changes(true).String()
	switch {
	case fine > 0:
		fmt.Fprintln(w, " ", o.glyph(event.Ready), withReason(Count(fine, "group")+" done", did))
	case did != "":
		fmt.Fprintln(w, " ", o.glyph(""), did)
	}
	if undid != "" {
		fmt.Fprintln(w, " ", o.glyph("rolled-back"), withReason(o.word("rolled-back"), undid))
	}
}

// consequences are the groups that were never started, by the reason.
type consequences struct {
	reasons []string
	names   map[string][]string
}

func neverStartedBy(s *event.State) consequences {
	c := consequences{names: map[string][]string{}}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if g.Status != event.Skipped {
				continue
			}
			if c.names[g.Message] == nil {
				c.reasons = append(c.reasons, g.Message)
			}
			c.names[g.Message] = append(c.names[g.Message], unitName(s, g))
		}
	}
	return c
}

func wentWell(g *event.GroupState) bool {
	switch g.Status {
	case event.Ready, event.Gone:
		return trouble(g) == ""
	case event.Applied: // as nobody has waited for it (R21), it may be on its way
		return g.Done == len(g.Objects)
	}
	return false
}

// groupRow is a group as words: status, id, objects, time, why.
func groupRow(s *event.State, g *event.GroupState, style Style) []string {
	took := ""
	if !g.Started.IsZero() && !g.Ended.IsZero() {
		took = Seconds(g.Ended.Sub(g.Started))
	}
	return []string{style.word(g.Status), unitName(s, g), fmt.Sprintf("%d/%d", g.Reached(), len(g.Objects)), took, trouble(g)}
}

// trouble says in a line what keeps a group from being well, or nothing. Why it
// failed is told of its root.
func trouble(g *event.GroupState) string {
	var objects []string
	for _, o := range g.Objects {
		switch {
		case !o.InTrouble():
		case g.Status == event.Failed:
			objects = append(objects, o.Object.String())
		default:
			objects = append(objects, o.Object.String()+": "+cmp.Or(o.Cause, o.Message))
		}
	}
	switch g.Status {
	case event.Failed:
		if g.Root != nil && !slices.Contains(objects, g.Root.String()) {
			objects = append([]string{g.Root.String()}, objects...)
		}
		if len(objects) == 0 {
			return g.Message
		}
	case event.Skipped, event.Held:
		return strings.TrimPrefix(g.Message, "not started: ")
	case event.Applied:
		if len(objects) == 0 && g.Done < len(g.Objects) {
			return "not waited for, " + doneOf(g, false)
		}
	case event.Ready:
		for _, o := range g.Objects {
			if o.Status == event.InProgress && o.Cause == "" {
				objects = append(objects, withReason(o.Object.String()+" is no longer ready", o.Message))
			}
		}
	case event.Aborted:
		if why := unlike(g.Message, "aborted"); why != "" {
			objects = append([]string{why}, objects...)
		}
	}
	return someOf(objects)
}

// detail writes what was found out about the objects of a group that is not well,
// but for what is told of its failure.
func detail(w io.Writer, g *event.GroupState, o Options) {
	if g.Status == event.Ready || g.Status == event.Gone {
		return
	}
	for _, obj := range g.Objects {
		if obj.Done() {
			continue
		}
		lines := obj.Diagnosis
		if g.Status == event.Failed && obj.InTrouble() {
			lines = beyond(lines, append([]string{obj.Cause}, obj.Evidence...))
		}
		if cut := len(lines) - mostDetail; cut > 0 {
			lines = lines[cut:]
		}
		for _, l := range lines {
			fmt.Fprintln(w, "     ", o.bar(), clean(l))
		}
	}
}

// found matches what stands around that which a line of a diagnosis says: what it is
// about, when it was, how often.
var found = regexp.MustCompile(`^(condition |pod \S+: |\d\d:\d\d:\d\d \S+ )|( \(×\d+\))$`)

// beyond are the lines of a diagnosis that others do not say. What a container has
// printed stays together.
func beyond(diagnosis, others []string) []string {
	said := func(l string) bool {
		return len(unsaid([]string{found.ReplaceAllString(l, "")}, others)) == 0
	}
	var out []string
	for n := 0; n < len(diagnosis); {
		next := n + 1
		for next < len(diagnosis) && strings.HasPrefix(diagnosis[next], "  ") { // a log
			next++
		}
		body := diagnosis[n:next]
		if len(body) > 1 {
			body = body[1:]
		}
		if !slices.ContainsFunc(body, func(l string) bool { return !said(l) }) {
			n = next
			continue
		}
		out = append(out, diagnosis[n:next]...)
		n = next
	}
	return out
}
