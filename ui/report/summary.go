package report

import (
	"fmt"
	"io"
	"strings"

	"lockstep/engine/event"
)

const (
	// manyGroups is from where on groups that went well are only counted.
	manyGroups = 40
	// mostDetail is how many lines of a diagnosis are repeated.
	mostDetail = 20
)

// Summary writes what became of an operation: its groups with their times, what
// failed and why, what never started, what took the time, what to type next.
func Summary(w io.Writer, s *event.State, o Options) {
	w = styled(w, o.Style)
	fmt.Fprintln(w, o.glyph(s.Status), verdict(s, o.Style))
	if s.Message != "" {
		fmt.Fprintln(w, " ", clean(s.Message))
	}
	summariseGroups(w, s, o)
	if path := CriticalPath(s); len(path) > 1 && s.Status != event.Aborted {
		fmt.Fprintln(w, "  critical path:", clean(pathText(s, path, o.Style)))
	}
	if len(s.Notes) > 0 {
		fmt.Fprintln(w, "\nNOTES:")
		for _, l := range s.Notes {
			fmt.Fprintln(w, clean(l))
		}
		fmt.Fprintln(w)
	}
	if o.Next != nil {
		for _, l := range o.Next(s) {
			fmt.Fprintln(w, "  next:", clean(l))
		}
	}
	if o.Record != nil {
		if name := o.Record(); name != "" {
			fmt.Fprintln(w, "  record: lockstep replay", name)
		}
	}
}

// verdict is the first line of a summary.
func verdict(s *event.State, style Style) string {
	op := s.Operation
	how := style.word(s.Status) + " after "
	if s.Status == event.Succeeded {
		how = style.word(s.Status) + " in "
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

// summariseGroups writes a line for each group, and the diagnosis of what
// failed. Of many groups, those that went well are only counted.
func summariseGroups(w io.Writer, s *event.State, o Options) {
	var shown []*event.GroupState
	var rows [][]string
	total, fine := 0, 0
	for _, p := range s.Phases {
		total += len(p.Groups)
	}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if total > manyGroups && wentWell(g) {
				fine++
				continue
			}
			shown = append(shown, g)
			rows = append(rows, groupRow(s, g, o.Style))
		}
	}
	if fine > 0 {
		fmt.Fprintln(w, " ", o.glyph(event.Ready), Count(fine, "group"), "done")
	}
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
}

func wentWell(g *event.GroupState) bool {
	switch g.Status {
	case event.Ready, event.Applied, event.Gone:
		return trouble(g) == ""
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

// trouble says in a line why a group is not well, or nothing.
func trouble(g *event.GroupState) string {
	why := ""
	switch g.Status {
	case event.Failed, event.Skipped, event.Aborted, event.Held:
		why = g.Message
	}
	for _, o := range g.Objects {
		if o.Status == event.Failed && why == "" {
			why = o.Object.String() + ": " + o.Message
		}
		if o.Summary != "" && !strings.Contains(why, o.Summary) && strings.HasPrefix(why, o.Object.String()+":") {
			why += " — " + o.Summary
		}
	}
	return strings.TrimPrefix(unlike(why, "aborted"), "not started: ")
}

// detail writes the diagnosis of the objects of a group that is not well.
func detail(w io.Writer, g *event.GroupState, o Options) {
	if o.Brief || g.Status == event.Ready || g.Status == event.Gone {
		return
	}
	for _, obj := range g.Objects {
		if obj.Done() {
			continue
		}
		lines := obj.Diagnosis
		if cut := len(lines) - mostDetail; cut > 0 {
			lines = lines[cut:]
		}
		for _, l := range lines {
			fmt.Fprintln(w, "     ", o.bar(), clean(l))
		}
	}
}
