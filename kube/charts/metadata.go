package charts

import (
	"fmt"

	"lockstep/engine/plan"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
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
	f.faults = append(f.faults, plan.Fault{Rule: "R2", Message: fmt.Sprintf("%s in Chart.yaml is %s: want a list of names", what, inline(value))})
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
