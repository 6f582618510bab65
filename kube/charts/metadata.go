package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// facts are the fields of a Chart.yaml that Helm's loader drops or refuses.
type facts struct {
	// dependsOn is helm.sh/depends-on/subcharts.
	dependsOn []string
	// siblings is depends-on of each dependency, by alias, else name (R4).
	siblings map[string][]string
	// faults are about malformed lists (R2).
	faults []plan.Fault
	// quoted are the annotations whose values became strings, with their old values.
	quoted []quotedAnnotation
	// v3 is set for apiVersion v3 (R34a).
	v3 bool
}

type quotedAnnotation struct {
	key   string
	value *kyaml.Node
}

// extract reads the facts in data, a Chart.yaml or requirements.yaml, and returns the data in
// a form that Helm can load: with annotation lists as JSON strings (R1), without depends-on,
// and with apiVersion v2 instead of v3. Data that is not a YAML mapping is returned
// unchanged; Helm's loader reports the error.
func (f *facts) extract(data []byte) []byte {
	doc := parse(string(data))
	if doc == nil {
		return data
	}
	root := doc.Content[0]
	changed := f.extractVersion(root)
	changed = f.extractAnnotations(child(root, "annotations")) || changed
	if deps := child(root, "dependencies"); deps != nil && deps.Kind == kyaml.SequenceNode {
		for _, d := range deps.Content {
			changed = f.extractDependency(documents.Resolve(d)) || changed
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

// fault records a malformed list of names. Ignoring it would silently drop the order.
func (f *facts) fault(what string, value *kyaml.Node) {
	f.faults = append(f.faults, plan.Fault{Rule: "R2", Message: fmt.Sprintf("%s in Chart.yaml must be a list of names, but is %s", what, inline(value))})
}

// extractVersion replaces apiVersion v3. It reports whether root changed.
//
// Rule R34a: apiVersion v3 is loaded as v2.
func (f *facts) extractVersion(root *kyaml.Node) bool {
	v := child(root, "apiVersion")
	if v == nil || v.Value != "v3" {
		return false
	}
	f.v3 = true
	v.Value = chart.APIVersionV2
	return true
}

// extractAnnotations reads the ordering annotations and converts lists to strings. It reports
// whether m changed.
func (f *facts) extractAnnotations(m *kyaml.Node) (changed bool) {
	for k, value := range documents.Entries(m) {
		key := k.Value
		if key != plan.AnnotationSubchartDependsOn && key != plan.StoredKey(plan.AnnotationSubchartDependsOn) {
			continue
		}
		if names, ok := names(value); ok {
			f.dependsOn = append(f.dependsOn, names...)
		} else {
			f.fault("annotation "+key, value)
		}
		if text, ok := asString(value); ok {
			old := *documents.Resolve(value)
			f.quoted = append(f.quoted, quotedAnnotation{key, &old})
			setString(value, text)
			changed = true
		}
	}
	return changed
}

// extractDependency moves depends-on of one entry of dependencies into the facts. It reports
// whether m changed.
//
// Rule R4: depends-on is read here because Helm's loader drops it.
func (f *facts) extractDependency(m *kyaml.Node) bool {
	key, value := documents.Entry(m, "depends-on")
	if key == nil {
		return false
	}
	at := slices.Index(m.Content, key)
	m.Content = slices.Concat(m.Content[:at], m.Content[at+2:])
	name := cmp.Or(text(child(m, "alias")), text(child(m, "name")))
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

// Spelling is a sequencing annotation that lockstep accepts and Helm does not: Helm accepts
// only strings, and sends every key to the API server unchanged.
type Spelling struct {
	// Rule is the rule by which lockstep accepts it.
	Rule string
	// Key and Value are as written. Where is the first object or file that has it, and
	// Others is the number of further ones.
	Key, Value, Where string
	// Kind is the kind of the value, such as "a number", or "" for a string.
	Kind   string
	Others int
	// Both is a line that works with Helm and lockstep.
	Both string
}

func (s Spelling) String() string {
	where, write := s.Where, "write "
	if s.Others > 0 { // with other values
		where, write = fmt.Sprintf("%s and %d more", s.Where, s.Others), "write each value as a string, for example "
	}
	if s.Rule == "R1" {
		return fmt.Sprintf("%s: %s: %s is %s, but Helm accepts only string annotations; %s%s", where, s.Key, s.Value, s.Kind, write, s.Both)
	}
	rename := fmt.Sprintf("rename %s to %s", s.Key, plan.StoredKey(s.Key))
	switch {
	case s.Kind != "" && s.Others > 0:
		rename += ", and " + write + s.Both
	case s.Kind != "":
		rename = write + s.Both
	}
	return fmt.Sprintf("%s: Helm cannot install this chart, because the API server rejects keys with two slashes, such as %s: %s", where, s.Key, rename)
}

// spellings collects the spellings of one chart, each key at most once per rule.
type spellings struct{ list []Spelling }

// text collects from the output of a template, before it is normalised.
func (s *spellings) text(text string) {
	for _, doc := range separator.Split(text, -1) {
		if !hinted(doc, orderingHints) {
			continue
		}
		if root := parse(doc); root != nil {
			s.object(documents.Resolve(root.Content[0]))
		}
	}
}

func (s *spellings) object(o *kyaml.Node) {
	metadata := child(o, "metadata")
	where := text(child(o, "kind")) + "/" + text(child(metadata, "name"))
	for k, value := range documents.Entries(child(metadata, "annotations")) {
		if key := documents.Resolve(k).Value; slices.Contains(sequencing, key) {
			s.annotation(where, key, documents.Resolve(value), plan.StoredKey(key) != key)
		}
	}
	if items := child(o, "items"); items != nil {
		for _, item := range items.Content {
			s.object(documents.Resolve(item))
		}
	}
}

// chart collects from the Chart.yaml files as they were before normalisation. Their keys may
// have two slashes, since they are not sent to an API server.
func (s *spellings) chart(src *source, path string) {
	for _, r := range src.facts.quoted {
		s.annotation("Chart.yaml of "+path, r.key, r.value, false)
	}
	for _, sub := range src.subs {
		s.chart(sub, path+"/"+sub.meta.Name)
	}
}

// annotation adds an annotation if Helm would refuse it. slashes is set for a key that the API
// server rejects.
func (s *spellings) annotation(where, key string, value *kyaml.Node, slashes bool) {
	quoted, list := asString(value)
	if !list {
		quoted = text(value)
	}
	rule := "R3"
	if !slashes {
		rule = "R1"
	}
	if strings.TrimSpace(quoted) == "" || !list && !slashes || plan.CheckAnnotation(key, quoted) != nil {
		return
	}
	for i := range s.list {
		if f := &s.list[i]; f.Key == key && f.Rule == rule {
			f.Others++
			return
		}
	}
	f := Spelling{
		Rule: rule, Key: key, Value: inline(value), Where: where,
		Both: plan.StoredKey(key) + ": " + documents.Quote(quoted),
	}
	if list {
		f.Kind = kindWord(value)
	}
	if list && documents.Resolve(value).Kind == kyaml.ScalarNode { // a number or a boolean
		f.Value, f.Both = quoted, plan.StoredKey(key)+`: "`+quoted+`"`
	}
	s.list = append(s.list, f)
}

// kindWord names the kind of a YAML value.
func kindWord(n *kyaml.Node) string {
	n = documents.Resolve(n)
	switch {
	case n.Kind == kyaml.SequenceNode:
		return "a list"
	case n.Kind == kyaml.MappingNode:
		return "a mapping"
	case n.ShortTag() == kyaml.NodeTagBool:
		return "a boolean"
	case n.ShortTag() == kyaml.NodeTagInt, n.ShortTag() == kyaml.NodeTagFloat:
		return "a number"
	}
	return "not a string"
}
