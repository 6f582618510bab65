package annotate

import (
	"cmp"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// charts inserts the missing dependencies into the Chart.yaml files of a tree.
func (w *writer) charts(now, wanted *plan.Chart) {
	for _, m := range missing(now, wanted) {
		if m.sub == nil {
			w.own(m.chart, m.dependsOn)
		} else {
			w.sibling(m.chart.Path, *m.sub, m.dependsOn)
		}
	}
}

// missingDependencies are dependencies that a chart's own resources lack or, if sub is set, one of
// its subcharts. path is that of the chart that waits, "" if it is disabled.
type missingDependencies struct {
	chart     *plan.Chart
	sub       *plan.Subchart
	path      string
	dependsOn []string
}

// missing compares two trees of the same charts.
func missing(now, wanted *plan.Chart) (all []missingDependencies) {
	if now == nil || wanted == nil {
		return nil
	}
	if lacks(now.DependsOn, wanted.DependsOn) {
		all = append(all, missingDependencies{now, nil, wanted.Path, wanted.DependsOn})
	}
	for i, to := range wanted.Subcharts[:min(len(now.Subcharts), len(wanted.Subcharts))] {
		sub := &now.Subcharts[i]
		if lacks(sub.DependsOn, to.DependsOn) {
			path := ""
			if to.Chart != nil {
				path = to.Chart.Path
			}
			all = append(all, missingDependencies{now, sub, path, to.DependsOn})
		}
		all = append(all, missing(sub.Chart, to.Chart)...)
	}
	return all
}

// lacks reports whether some wanted names are missing in a list.
func lacks(now, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(now, name) })
}

// own inserts the subcharts that a chart's own resources wait for.
func (w *writer) own(c *plan.Chart, dependsOn []string) {
	line := plan.AnnotationSubchartDependsOn + ": " + scalar(jsonList(dependsOn))
	left := Left{Chart: c.Path, Lines: []string{"annotations:", "  " + line}}
	f, root := w.chartFile(&left, "Chart.yaml")
	if f == nil {
		return
	}
	eol := eolOf(f.raw)
	key, m := documents.Entry(root, "annotations")
	switch {
	case m != nil && (has(m, plan.AnnotationSubchartDependsOn) || has(m, plan.StoredKey(plan.AnnotationSubchartDependsOn))):
		w.leaveChart(left, "it has "+plan.AnnotationSubchartDependsOn+" already; edit that by hand")
	case key == nil:
		at := len(f.raw)
		text := "annotations:" + eol + "  " + line + eol
		if strings.HasPrefix(f.raw, "...") || strings.Contains(f.raw, "\n...") {
			w.leaveChart(left, "the file ends with a document separator")
			return
		}
		f.insert = append(f.insert, insertion{at, whole(f.raw, at, text, eol)})
	case m.Kind == kyaml.MappingNode && m.Style&kyaml.FlowStyle == 0 && len(m.Content) > 0 && m.Line > key.Line:
		f.after(key.Line, strings.Repeat(" ", m.Content[0].Column-1)+line)
	case m.ShortTag() == kyaml.NodeTagNull && m.Value == "":
		f.after(key.Line, strings.Repeat(" ", key.Column+1)+line)
	default:
		w.leaveChart(left, unplain)
	}
}

// sibling inserts the subcharts that a subchart waits for.
func (w *writer) sibling(chart string, s plan.Subchart, dependsOn []string) {
	name := cmp.Or(s.Alias, s.Name)
	line := "depends-on: " + jsonList(dependsOn) // JSON is YAML
	left := Left{Chart: chart, Lines: []string{"- name: " + name, "  " + line}}
	for _, in := range []string{"Chart.yaml", "requirements.yaml"} {
		trial := left
		f, root := w.chartFile(&trial, in)
		if f == nil && in == "Chart.yaml" {
			return
		}
		if f == nil {
			break
		}
		m := dependency(root, name)
		switch {
		case m == nil:
			continue
		case has(m, "depends-on"):
			w.leaveChart(trial, name+" has depends-on already; edit that by hand")
		case m.Style&kyaml.FlowStyle != 0 || lastLine(m) == 0:
			w.leaveChart(trial, "the entry of "+name+" is not in block style")
		default:
			f.after(lastLine(m), strings.Repeat(" ", m.Content[0].Column-1)+line)
		}
		return
	}
	left.File, _ = w.in(chart, "Chart.yaml")
	w.leaveChart(left, name+" is not listed in dependencies, it is only in charts/")
}

// chartFile reads Chart.yaml or requirements.yaml. It returns nil if the file does not exist or
// cannot be changed; for Chart.yaml it also adds left to w.left.
func (w *writer) chartFile(left *Left, name string) (*file, *kyaml.Node) {
	var why string
	if left.File, why = w.in(left.Chart, name); why == "" {
		var err error
		if why, err = w.read(left.File); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		if name == "Chart.yaml" {
			w.leaveChart(*left, why)
		}
		return nil, nil
	}
	f := w.files[left.File]
	var doc kyaml.Node
	if err := kyaml.Unmarshal([]byte(f.raw), &doc); err != nil || doc.Kind != kyaml.DocumentNode || doc.Content[0].Kind != kyaml.MappingNode || doc.Content[0].Style&kyaml.FlowStyle != 0 {
		if name == "Chart.yaml" {
			w.leaveChart(*left, "it is not in block style")
		}
		return nil, nil
	}
	return f, doc.Content[0]
}

func (w *writer) leaveChart(left Left, why string) {
	left.Why = why
	w.left = append(w.left, left)
}

// after inserts a line after a line of the file, counted from 1.
func (f *file) after(line int, text string) {
	at := 0
	for l := range strings.Lines(f.raw) {
		if at += len(l); line == 1 {
			break
		}
		line--
	}
	eol := eolOf(f.raw)
	f.insert = append(f.insert, insertion{at, whole(f.raw, at, text+eol, eol)})
}

func has(m *kyaml.Node, key string) bool {
	k, _ := documents.Entry(m, key)
	return k != nil
}

// dependency returns the first entry of dependencies with an alias, or else name.
func dependency(root *kyaml.Node, name string) *kyaml.Node {
	_, list := documents.Entry(root, "dependencies")
	if list == nil || list.Kind != kyaml.SequenceNode {
		return nil
	}
	for _, m := range list.Content {
		effective := ""
		for _, key := range []string{"name", "alias"} {
			if _, v := documents.Entry(m, key); v != nil && v.Value != "" {
				effective = v.Value
			}
		}
		if effective == name {
			return m
		}
	}
	return nil
}

// lastLine returns the last line of a mapping that has a complete key and value, 0 for none.
func lastLine(m *kyaml.Node) int {
	last := 0
	for i := 0; i+1 < len(m.Content); i += 2 {
		k, v := m.Content[i], m.Content[i+1]
		next := 0
		if i+2 < len(m.Content) {
			next = m.Content[i+2].Line
		}
		short := v.Kind == kyaml.ScalarNode && v.Line == k.Line && v.Style&(kyaml.LiteralStyle|kyaml.FoldedStyle) == 0 && v.Anchor == ""
		if short && (k.Value == "name" || k.Value == "alias" || k.Value == "version" || k.Value == "condition" || next == k.Line+1) {
			last = k.Line
		}
	}
	return last
}

func eolOf(raw string) string {
	if strings.Contains(raw, "\r\n") {
		return "\r\n"
	}
	return "\n"
}
