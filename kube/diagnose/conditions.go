package diagnose

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/kube/status"
)

// condition is one of an object's, as its controller has written it.
type condition struct{ kind, status, reason, message, since string }

// String is "Available is False: Reason: message".
func (c condition) String() string {
	parts := slices.DeleteFunc([]string{c.kind + " is " + c.status, c.reason, c.message}, func(s string) bool { return s == "" })
	return status.CleanText(strings.Join(parts, ": "))
}

func conditionsOf(u *unstructured.Unstructured) []condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var all []condition
	for _, item := range list {
		m, _ := item.(map[string]any)
		text := func(key string) string { s, _ := m[key].(string); return s }
		if text("type") != "" {
			all = append(all, condition{text("type"), text("status"), text("reason"), text("message"), text("lastTransitionTime")})
		}
	}
	return all
}

// conditions lists an object's conditions in words.
func conditions(u *unstructured.Unstructured) (lines []string) {
	for _, c := range conditionsOf(u) {
		lines = append(lines, c.String())
	}
	return lines
}

// complains are the conditions that say by being true that something is wrong.
var complains = regexp.MustCompile(`(Stalled|Suspended|Degraded|Fail(ed|ure|ing)?|Error|Conflict\w*|Invalid|Blocked|Pressure|Terminating|Remaining)$`)

// wrong reports whether the condition says that something is wrong, or not yet right.
func (c condition) wrong() bool { return complains.MatchString(c.kind) == (c.status == "True") }

// fault is the condition that says most of what is wrong, nil where none does:
// one that an expression asks about, then one that complains, then one that is
// not so. Of two alike the newer one counts.
func fault(u *unstructured.Unstructured, expressions string) *condition {
	weight := func(c condition) int {
		w := 0
		switch {
		case complains.MatchString(c.kind) && c.status == "True":
			w = 6
		case complains.MatchString(c.kind):
			return 0
		case c.status == "False":
			w = 4
		case c.status == "Unknown":
			w = 2
		case c.kind == "Reconciling" && c.status == "True":
			w = 1
		default:
			return 0
		}
		if strings.Contains(expressions, `"`+c.kind+`"`) || strings.Contains(expressions, `'`+c.kind+`'`) {
			w += 7
		}
		if c.message != "" {
			w++
		}
		return w
	}
	all := slices.DeleteFunc(conditionsOf(u), func(c condition) bool { return weight(c) == 0 })
	if len(all) == 0 {
		return nil
	}
	worst := slices.MaxFunc(all, func(a, b condition) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.since, b.since))
	})
	return &worst
}
