package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"lockstep/engine/infer"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// DagFormats are the formats of Dag.
var DagFormats = []string{"text", "json", "dot", "mermaid"}

// Dag writes a plan in one of DagFormats. json has every edge; the other formats omit
// edges that follow from others.
//
// Rule R36: the plan as a drawing, JSON, dot or Mermaid.
func Dag(w io.Writer, title string, p *plan.Plan, format string, style Style) error {
	switch format {
	case "json":
		return JSON(escaped(w), newDagOutput(p))
	case "text":
		return write(styled(w, style), dagText(title, p, style))
	case "dot":
		return write(styled(w, style), dagDot(title, p))
	case "mermaid":
		return write(styled(w, style), dagMermaid(p))
	}
	return fmt.Errorf("unknown format %q: use one of %s", format, strings.Join(DagFormats, ", "))
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// dagOutput is a plan in JSON.
type dagOutput struct {
	Groups   []plan.Group   `json:"groups"`
	Warnings []plan.Warning `json:"warnings"`
}

// newDagOutput converts a plan; its lists are never null.
func newDagOutput(p *plan.Plan) dagOutput {
	out := dagOutput{[]plan.Group{}, []plan.Warning{}}
	for _, g := range p.Groups {
		c := *g
		c.After = append([]string{}, g.After...)
		c.Objects = append([]plan.Object{}, g.Objects...)
		out.Groups = append(out.Groups, c)
	}
	out.Warnings = append(out.Warnings, p.Warnings...)
	return out
}

// dagWidth is the width of the drawing, unless names are longer.
const dagWidth = 80

// dagText draws the layers from top to bottom. A line connects the groups of a layer.
func dagText(title string, p *plan.Plan, style Style) string {
	layer, after := plan.Layers(p.Groups), plan.Reduce(p.Groups)
	groups := inLayers(p.Groups, layer)
	objects, depth, hooks := 0, 0, 0
	for _, g := range groups {
		if g.Step != nil {
			hooks++
		}
		objects += len(g.Objects)
		depth = max(depth, layer[g.ID]+1)
	}
	var b strings.Builder
	size := text.Count(objects, "object") + " in " + text.Count(len(groups), "group")
	switch {
	case len(groups) == 0:
		return clean(title) + ": no objects to order (hooks and crds/ are not shown)\n"
	case objects == 0: // a stack: the groups are releases
		size = phrase.CountStack(len(groups)-hooks, hooks)
	}
	fmt.Fprintf(&b, "%s: %s, %s\n", clean(title), size, text.Count(depth, "layer"))
	for i, g := range groups {
		n := layer[g.ID]
		first := i == 0 || layer[groups[i-1].ID] != n
		last := i == len(groups)-1 || layer[groups[i+1].ID] != n
		label := "  "
		if first {
			b.WriteString("\n")
			label = fmt.Sprintf("%2d", n)
		}
		b.WriteString(style.render(theme.Faint, label+" "+branch(first, last, style)) + " " + style.render(theme.Strong, g.ID) + "\n")
		rail := "   " + style.bar()
		if last {
			rail = "    "
		}
		list := func(role theme.Role, text, indent string) {
			for _, l := range Fill(text, dagWidth-7, indent) {
				b.WriteString(rail + "   " + style.render(role, l) + "\n")
			}
		}
		list(theme.Accent, format.WithPrefix("after ", strings.Join(after[g.ID], ", ")), "      ")
		list(theme.Accent, format.WithPrefix("waits for ", plan.OutsideNames(g.WaitFor, "")), "      ")
		if len(g.Approve) > 0 {
			list(theme.Accent, phrase.Missing(g.Approve), "      ")
		}
		list(theme.Text, strings.Join(names(g.Objects), ", "), "")
		if g.Step != nil {
			list(theme.Text, "runs "+g.Step.Line(), "  ")
		}
		if last { // the line goes across the order once all groups of the layer are listed
			for _, of := range groups {
				if of.NoReturn != "" && layer[of.ID] == n {
					b.WriteString("\n" + style.render(theme.Stopped, acrossLine(phrase.NoReturnAfter(of.ID, of.NoReturn), style)) + "\n")
				}
			}
		}
	}
	return b.String()
}

// acrossLine returns a line with a text in it, as wide as the drawing unless the text is longer.
func acrossLine(text string, style Style) string {
	rule := style.Theme.Lines.Light[theme.ArmLeft|theme.ArmRight]
	line := strings.Repeat(rule, 2) + " " + clean(text) + " "
	return line + strings.Repeat(rule, max(2, dagWidth-utf8.RuneCountInString(line)))
}

// branch returns the sign that connects a group to the line of its layer.
func branch(first, last bool, style Style) string {
	lines := style.Theme.Lines
	switch {
	case first && last:
		return lines.Light[theme.ArmLeft|theme.ArmRight]
	case first:
		return lines.Light[theme.ArmLeft|theme.ArmRight|theme.ArmDown]
	case last:
		return lines.Round[2]
	}
	return lines.Light[theme.ArmUp|theme.ArmRight|theme.ArmDown]
}

func names(objects []plan.Object) []string {
	out := make([]string, len(objects))
	for i, o := range objects {
		out[i] = o.String()
	}
	return out
}

// byChart groups the groups by chart. Charts are in the order of their first group.
func byChart(groups []*plan.Group) (charts []string, byPath map[string][]*plan.Group) {
	byPath = map[string][]*plan.Group{}
	for _, g := range groups {
		if byPath[g.Chart] == nil {
			charts = append(charts, g.Chart)
		}
		byPath[g.Chart] = append(byPath[g.Chart], g)
	}
	return charts, byPath
}

// dagDot writes a Graphviz graph: a box per group, a frame per chart.
func dagDot(title string, p *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n", quoteDot(title))
	charts, groups := byChart(p.Groups)
	for i, path := range charts {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, quoteDot(path))
		for _, g := range groups[path] {
			label := g.Name + "\n" + strings.Join(names(g.Objects), "\n")
			fmt.Fprintf(&b, "    %s [label=%s];\n", quoteDot(g.ID), quoteDot(label))
		}
		b.WriteString("  }\n")
	}
	after := plan.Reduce(p.Groups)
	for _, g := range p.Groups {
		for _, id := range after[g.ID] {
			fmt.Fprintf(&b, "  %s -> %s;\n", quoteDot(id), quoteDot(g.ID))
		}
	}
	for _, name := range outsideNames(p.Groups) {
		fmt.Fprintf(&b, "  %s [style=\"rounded,dashed\"];\n", quoteDot(name))
	}
	for _, g := range p.Groups {
		for _, o := range g.WaitFor {
			fmt.Fprintf(&b, "  %s -> %s [style=dashed];\n", quoteDot(plan.FormatOutside(o, "")), quoteDot(g.ID))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// outsideNames returns the objects outside the release that groups wait for (R22d), each once.
func outsideNames(groups []*plan.Group) (names []string) {
	for _, g := range groups {
		for _, o := range g.WaitFor {
			names = append(names, plan.FormatOutside(o, ""))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func quoteDot(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// dagMermaid writes a Mermaid flowchart. Nodes are numbered because Mermaid needs plain names.
func dagMermaid(p *plan.Plan) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	node := map[string]string{}
	for i, g := range p.Groups {
		node[g.ID] = fmt.Sprintf("g%d", i)
	}
	charts, groups := byChart(p.Groups)
	for i, path := range charts {
		fmt.Fprintf(&b, "  subgraph c%d[%s]\n", i, quoteMermaid(path))
		for _, g := range groups[path] {
			label := "<b>" + format.EscapeMermaid(g.Name) + "</b><br/>" + format.EscapeMermaid(strings.Join(names(g.Objects), "\n"))
			fmt.Fprintf(&b, "    %s[\"%s\"]\n", node[g.ID], label)
		}
		b.WriteString("  end\n")
	}
	after := plan.Reduce(p.Groups)
	for _, g := range p.Groups {
		for _, id := range after[g.ID] {
			fmt.Fprintf(&b, "  %s --> %s\n", node[id], node[g.ID])
		}
	}
	for i, name := range outsideNames(p.Groups) {
		node[name] = fmt.Sprintf("outside%d", i)
		fmt.Fprintf(&b, "  %s([%s])\n", node[name], quoteMermaid(name))
	}
	for _, g := range p.Groups {
		for _, o := range g.WaitFor {
			fmt.Fprintf(&b, "  %s -.-> %s\n", node[plan.FormatOutside(o, "")], node[g.ID])
		}
	}
	return b.String()
}

func quoteMermaid(s string) string { return `"` + format.EscapeMermaid(s) + `"` }

// inLayers returns the groups sorted by layer, stable within a layer.
func inLayers(groups []*plan.Group, layer map[string]int) []*plan.Group {
	out := slices.Clone(groups)
	slices.SortStableFunc(out, func(a, b *plan.Group) int { return cmp.Compare(layer[a.ID], layer[b.ID]) })
	return out
}

// Suggested is an inferred order and its plan.
type Suggested struct {
	Plan  *plan.Plan
	Order *infer.Order
	// NotInferred has pairs of groups: the chart declares that the first waits for the second, but no
	// edge confirms it.
	NotInferred [][2]string
	// All makes the text list all reasons between groups.
	All bool
}

// Suggestion writes the plan of an inferred order as Dag does, with reasons: text has those
// between groups, json all edges.
func Suggestion(w io.Writer, title string, s Suggested, format string, style Style) error {
	if format == "json" {
		return suggestionJSON(escaped(w), s)
	}
	err := Dag(w, title, s.Plan, format, style)
	if err == nil && format == "text" {
		err = write(styled(w, style), reasonsText(s, style))
	}
	return err
}

type suggestedEdge struct {
	From     plan.Object    `json:"from"`
	To       plan.Object    `json:"to"`
	Strength infer.Strength `json:"strength"`
	Reason   string         `json:"reason"`
	// Value is what field Path of the object In contains.
	In    plan.Object `json:"in"`
	Path  string      `json:"path"`
	Value string      `json:"value,omitempty"`
}

func suggestionJSON(w io.Writer, s Suggested) error {
	out := struct {
		dagOutput
		Edges []suggestedEdge `json:"edges"`
	}{newDagOutput(s.Plan), []suggestedEdge{}}
	for _, e := range s.Order.Edges {
		out.Edges = append(out.Edges, suggestedEdge{e.From, e.To, e.Strength, e.Reason.Text, e.Reason.In, e.Reason.Path, e.Reason.Value})
	}
	return JSON(w, out)
}

// reasonsText explains why groups wait for others.
func reasonsText(s Suggested, style Style) string {
	why, edges := groupReasons(s, style)
	var b strings.Builder
	b.WriteString(format.WithPrefix("\nwhy\n", joinLines(why)))
	if len(s.NotInferred) > 0 {
		b.WriteString("\ndeclared in the chart, but nothing in the manifests requires it\n")
		for _, pair := range s.NotInferred {
			b.WriteString(orderText(pair[0], pair[1], style) + "\n")
		}
	}
	if inside := len(s.Order.Edges) - edges; inside > 0 {
		text := "1 dependency inside a group is not listed; Helm's install order already covers it"
		if inside > 1 {
			text = fmt.Sprintf("%d dependencies inside groups are not listed; Helm's install order already covers them", inside)
		}
		advice := "List all dependencies with -o json"
		if !s.All {
			advice += "; those between groups with --why=all"
		}
		fmt.Fprintf(&b, "\n%s.\n%s.\n", text, advice)
	}
	if len(why) > 0 {
		b.WriteString("\nTo deploy in this order, use --order=inferred; to write it into the chart, suggest --write.\n")
	}
	return b.String()
}

// orderText says that one group comes after another.
func orderText(group, other string, style Style) string {
	return "  " + style.render(theme.Strong, group) + " after " + style.render(theme.Strong, other)
}

// groupReasons returns lines about the edges between groups, and the number of these edges. With All
// it lists every edge. Otherwise each edge of the drawing has a line with its strongest reason, preferably one that is more
// than a reference (infer.Hard), and so does every other edge with such a reason.
func groupReasons(s Suggested, style Style) (lines []string, edges int) {
	drawn := plan.Reduce(s.Plan.Groups)
	notReference := func(e infer.Edge) bool { return e.Strength != infer.Hard }
	for _, g := range s.Plan.Groups {
		for _, id := range g.After {
			reasons := s.Order.Between(g.Objects, s.Plan.Group(id).Objects)
			edges += len(reasons)
			switch inDrawing := slices.Contains(drawn[g.ID], id); {
			case len(reasons) == 0 && inDrawing && !slices.Contains(s.NotInferred, [2]string{g.ID, id}):
				lines = append(lines, orderText(g.ID, id, style)+": "+clean(indirectReason(g, id)))
			case len(reasons) == 0:
			case s.All:
				lines = append(lines, listReasons(g.ID, id, reasons, style)...)
			case inDrawing || slices.ContainsFunc(reasons, notReference):
				best := reasons[max(0, slices.IndexFunc(reasons, notReference))]
				line := orderText(g.ID, id, style) + ": " + clean(best.Reason.Text)
				if n := len(reasons) - 1; n > 0 {
					line += style.render(theme.Faint, fmt.Sprintf(" (and %d more)", n))
				}
				lines = append(lines, line)
			}
		}
	}
	return lines, edges
}

// indirectReason says why a group waits for another one without an edge between their objects.
func indirectReason(g *plan.Group, id string) string {
	switch why := g.Why[id]; {
	case why != "": // of their charts
		return "a subchart waits for all of another one; " + why
	case g.Name == plan.Unsequenced:
		return "objects without a group come last in their chart"
	}
	return "objects that several groups need come first" // R64: the group base
}

// listReasons lists all reasons why a group waits for another one.
func listReasons(group, other string, reasons []infer.Edge, style Style) []string {
	lines := []string{orderText(group, other, style)}
	for _, e := range reasons {
		lines = append(lines, "    "+style.render(theme.Faint, fmt.Sprintf("%-7s", e.Strength))+" "+clean(e.String()))
	}
	return lines
}
