package annotate

import (
	"cmp"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// addDependencies inserts the missing dependencies into the Chart.yaml files of a tree.
func (w *writer) addDependencies(now, wanted *plan.Chart) {
	missing := missingIn(now, wanted)
	for len(missing) > 0 {
		c, lines, subs := missing[0].chart, []chartAnnotation(nil), map[string][]string{}
		missing = slices.DeleteFunc(missing, func(m missingDependencies) bool {
			switch {
			case m.chart != c:
				return false
			case m.sub == nil:
				lines = append(lines, chartAnnotation{plan.AnnotationSubchartDependsOn, jsonList(m.dependsOn)})
			case w.src.Spelling == SpellingHIP:
				w.addToSubchart(c.Path, *m.sub, m.dependsOn)
			default:
				subs[m.sub.ID()] = m.dependsOn
			}
			return true
		})
		if len(subs) > 0 {
			lines = append(lines, chartAnnotation{plan.AnnotationDependsOn, documents.JSONLists(subs)})
		}
		w.addToChart(c.Path, lines)
	}
}

// chartAnnotation is an annotation to insert into Chart.yaml.
type chartAnnotation struct{ key, value string }

func (a chartAnnotation) line() string { return a.key + ": " + scalar(a.value) }

// missingDependencies are the dependencies of a chart's own resources or, if sub is set, of one of its
// subcharts. At least one of them is missing, but dependsOn lists all.
type missingDependencies struct {
	chart     *plan.Chart
	sub       *plan.Subchart
	path      string // of the chart that waits, "" if it is disabled
	dependsOn []string
}

// missingIn compares two trees of the same charts.
func missingIn(now, wanted *plan.Chart) (all []missingDependencies) {
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
		all = append(all, missingIn(sub.Chart, to.Chart)...)
	}
	return all
}

// lacks reports whether a list lacks some wanted names.
func lacks(now, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(now, name) })
}

// addToChart inserts annotations into the Chart.yaml of a chart: what its own objects and its subcharts wait for.
func (w *writer) addToChart(chart string, all []chartAnnotation) {
	if len(all) == 0 {
		return
	}
	manual := ManualEdit{Chart: chart, Lines: []string{"annotations:"}}
	for _, a := range all {
		manual.Lines = append(manual.Lines, "  "+a.line())
	}
	f, root := w.chartFile(&manual, "Chart.yaml")
	if f == nil {
		return
	}
	key, m := documents.Entry(root, "annotations")
	for _, a := range all {
		for _, existing := range []string{a.key, plan.StoredKey(a.key)} {
			if m != nil && has(m, existing) {
				w.addManualForChart(manual, "it already has "+existing+"; edit that by hand")
				return
			}
		}
	}
	insert := func(indent int) {
		var lines []string
		for _, a := range all {
			lines = append(lines, strings.Repeat(" ", indent)+a.line())
		}
		f.insertAfter(key.Line, strings.Join(lines, eolOf(f.raw)))
	}
	switch {
	case key == nil && (strings.HasPrefix(f.raw, "...") || strings.Contains(f.raw, "\n...")):
		w.addManualForChart(manual, "the file has an end marker (...)")
	case key == nil:
		at, eol := len(f.raw), eolOf(f.raw)
		f.insert = append(f.insert, insertion{at, atLineStart(f.raw, at, strings.Join(manual.Lines, eol)+eol, eol)})
	case m.Kind == kyaml.MappingNode && m.Style&kyaml.FlowStyle == 0 && len(m.Content) > 0 && m.Line > key.Line:
		insert(m.Content[0].Column - 1)
	case m.ShortTag() == kyaml.NodeTagNull && m.Value == "":
		insert(key.Column + 1)
	default:
		w.addManualForChart(manual, notBlockStyle)
	}
}

// addToSubchart inserts the subcharts that a subchart waits for into its entry in dependencies, as HIP-0025 has it. helm package drops
// that (R4).
func (w *writer) addToSubchart(chart string, s plan.Subchart, dependsOn []string) {
	name := cmp.Or(s.Alias, s.Name)
	line := "depends-on: " + jsonList(dependsOn) // JSON is YAML
	manual := ManualEdit{Chart: chart, Lines: []string{"- name: " + name, "  " + line}}
	for _, in := range []string{"Chart.yaml", "requirements.yaml"} {
		trial := manual
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
			w.addManualForChart(trial, name+" already has depends-on; edit that by hand")
		case m.Style&kyaml.FlowStyle != 0 || lastLine(m) == 0:
			w.addManualForChart(trial, "the entry of "+name+" is not in block style")
		default:
			f.insertAfter(lastLine(m), strings.Repeat(" ", m.Content[0].Column-1)+line)
		}
		return
	}
	manual.File, _ = w.locate(chart, "Chart.yaml")
	w.addManualForChart(manual, name+" is not listed in dependencies, it is only in charts/")
}

// chartFile reads Chart.yaml or requirements.yaml, and sets manual.File. If the file does not exist or
// cannot be changed, it returns nil and, for Chart.yaml, adds the manual edit.
func (w *writer) chartFile(manual *ManualEdit, name string) (*file, *kyaml.Node) {
	var why string
	if manual.File, why = w.locate(manual.Chart, name); why == "" {
		var err error
		if why, err = w.read(manual.File); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		if name == "Chart.yaml" {
			w.addManualForChart(*manual, why)
		}
		return nil, nil
	}
	f := w.files[manual.File]
	var doc kyaml.Node
	if err := kyaml.Unmarshal([]byte(f.raw), &doc); err != nil || doc.Kind != kyaml.DocumentNode || doc.Content[0].Kind != kyaml.MappingNode || doc.Content[0].Style&kyaml.FlowStyle != 0 {
		if name == "Chart.yaml" {
			w.addManualForChart(*manual, "it is not in block style")
		}
		return nil, nil
	}
	return f, doc.Content[0]
}

func (w *writer) addManualForChart(manual ManualEdit, why string) {
	manual.Why = why
	w.manual = append(w.manual, manual)
}

// insertAfter inserts a line of text after a line of the file, counted from 1.
func (f *file) insertAfter(line int, text string) {
	at := 0
	for l := range strings.Lines(f.raw) {
		if at += len(l); line == 1 {
			break
		}
		line--
	}
	eol := eolOf(f.raw)
	f.insert = append(f.insert, insertion{at, atLineStart(f.raw, at, text+eol, eol)})
}

func has(m *kyaml.Node, key string) bool {
	k, _ := documents.Entry(m, key)
	return k != nil
}

// dependency returns the first entry of dependencies with this alias, or without an alias and with
// this name.
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

// lastLine returns the last line of a mapping that contains a complete key and value, 0 if there is
// none.
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
