package annotate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
)

// Spelling is the spelling of keys that have two slashes in HIP-0025 (R3). Lists are JSON
// strings in both spellings (R1).
type Spelling string

const (
	SpellingHelm Spelling = "helm" // one slash, which Helm 4.3 can install
	SpellingHIP  Spelling = "hip"  // two slashes, as in HIP-0025
)

// key converts an annotation key to this spelling.
func (s Spelling) key(key string) string {
	if s == SpellingHIP {
		for _, k := range charts.OrderingKeys {
			if k != key && plan.StoredKey(k) == key {
				return k
			}
		}
		return key
	}
	return plan.StoredKey(key)
}

// annotationLines returns the lines to insert for the wanted annotations. changed is the key of an
// annotation that exists with another value, "" if there is none.
func annotationLines(now, wanted map[string]string, spelling Spelling) (lines []string, changed string) {
	for _, key := range charts.OrderingKeys {
		value, ok := wanted[key]
		if _, stored := wanted[plan.StoredKey(key)]; !ok || plan.StoredKey(key) != key && stored {
			continue
		}
		old, exists := plan.Annotation(now, key)
		if exists && equivalent(old, value) {
			continue
		}
		if exists {
			changed = key
		}
		lines = append(lines, spelling.key(key)+": "+scalar(formatList(value)))
	}
	return lines, changed
}

// needsOf returns the groups or layers that annotations wait for.
func needsOf(annotations map[string]string) []string {
	for _, key := range []string{plan.AnnotationGroupDependsOn, plan.AnnotationLayerDependsOn} {
		value, _ := plan.Annotation(annotations, key)
		if list, err := plan.ParseList(value); err == nil {
			return list
		}
	}
	return nil
}

// equivalent reports whether two values are equal, or are lists of the same names.
func equivalent(a, b string) bool {
	if strings.TrimSpace(a) == strings.TrimSpace(b) {
		return true
	}
	one, errOne := plan.ParseList(a)
	two, errTwo := plan.ParseList(b)
	slices.Sort(one)
	slices.Sort(two)
	return errOne == nil && errTwo == nil && slices.Equal(one, two)
}

// formatList formats a list as JSON with a space after each comma. It returns other values unchanged.
func formatList(value string) string {
	if list, err := plan.ParseList(value); err == nil {
		return jsonList(list)
	}
	return value
}

func jsonList(names []string) string { return "[" + documents.JSONList(names) + "]" }

// condition returns the condition under which a branch of a template is rendered, "" for always, as an
// argument that works in every template. unknown is set if that is impossible, because the condition
// uses variables or a changed dot. The name of a group must have the same condition as its objects: a
// group that waits for a missing group loses its order (R8).
func (t *text) condition(at *branch) (when string, unknown bool) {
	var all []string
	for ; at.chain != nil; at = at.above {
		c := at.chain
		variable := strings.Contains(c.open.inner, "$") || at.above.in("with", "range")
		if c.word != "if" && c.word != "with" || variable || !c.open.isPlain() {
			return "", true
		}
		inner := rooted(c.open.inner)
		switch {
		case at == c.branches[0]:
			all = append(all, "("+inner+")")
		case c.hasElse && len(c.branches) == 2:
			all = append(all, "(not ("+inner+"))")
		default:
			return "", true
		}
	}
	if len(all) > 1 {
		slices.Reverse(all)
		return "(and " + strings.Join(all, " ") + ")", false
	}
	return strings.Join(all, ""), false
}

var (
	rootField = regexp.MustCompile(`(^|[\s(|])\.([A-Z])`)
	rootDot   = regexp.MustCompile(`(^|[\s(])\.($|[\s)])`)
)

// rooted replaces the dot in a pipeline with $.
func rooted(pipeline string) string {
	return rootDot.ReplaceAllString(rootField.ReplaceAllString(pipeline, "${1}$$.${2}"), "${1}$$${2}")
}

// groupKey is a group of a chart.
type groupKey struct{ chart, name string }

// presence is the condition under which a group is rendered: always, or if one of the conditions in when
// is true.
type presence struct {
	always bool
	when   []string
}

// presences returns the presence of each group. If the condition is unknown, the group counts as always
// rendered.
func (w *writer) presences(resources []plan.Resource, found []*foundPlace) map[groupKey]*presence {
	places := map[plan.Object]*place{}
	for _, f := range found {
		for _, o := range f.objects {
			places[o] = f.place
		}
	}
	out := map[groupKey]*presence{}
	for _, r := range resources {
		name := groupOf(r.Annotations)
		if name == "" {
			continue
		}
		key := groupKey{r.Chart, name}
		if out[key] == nil {
			out[key] = &presence{}
		}
		p, g := places[r.Object], out[key]
		switch {
		case p == nil || p.when == "" || p.unknown:
			g.always = true
		case !slices.Contains(g.when, p.when):
			g.when = append(g.when, p.when)
		}
	}
	return out
}

// groupOf returns the group or layer in annotations.
func groupOf(annotations map[string]string) string {
	for _, key := range []string{plan.AnnotationGroup, plan.AnnotationLayer} {
		name, _ := plan.Annotation(annotations, key)
		if name = strings.TrimSpace(name); name != "" {
			return name
		}
	}
	return ""
}

// conditionalList returns a list of groups as a template. conditional is false if no name needs a
// condition.
func conditionalList(chart string, names []string, at *place, present map[groupKey]*presence) (value string, conditional bool) {
	var fixed, items, conditions []string
	for _, name := range names {
		g := present[groupKey{chart, name}]
		switch {
		case g == nil || g.always || len(g.when) == 0 || len(g.when) == 1 && g.when[0] == at.when:
			fixed = append(fixed, name)
		case len(g.when) == 1:
			items, conditions = append(items, name), append(conditions, g.when[0])
		default:
			slices.Sort(g.when)
			items, conditions = append(items, name), append(conditions, "(or "+strings.Join(g.when, " ")+")")
		}
	}
	switch {
	case len(items) == 0:
		return "", false
	case len(fixed) == 0 && len(items) > 1:
		var list strings.Builder
		for i, name := range items {
			list.WriteString(" (ternary " + strconv.Quote(name) + ` "" (not (not ` + conditions[i] + ")))")
		}
		return "'{{ compact (list" + list.String() + ") | toJson }}'", true
	}
	var b strings.Builder
	b.WriteString("'[" + documents.JSONList(fixed))
	for i, name := range items {
		comma := ", "
		if len(fixed) == 0 {
			comma = ""
		}
		when := conditions[i][1 : len(conditions[i])-1] // without the parentheses
		b.WriteString("{{ if " + when + " }}" + comma + strconv.Quote(name) + "{{ end }}")
	}
	return b.String() + "]'", true
}
