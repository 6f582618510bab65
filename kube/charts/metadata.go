package charts

import (
	"fmt"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
)

// facts is what a Chart.yaml says and Helm's loader drops or refuses.
type facts struct {
	// dependsOn is helm.sh/depends-on/subcharts.
	dependsOn []string
	// siblings is depends-on of each dependency, by alias, else name (R4).
	siblings map[string][]string
	// faults are lists that are none (R2).
	faults []plan.Fault
	// restrung are the annotations whose values were made strings, as they were.
	restrung []restrung
	// v3 is set for apiVersion v3 (R34a).
	v3 bool
}

type restrung struct {
	Key   string
	value *kyaml.Node
}

// take reads the facts in data, a Chart.yaml or requirements.yaml, and returns
// it in a form that Helm loads: lists in annotations as JSON in a string (R1),
// no depends-on, apiVersion v2 for v3. Data that is no YAML mapping comes back
// as it is; Helm's loader tells what is wrong with it.
func (f *facts) take(data []byte) []byte {
	doc := parse(string(data))
	if doc == nil || len(doc.Content) == 0 {
		return data
	}
	root := doc.Content[0]
	changed := f.takeVersion(root)
	if f.takeAnnotations(child(root, "annotations")) {
		changed = true
	}
	if deps := child(root, "dependencies"); deps != nil && deps.Kind == kyaml.SequenceNode {
		for _, d := range deps.Content {
			if f.takeDependency(resolve(d)) {
				changed = true
			}
		}
	}
	if !changed {
		return data
	}
	out, err := kyaml.String(doc)
	if err != nil {
		return data
	}
	return []byte(out)
}

// fault notes a list of names that is none: the order would be lost in silence.
func (f *facts) fault(what string, value *kyaml.Node) {
	f.faults = append(f.faults, plan.Fault{Rule: "R2", Message: fmt.Sprintf("%s in Chart.yaml is %s: must be a list of names", what, inline(value))})
}

// Rule R34a: apiVersion v3 is loaded as v2.
func (f *facts) takeVersion(root *kyaml.Node) bool {
	v := child(root, "apiVersion")
	if v == nil || v.Value != "v3" {
		return false
	}
	f.v3 = true
	v.Value = chart.APIVersionV2
	return true
}

func (f *facts) takeAnnotations(m *kyaml.Node) bool {
	if m == nil || m.Kind != kyaml.MappingNode {
		return false
	}
	changed := false
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i].Value, m.Content[i+1]
		if key != plan.AnnotationSubchartDependsOn && key != plan.StoredKey(plan.AnnotationSubchartDependsOn) {
			continue
		}
		if names, ok := names(value); ok {
			f.dependsOn = append(f.dependsOn, names...)
		} else {
			f.fault("annotation "+key, value)
		}
		if text, ok := asString(value); ok {
			was := *resolve(value)
			f.restrung = append(f.restrung, restrung{key, &was})
			setString(value, text)
			changed = true
		}
	}
	return changed
}

// takeDependency moves depends-on of one entry of dependencies into the facts.
//
// Rule R4: depends-on is read here, since Helm's loader drops it.
func (f *facts) takeDependency(m *kyaml.Node) bool {
	if m.Kind != kyaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != "depends-on" {
			continue
		}
		value := m.Content[i+1]
		m.Content = append(m.Content[:i:i], m.Content[i+2:]...)
		name := text(child(m, "alias"))
		if name == "" {
			name = text(child(m, "name"))
		}
		names, ok := names(value)
		if !ok {
			f.fault("depends-on of dependency "+name, value)
			return true
		}
		if f.siblings == nil {
			f.siblings = map[string][]string{}
		}
		f.siblings[name] = names
		return true
	}
	return false
}

// Spelling is a sequencing annotation that means something here and keeps a
// chart from being installed with Helm, which takes nothing but strings and
// sends every key to the API server as it is.
type Spelling struct {
	// Rule is the number of the rule that makes it fine here.
	Rule string
	// Key and Value are how it is written, Where on what for the first time;
	// Others counts the places after that.
	Key, Value, Where string
	Others            int
	// Both is the line that works in both programs.
	Both string
}

func (s Spelling) String() string {
	where := s.Where
	if s.Others > 0 {
		where += fmt.Sprintf(" and %d more", s.Others)
	}
	why := "it accepts strings only"
	if s.Rule == "R3" {
		why = "the API server rejects keys with two slashes"
	}
	return fmt.Sprintf("%s: Helm cannot install this chart with %s: %s, because %s; write %s, which works with both Helm and lockstep",
		where, s.Key, s.Value, why, s.Both)
}

// spellings collects the spellings of one chart, each key once for each reason.
type spellings struct{ list []Spelling }

// text looks through the output of a template, before it is normalised.
func (s *spellings) text(text string) {
	for _, doc := range separator.Split(text, -1) {
		if !hinted(doc, orderingHints) {
			continue
		}
		if root := parse(doc); root != nil && len(root.Content) > 0 {
			s.object(resolve(root.Content[0]))
		}
	}
}

func (s *spellings) object(o *kyaml.Node) {
	metadata := child(o, "metadata")
	where := text(child(o, "kind")) + "/" + text(child(metadata, "name"))
	if annotations := child(metadata, "annotations"); annotations != nil && annotations.Kind == kyaml.MappingNode {
		for i := 0; i+1 < len(annotations.Content); i += 2 {
			if key := resolve(annotations.Content[i]).Value; sequencing[key] {
				s.annotation(where, key, resolve(annotations.Content[i+1]), plan.StoredKey(key) != key)
			}
		}
	}
	if items := child(o, "items"); items != nil {
		for _, item := range items.Content {
			s.object(resolve(item))
		}
	}
}

// chart looks at what the Chart.yaml files said before they were normalised. A
// Chart.yaml goes to no API server, so its keys may have two slashes.
func (s *spellings) chart(src *source, path string) {
	for _, r := range src.facts.restrung {
		s.annotation("Chart.yaml of "+path, r.Key, r.value, false)
	}
	for _, sub := range src.subs {
		s.chart(sub, path+"/"+sub.meta.Name)
	}
}

// annotation notes an annotation that Helm cannot install.
func (s *spellings) annotation(where, key string, value *kyaml.Node, slashes bool) {
	restrung, list := asString(value)
	if !list {
		restrung = text(value)
	}
	rule := "R3"
	if !slashes {
		rule = "R1"
	}
	if strings.TrimSpace(restrung) == "" || !list && !slashes {
		return
	}
	for i := range s.list {
		if f := &s.list[i]; f.Key == key && f.Rule == rule {
			f.Others++
			return
		}
	}
	s.list = append(s.list, Spelling{
		Rule: rule, Key: key, Value: inline(value), Where: where,
		Both: plan.StoredKey(key) + ": '" + strings.ReplaceAll(restrung, "'", "''") + "'",
	})
}
