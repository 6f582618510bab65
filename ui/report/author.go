package report

import (
	"fmt"
	"io"
	"strings"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// SeverityInfo is the severity of a finding that needs no mending; plan has the
// others.
const SeverityInfo = "info"

// Lint is what lint has to say about charts.
type Lint struct {
	Charts []LintedChart `json:"charts"`
	// Quiet leaves out of the text what needs no mending.
	Quiet bool `json:"-"`
}

// LintedChart is what lint says about one argument.
type LintedChart struct {
	Chart    string    `json:"chart"`
	Failed   bool      `json:"failed"`
	Findings []Finding `json:"findings"`
}

// Finding is one thing that lint says about a chart. Rule is empty for what Helm
// says.
type Finding struct {
	Severity string       `json:"severity"` // error, warning or info
	Rule     string       `json:"rule,omitempty"`
	Chart    string       `json:"chart,omitempty"`
	Object   *plan.Object `json:"object,omitempty"`
	Path     string       `json:"path,omitempty"`
	Message  string       `json:"message"`
}

// Failed counts the charts with an error.
func (l Lint) Failed() int {
	n := 0
	for _, c := range l.Charts {
		if c.Failed {
			n++
		}
	}
	return n
}

func (l Lint) text(Stream) string {
	var b strings.Builder
	for _, c := range l.Charts {
		lines := []string{}
		for _, f := range c.Findings {
			if !l.Quiet || f.Severity != SeverityInfo {
				lines = append(lines, f.String())
			}
		}
		if !l.Quiet || len(lines) > 0 {
			fmt.Fprintf(&b, "==> Linting %s\n%s\n", clean(c.Chart), strings.Join(append(lines, ""), "\n"))
		}
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, "%d chart(s) linted, %d chart(s) failed\n", len(l.Charts), l.Failed())
	}
	return b.String()
}

// String is a finding in the way that Helm writes it.
func (f Finding) String() string {
	text := "[" + strings.ToUpper(f.Severity) + "] "
	if f.Path != "" {
		text += f.Path + ": "
	}
	text += f.Message
	if f.Rule != "" {
		text += " (" + f.Rule + ")"
	}
	return text
}

// Written is what has been written into the files of a chart, and what is left.
type Written struct {
	Chart string        `json:"chart"`
	Files []WrittenFile `json:"files"`
	Left  []ManualEdit  `json:"left"`
}

// WrittenFile is a file below the chart's directory, and how many lines it got.
type WrittenFile struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
}

// ManualEdit is something that has to be put in by hand: which lines, for which
// objects, or where there are none, into Chart.yaml.
type ManualEdit struct {
	Chart   string        `json:"chart"`
	Objects []plan.Object `json:"objects,omitempty"`
	File    string        `json:"file,omitempty"`
	Line    int           `json:"line,omitempty"`
	Why     string        `json:"why"`
	Lines   []string      `json:"lines"`
}

func (w Written) text(to Stream) string {
	var b strings.Builder
	total := 0
	var rows [][]string
	for _, f := range w.Files {
		total += f.Lines
		rows = append(rows, []string{f.Name, fmt.Sprintf("+%d", f.Lines)})
	}
	switch {
	case len(w.Files) == 0 && len(w.Left) == 0:
		fmt.Fprintf(&b, "%s says all of its order already; nothing was written\n", clean(w.Chart))
	case len(w.Files) == 0:
		fmt.Fprintf(&b, "nothing was written to %s\n", clean(w.Chart))
	default:
		fmt.Fprintf(&b, "%s: %s added to %s, and nothing else changed\n", clean(w.Chart), Count(total, "line"), Count(len(w.Files), "file"))
	}
	for _, line := range table(rows) {
		fmt.Fprintf(&b, "%s\n", clean(line))
	}
	if len(w.Left) > 0 {
		b.WriteString("\nto be put in by hand:\n")
	}
	for _, l := range w.Left {
		at := l.File
		if at == "" {
			at = l.Chart
		}
		if l.Line > 0 {
			at = fmt.Sprintf("%s:%d", at, l.Line)
		}
		about := ""
		if len(l.Objects) > 0 {
			about = " " + someOf(names(l.Objects))
		}
		fmt.Fprintf(&b, "  %s%s: %s\n", to.Style.render(theme.Strong, clean(at)), clean(about), clean(l.Why))
		for _, line := range l.Lines {
			fmt.Fprintf(&b, "      %s\n", clean(line))
		}
	}
	return b.String()
}

// Suggested is an inferred order with the plan that it leads to.
type Suggested struct {
	Plan  *plan.Plan
	Order *infer.Order
	// NotInferred are gates that the chart has written down and no edge leads along.
	NotInferred [][2]string
}

// Suggestion writes the plan that an inferred order leads to, in one of DagFormats:
// as Dag does, with the reasons, which text tells for what waits between groups and
// json for all edges.
func Suggestion(w io.Writer, title string, s Suggested, format string, style Style) error {
	switch format {
	case "json":
		return suggestionJSON(escaped(w), s)
	case "text":
		if err := Dag(w, title, s.Plan, format, style); err != nil {
			return err
		}
		return write(styled(w, style), whyText(s, style))
	}
	return Dag(w, title, s.Plan, format, style)
}

// SuggestedEdge is an edge of an inferred order.
type SuggestedEdge struct {
	From     plan.Object    `json:"from"`
	To       plan.Object    `json:"to"`
	Strength infer.Strength `json:"strength"`
	Reason   string         `json:"reason"`
	// In is the object whose field Path it was read from, Value what it says there.
	In    plan.Object `json:"in"`
	Path  string      `json:"path"`
	Value string      `json:"value,omitempty"`
}

// suggestionJSON is dagJSON with edges.
func suggestionJSON(w io.Writer, s Suggested) error {
	out := struct {
		dagOutput
		Edges []SuggestedEdge `json:"edges"`
	}{dagOf(s.Plan), []SuggestedEdge{}}
	for _, e := range s.Order.Edges {
		out.Edges = append(out.Edges, SuggestedEdge{e.From, e.To, e.Strength, e.Reason.Text, e.Reason.In, e.Reason.Path, e.Reason.Value})
	}
	return encode(w, out)
}

// maxReasons is how many reasons are told for two groups.
const maxReasons = 3

// whyText tells which objects make one group wait for another.
func whyText(s Suggested, style Style) string {
	p, o := s.Plan, s.Order
	in := map[plan.Object]*plan.Group{}
	for _, g := range p.Groups {
		for _, object := range g.Objects {
			in[object] = g
		}
	}
	type pair struct{ from, to string }
	between := map[pair][]infer.Edge{}
	crossing := 0
	for _, e := range o.Edges {
		if from, to := in[e.From], in[e.To]; from != nil && to != nil && from != to {
			between[pair{from.ID, to.ID}] = nil
			crossing++
		}
	}
	var b strings.Builder
	for _, g := range p.Groups {
		for _, id := range g.After {
			if _, ok := between[pair{g.ID, id}]; !ok {
				continue
			}
			if b.Len() == 0 {
				b.WriteString("\nwhy\n")
			}
			reasons := o.Between(g.Objects, p.Group(id).Objects)
			fmt.Fprintf(&b, "  %s after %s\n", style.render(theme.Strong, g.ID), style.render(theme.Strong, id))
			for i, e := range reasons {
				if i == maxReasons {
					fmt.Fprintf(&b, "    %s\n", style.render(theme.Faint, fmt.Sprintf("and %d more", len(reasons)-i)))
					break
				}
				fmt.Fprintf(&b, "    %s %s\n", style.render(theme.Faint, fmt.Sprintf("%-7s", e.Strength)), clean(e.String()))
			}
		}
	}
	if len(s.NotInferred) > 0 {
		b.WriteString("\nwritten, though nothing in the manifests tells\n")
		for _, pair := range s.NotInferred {
			fmt.Fprintf(&b, "  %s after %s\n", style.render(theme.Strong, clean(pair[0])), style.render(theme.Strong, clean(pair[1])))
		}
	}
	if inside := len(o.Edges) - crossing; inside > 0 {
		fmt.Fprintf(&b, "\n%s between objects of one group, which come in Helm's order of kinds; -o json has all\n", Count(inside, "edge"))
	}
	return b.String()
}
