package charts

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

func join(names []string) string { return strings.Join(names, ", ") }

// Tree returns the chart tree with the ordering of every Chart.yaml in it (R4,
// R11), for the values that a user gave. Names and aliases are those of
// Chart.yaml (R12); paths use the alias where there is one, as the paths of
// rendered templates do. Which dependencies are disabled is what Helm decides
// from conditions and tags.
//
// The warnings are about apiVersion v3 (R34a) and dependencies that Helm leaves
// out (R12). Malformed lists are faults of the tree, which plan.Build refuses
// (R2).
func (c *Chart) Tree(values map[string]any) (*plan.Chart, []plan.Warning, error) {
	tree, b, err := c.walk(values)
	if err != nil {
		return nil, nil, err
	}
	return tree, b.warnings, nil
}

// walk makes the tree and finds out what it is made of.
func (c *Chart) walk(values map[string]any) (*plan.Chart, *treeBuilder, error) {
	h, err := c.Helm()
	if err != nil {
		return nil, nil, err
	}
	if err := chartutil.ProcessDependencies(h, CopyValues(values)); err != nil {
		return nil, nil, fmt.Errorf("chart %s: dependencies: %w", c.path, err)
	}
	b := &treeBuilder{folders: map[string]Folder{}}
	return b.chart(c.src, h, h.Name(), Folder{}), b, nil
}

// treeBuilder walks sources and, next to them, what Helm made of them.
type treeBuilder struct {
	warnings []plan.Warning
	folders  map[string]Folder // by chart path
}

func (b *treeBuilder) warn(rule, path, format string, args ...any) {
	b.warnings = append(b.warnings, plan.Warning{
		Rule: rule, Chart: path, Message: path + ": " + fmt.Sprintf(format, args...),
	})
}

// chart returns the node of s, which Helm kept as h.
func (b *treeBuilder) chart(s *source, h *chart.Chart, path string, at Folder) *plan.Chart {
	b.folders[path] = at
	node := &plan.Chart{Path: path, DependsOn: s.facts.dependsOn, Faults: s.facts.faults}
	if s.facts.v3 {
		b.warn("R34a", path, "apiVersion v3 is loaded as v2")
	}
	for _, d := range s.meta.Dependencies {
		b.declared(node, s, h, d, at)
	}
	for _, sub := range s.subs {
		if !s.declares(sub) {
			b.undeclared(node, sub, h, at)
		}
	}
	return node
}

// declared adds a dependency of Chart.yaml.
func (b *treeBuilder) declared(node *plan.Chart, s *source, h *chart.Chart, d *chart.Dependency, at Folder) {
	name := d.Name
	if d.Alias != "" {
		name = d.Alias
	}
	sub := s.find(d)
	if there := s.named(d.Name); sub == nil && there != nil {
		b.warn("R12", node.Path, "dependency %s wants %s %s, but charts/ has %s; Helm leaves it out", name, d.Name, d.Version, there.meta.Version)
		return
	}
	entry := plan.Subchart{Name: d.Name, Alias: d.Alias, DependsOn: s.facts.siblings[name]}
	if kept := enabled(h, name); sub != nil && kept != nil {
		entry.Chart = b.chart(sub, kept, node.Path+"/"+name, at.below(sub))
	}
	node.Subcharts = append(node.Subcharts, entry)
}

// undeclared adds a chart that merely lies in charts/. A second one of the
// same name is not added: its templates are those of the first to Helm.
func (b *treeBuilder) undeclared(node *plan.Chart, sub *source, h *chart.Chart, at Folder) {
	name := sub.meta.Name
	path := node.Path + "/" + name
	for _, other := range node.Subcharts {
		if other.Chart != nil && other.Chart.Path == path {
			return
		}
	}
	if kept := dependency(h, name); kept != nil {
		node.Subcharts = append(node.Subcharts, plan.Subchart{Name: name, Chart: b.chart(sub, kept, path, at.below(sub))})
	}
}

// enabled returns the chart that Helm kept for the dependency of that
// effective name, or nil.
func enabled(h *chart.Chart, name string) *chart.Chart {
	for _, d := range h.Metadata.Dependencies {
		if d.Name == name {
			return dependency(h, name)
		}
	}
	return nil
}

// dependency returns the chart below h of that effective name, or nil.
func dependency(h *chart.Chart, name string) *chart.Chart {
	for _, d := range h.Dependencies() {
		if d.Name() == name {
			return d
		}
	}
	return nil
}
