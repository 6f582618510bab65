package report

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// byChart parts the groups by chart, charts in the order of their first group.
func byChart(groups []*plan.Group) (paths []string, of map[string][]*plan.Group) {
	of = map[string][]*plan.Group{}
	for _, g := range groups {
		if of[g.Chart] == nil {
			paths = append(paths, g.Chart)
		}
		of[g.Chart] = append(of[g.Chart], g)
	}
	return paths, of
}

// dagDot writes a graph of Graphviz: a box per group, a frame per chart.
func dagDot(title string, p *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n", quoteDot(title))
	paths, of := byChart(p.Groups)
	for i, path := range paths {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, quoteDot(path))
		for _, g := range of[path] {
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
	b.WriteString("}\n")
	return b.String()
}

func quoteDot(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// dagMermaid writes a flowchart of Mermaid. Its nodes need plain names, so they
// are numbered.
func dagMermaid(p *plan.Plan) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	node := map[string]string{}
	for i, g := range p.Groups {
		node[g.ID] = fmt.Sprintf("g%d", i)
	}
	paths, of := byChart(p.Groups)
	for i, path := range paths {
		fmt.Fprintf(&b, "  subgraph c%d[%s]\n", i, quoteMermaid(path))
		for _, g := range of[path] {
			label := "<b>" + escapeMermaid(g.Name) + "</b><br/>" + escapeMermaid(strings.Join(names(g.Objects), "\n"))
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
	return b.String()
}

func quoteMermaid(s string) string { return `"` + escapeMermaid(s) + `"` }

// escapeMermaid also keeps "%%{", which begins a directive wherever it stands.
func escapeMermaid(s string) string {
	return strings.NewReplacer("#", "#35;", "%", "#37;", "&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "\n", "<br/>").Replace(s)
}
