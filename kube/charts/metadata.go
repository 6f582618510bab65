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
	"lockstep/kube/status"
)

// unsupportedFields are the fields of a Chart.yaml that Helm's loader drops or refuses.
type unsupportedFields struct {
	// dependsOn is helm.sh/depends-on/subcharts, and dependsOnKey its key as the file spells it (R3).
	dependsOn    []string
	dependsOnKey string
	// dependsOnByDependency is depends-on of each dependency, by alias, else name, and annotatedDependsOn the same as an annotation (R4).
	dependsOnByDependency, annotatedDependsOn map[string][]string
	// misspelt are the keys of dependencies that resemble depends-on, by alias, else name of the dependency.
	misspelt map[string]misspeltKey
	// faults are about malformed lists (R2).
	faults []plan.Fault
	// converted are the annotations whose values became strings.
	converted []convertedAnnotation
	// v3 is set for apiVersion v3 (R34a).
	v3 bool
}

type misspeltKey struct{ file, key string }

type convertedAnnotation struct {
	key   string
	value *kyaml.Node // before the conversion
}

// extract reads the unsupported fields in the data of a file, Chart.yaml or requirements.yaml, and returns the
// data in a form that Helm can load: with annotation lists as JSON strings (R1), without depends-on,
// and with apiVersion v2 instead of v3. Data that is not a YAML mapping is returned
// unchanged; Helm's loader reports the error.
func (f *unsupportedFields) extract(file string, data []byte) []byte {
	doc := parseYAML(string(data))
	if doc == nil {
		return data
	}
	if hasMerge(doc) {
		if expanded := expand(string(data)); expanded != nil {
			doc = expanded
		}
	}
	root := doc.Content[0]
	changed := f.extractVersion(root)
	changed = f.extractAnnotations(file, child(root, "annotations")) || changed
	if deps := child(root, "dependencies"); deps != nil && deps.Kind == kyaml.SequenceNode {
		for _, d := range deps.Content {
			changed = f.extractDependency(file, documents.Resolve(d)) || changed
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

const listOfNames = "a list of names"

// fault records that a field is not what it must be. Ignoring it would silently drop the order.
func (f *unsupportedFields) fault(file, field, wanted string, value *kyaml.Node) {
	f.faults = append(f.faults, plan.Fault{Rule: "R2", Message: fmt.Sprintf("%s in %s must be %s, but is %s", field, file, wanted, inline(value))})
}

// extractVersion replaces apiVersion v3 in a Chart.yaml. It reports whether root changed.
//
// Rule R34a: apiVersion v3 is loaded as v2.
func (f *unsupportedFields) extractVersion(root *kyaml.Node) bool {
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
func (f *unsupportedFields) extractAnnotations(file string, m *kyaml.Node) (changed bool) {
	for k, value := range documents.Entries(m) {
		key := k.Value
		switch key {
		case plan.AnnotationDependsOn:
			f.extractDependsOn(file, value)
		case plan.AnnotationSubchartDependsOn, plan.StoredKey(plan.AnnotationSubchartDependsOn):
			if list, ok := names(value); ok {
				f.dependsOn = append(f.dependsOn, list...)
				f.dependsOnKey = key
			} else {
				f.fault(file, "annotation "+key, listOfNames, value)
			}
		default:
			continue
		}
		if text, convert := toStringValue(value); convert {
			old := *documents.Resolve(value)
			f.converted = append(f.converted, convertedAnnotation{key, &old})
			setString(value, text)
			changed = true
		}
	}
	return changed
}

// extractDependsOn reads the annotation that says which subcharts each subchart waits for, a mapping or the text of one (R4).
func (f *unsupportedFields) extractDependsOn(file string, value *kyaml.Node) {
	m := documents.Resolve(value)
	if doc := parseYAML(m.Value); m.Kind == kyaml.ScalarNode && doc != nil {
		m = documents.Resolve(doc.Content[0])
	}
	if m.Kind == kyaml.ScalarNode && strings.TrimSpace(m.Value) == "" {
		return
	}
	f.annotatedDependsOn = map[string][]string{}
	ok := m.Kind == kyaml.MappingNode
	for k, v := range documents.Entries(m) {
		list, isList := names(v)
		f.annotatedDependsOn[k.Value], ok = list, ok && isList
	}
	if !ok {
		f.fault(file, "annotation "+plan.AnnotationDependsOn, "a mapping from names of subcharts to lists of names", value)
	}
}

// waits returns the subcharts that the subchart with that alias, or name if it has none, waits for.
func (f *unsupportedFields) waits(subchart string) (list []string) {
	for _, name := range slices.Concat(f.dependsOnByDependency[subchart], f.annotatedDependsOn[subchart]) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// dropped returns all that subcharts wait for, and reports whether helm package drops some of it: what is not in the annotation.
func (f *unsupportedFields) dropped() (all map[string][]string, dropped bool) {
	all = map[string][]string{}
	for _, declared := range []map[string][]string{f.dependsOnByDependency, f.annotatedDependsOn} {
		for name := range declared {
			if all[name] = f.waits(name); len(all[name]) > len(f.annotatedDependsOn[name]) {
				dropped = true
			}
		}
	}
	return all, dropped
}

// extractDependency moves depends-on of one entry of dependencies into f. It reports whether m
// changed.
//
// Rule R4: depends-on is read here because Helm's loader drops it.
func (f *unsupportedFields) extractDependency(file string, m *kyaml.Node) bool {
	name := cmp.Or(scalarText(child(m, "alias")), scalarText(child(m, "name")))
	f.noteMisspelt(file, m, name)
	key, value := documents.Entry(m, "depends-on")
	if key == nil {
		return false
	}
	at := slices.Index(m.Content, key)
	m.Content = slices.Concat(m.Content[:at], m.Content[at+2:])
	list, ok := names(value)
	if !ok {
		f.fault(file, "depends-on of dependency "+name, listOfNames, value)
		return true
	}
	if f.dependsOnByDependency == nil {
		f.dependsOnByDependency = map[string][]string{}
	}
	f.dependsOnByDependency[name] = list
	return true
}

// noteMisspelt adds the key of a dependency that looks like depends-on to misspelt. Helm ignores unknown keys.
func (f *unsupportedFields) noteMisspelt(file string, m *kyaml.Node, name string) {
	for k := range documents.Entries(m) {
		if key := k.Value; key != "depends-on" && plan.NearestName(key, []string{"depends-on"}) != "" {
			if f.misspelt == nil {
				f.misspelt = map[string]misspeltKey{}
			}
			f.misspelt[name] = misspeltKey{file, key}
		}
	}
}

// IncompatibleAnnotation is an ordering annotation that lockstep accepts and Helm does not: Helm
// accepts only strings, and sends every key to the API server unchanged.
type IncompatibleAnnotation struct {
	// Rule is the rule by which lockstep accepts it.
	Rule string
	// Key and Value are as written. Where is the first object or file that has it, and
	// Others is the number of further ones.
	Key, Value, Where string
	// Kind is the kind of the value, such as "a number", or "" for a string.
	Kind   string
	Others int
	// Portable is a line that works with Helm and lockstep.
	Portable string
}

func (a IncompatibleAnnotation) String() string {
	where, write := a.Where, "write "+a.Portable
	if a.Others > 0 { // their values may differ
		where, write = fmt.Sprintf("%s and %d more", a.Where, a.Others), "write each value as a string, for example "+a.Portable
	}
	switch a.Rule {
	case "R4":
		return fmt.Sprintf("%s: helm package drops %s, so that the packaged chart deploys its subcharts without this order; add to annotations: %s", where, a.Key, a.Portable)
	case "R1":
		return fmt.Sprintf("%s: %s: %s is %s, but Helm accepts only string annotations; %s", where, a.Key, a.Value, a.Kind, write)
	}
	fix := fmt.Sprintf("rename %s to %s", a.Key, plan.StoredKey(a.Key))
	switch {
	case a.Kind != "" && a.Others > 0:
		fix += ", and " + write
	case a.Kind != "":
		fix = write
	}
	return fmt.Sprintf("%s: Helm cannot install this chart, because the API server rejects keys with two slashes, such as %s: %s", where, a.Key, fix)
}

// annotationChecker finds the incompatible annotations of one chart. It reports each key once per rule.
type annotationChecker struct{ found []IncompatibleAnnotation }

// checkTemplate checks the output of a template, before it is normalised.
func (c *annotationChecker) checkTemplate(text string) {
	for _, doc := range separator.Split(text, -1) {
		if !hinted(doc, orderingHints) {
			continue
		}
		if root := parseYAML(doc); root != nil {
			c.checkObject(documents.Resolve(root.Content[0]))
		}
	}
}

func (c *annotationChecker) checkObject(o *kyaml.Node) {
	metadata := child(o, "metadata")
	where := scalarText(child(o, "kind")) + "/" + scalarText(child(metadata, "name"))
	for k, value := range documents.Entries(child(metadata, "annotations")) {
		if key := documents.Resolve(k).Value; slices.Contains(convertedKeys, key) {
			c.checkAnnotation(where, key, documents.Resolve(value), plan.StoredKey(key) != key)
		}
	}
	if items := child(o, "items"); items != nil {
		for _, item := range items.Content {
			c.checkObject(documents.Resolve(item))
		}
	}
}

// checkChart checks the Chart.yaml files as they were before normalisation. Their keys may have
// two slashes, because they are not sent to an API server.
func (c *annotationChecker) checkChart(cf *chartFiles, path string) {
	for _, a := range cf.unsupported.converted {
		c.checkAnnotation("Chart.yaml of "+path, a.key, a.value, false)
	}
	if all, dropped := cf.unsupported.dropped(); dropped {
		c.found = append(c.found, IncompatibleAnnotation{
			Rule: "R4", Key: "depends-on", Where: "Chart.yaml of " + path, Portable: plan.AnnotationDependsOn + ": " + documents.Quote(documents.JSONLists(all)),
		})
	}
	for _, sub := range cf.subs {
		c.checkChart(sub, path+"/"+sub.meta.Name)
	}
}

// checkAnnotation adds an annotation if it is valid but incompatible. twoSlashes is set for a key
// that the API server rejects.
func (c *annotationChecker) checkAnnotation(where, key string, value *kyaml.Node, twoSlashes bool) {
	converted, changed := toStringValue(value)
	if !changed {
		converted = scalarText(value)
	}
	rule := "R3"
	if !twoSlashes {
		rule = "R1"
	}
	if strings.TrimSpace(converted) == "" || !changed && !twoSlashes || plan.CheckAnnotation(key, converted) != nil {
		return
	}
	if _, err := status.ParseRule(map[string]string{key: converted}); err != nil {
		return // R24 refuses it in any format
	}
	for i := range c.found {
		if a := &c.found[i]; a.Key == key && a.Rule == rule {
			a.Others++
			return
		}
	}
	a := IncompatibleAnnotation{
		Rule: rule, Key: key, Value: inline(value), Where: where,
		Portable: plan.StoredKey(key) + ": " + documents.Quote(converted),
	}
	if changed {
		a.Kind = kindWord(value)
	}
	if changed && documents.Resolve(value).Kind == kyaml.ScalarNode { // a number or a boolean
		a.Value, a.Portable = converted, plan.StoredKey(key)+`: "`+converted+`"`
	}
	c.found = append(c.found, a)
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
