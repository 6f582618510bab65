package annotate

import (
	"encoding/json"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// annotationLines are the lines that make annotations say what is wanted of them.
// What they say already in another way is changed: then its key is returned, too.
//
// Keys and lists are spelled as both this program and Helm take them (R1, R3).
func annotationLines(now, wanted map[string]string) (lines []string, changed string) {
	for _, key := range ordering {
		value, ok := wanted[key]
		if !ok || plan.StoredKey(key) != key && hasStored(wanted, key) {
			continue
		}
		has, there := plan.Annotation(now, key)
		if !there {
			has, there = now[plan.StoredKey(key)]
		}
		if there && same(has, value) {
			continue
		}
		if there {
			changed = key
		}
		line := plan.StoredKey(key) + ": " + scalar(spaced(value))
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines, changed
}

// needsOf are the groups or layers that annotations wait for.
func needsOf(annotations map[string]string) []string {
	for _, key := range []string{plan.AnnotationGroupDependsOn, plan.AnnotationLayerDependsOn} {
		value, _ := plan.Annotation(annotations, key)
		if list, err := plan.ParseList(value); err == nil {
			return list
		}
	}
	return nil
}

func hasStored(annotations map[string]string, key string) bool {
	_, ok := annotations[plan.StoredKey(key)]
	return ok
}

// same reports whether two values mean the same.
func same(a, b string) bool {
	if strings.TrimSpace(a) == strings.TrimSpace(b) {
		return true
	}
	one, errOne := plan.ParseList(a)
	two, errTwo := plan.ParseList(b)
	slices.Sort(one)
	slices.Sort(two)
	return errOne == nil && errTwo == nil && slices.Equal(one, two)
}

// spaced is a value as people write it: a list with a space behind each comma.
func spaced(value string) string {
	if list, err := plan.ParseList(value); err == nil {
		return jsonList(list)
	}
	return value
}

func jsonList(names []string) string {
	items := make([]string, len(names))
	for i, name := range names {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(name); err != nil {
			items[i] = `""` // a string can always be encoded
			continue
		}
		items[i] = strings.TrimSpace(b.String())
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// flowList is a list in YAML, which JSON is.
func flowList(names []string) string { return jsonList(names) }
