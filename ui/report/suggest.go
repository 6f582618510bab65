package report

import (
	"fmt"
	"io"
	"strings"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Suggested is an inferred order with the plan that it leads to.
type Suggested struct {
	Plan  *plan.Plan
	Order *infer.Order
	// Untold are gates that the chart has written down and no edge leads along.
	Untold [][2]string
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
	if len(s.Untold) > 0 {
		b.WriteString("\nwritten, though nothing in the manifests tells\n")
		for _, pair := range s.Untold {
			fmt.Fprintf(&b, "  %s after %s\n", style.render(theme.Strong, clean(pair[0])), style.render(theme.Strong, clean(pair[1])))
		}
	}
	if inside := len(o.Edges) - crossing; inside > 0 {
		fmt.Fprintf(&b, "\n%s between objects of one group, which come in Helm's order of kinds; -o json has all\n", Count(inside, "edge"))
	}
	return b.String()
}
