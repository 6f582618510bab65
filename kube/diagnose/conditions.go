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

// complaints are the conditions that a healthy object has as False, or not at all.
var complaints = regexp.MustCompile(`(Stalled|Suspended|Degraded|Fail(ed|ure|ing)?|Error|Conflict\w*|Invalid|Blocked|Pressure|Terminating|Remaining|` +
	`FailureTarget|DisruptionTarget|Unavailable|Unschedulable|Pending|Resizing|Denied|Expired|NonStructuralSchema)$`)

// complains reports whether the condition says by being true that something is wrong.
func (c condition) complains() bool { return complaints.MatchString(c.kind) }

// unhealthy are the conditions that do not have the value that they have on a healthy
// object. Only these are evidence.
func unhealthy(u *unstructured.Unstructured) []condition {
	all := conditionsOf(u)
	operator := slices.ContainsFunc(all, func(c condition) bool { return c.kind == "Degraded" })
	return slices.DeleteFunc(all, func(c condition) bool {
		switch {
		case c.complains(), c.kind == "Reconciling", c.kind == "Progressing" && operator: // operators are done when it is False
			return c.status != "True"
		case c.kind == "ScalingLimited": // either is normal
			return true
		}
		return c.status == "True"
	})
}

// conditions are the unhealthy ones, in words.
func conditions(u *unstructured.Unstructured) (lines []string) {
	for _, c := range unhealthy(u) {
		lines = append(lines, c.String())
	}
	return lines
}

// fault is the unhealthy condition that says the most, nil where there is none: one
// that an expression asks about, then one that complains, then one that is False. Of
// two alike the newer one counts.
func fault(u *unstructured.Unstructured, expressions string) *condition {
	weight := func(c condition) int {
		w := 1 // it is under way
		switch {
		case c.complains():
			w = 6
		case c.status == "False":
			w = 4
		case c.status != "True":
			w = 2
		}
		if strings.Contains(expressions, `"`+c.kind+`"`) || strings.Contains(expressions, `'`+c.kind+`'`) {
			w += 7
		}
		if c.message != "" {
			w++
		}
		return w
	}
	all := unhealthy(u)
	if len(all) == 0 {
		return nil
	}
	worst := slices.MaxFunc(all, func(a, b condition) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.since, b.since))
	})
	return &worst
}
