// Package readiness holds what an operator says about the readiness of objects from outside their chart (R22b): Override is
// one statement, Operator holds the checked ones of an operation. Package kube and the packages below it may import it.
package readiness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// The flags whose values become Overrides.
const (
	FlagReadiness = "--readiness"
	FlagNoWait    = "--no-wait-for"
	FlagTimeout   = "--readiness-timeout"
)

// Override is a statement about the readiness of some objects. It is stored with a revision, so its fields are only added.
type Override struct {
	// For selects the objects: KIND[.GROUP][/NAME], or a label selector.
	For string `json:"for"`
	// Success and Failure are expressions as in the annotations of a chart (R23), of which any one is enough. Failure may be empty.
	Success []string `json:"success,omitempty"`
	Failure []string `json:"failure,omitempty"`
	// Wait, if not nil, says whether the run waits for the objects.
	Wait *bool `json:"wait,omitempty"`
	// Timeout is the time in which each object must become ready, 0 for the usual one.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Operator holds the overrides of an operation. Nil has none. It does not change.
type Operator struct{ rules []rule }

// rule is a checked Override.
type rule struct {
	Override
	selector selector
	status   status.Rule
}

// New checks overrides. Those for the same objects are merged: their expressions are added, and the last timeout counts. It
// returns nil if there are none.
func New(overrides []Override) (*Operator, error) {
	if len(overrides) == 0 {
		return nil, nil
	}
	o := &Operator{}
	for _, next := range merge(overrides) {
		r := rule{Override: next}
		var err error
		if r.selector, err = parseSelector(next.For); err != nil {
			return nil, err
		}
		if next.Timeout < 0 {
			return nil, fmt.Errorf("the readiness timeout of %s must be more than 0", next.For)
		}
		if r.status, err = status.OperatorRule(next.Success, next.Failure); err != nil {
			return nil, fmt.Errorf("the readiness of %s: %w", next.For, err)
		}
		o.rules = append(o.rules, r)
	}
	slices.SortStableFunc(o.rules, func(a, b rule) int { return cmp.Compare(b.selector.rank(), a.selector.rank()) })
	return o, nil
}

// merge merges the overrides for the same objects, in order.
func merge(overrides []Override) (merged []Override) {
	at := map[string]int{}
	for _, o := range overrides {
		i, known := at[o.For]
		if !known {
			at[o.For] = len(merged)
			merged = append(merged, Override{For: o.For, Success: slices.Clone(o.Success), Failure: slices.Clone(o.Failure), Wait: o.Wait, Timeout: o.Timeout})
			continue
		}
		m := &merged[i]
		m.Success, m.Failure = append(m.Success, o.Success...), append(m.Failure, o.Failure...)
		m.Wait, m.Timeout = cmp.Or(o.Wait, m.Wait), cmp.Or(o.Timeout, m.Timeout)
	}
	return merged
}

// Join returns overrides of two sources. If both have expressions for the same objects, those of the nearer source count.
func Join(farther, nearer []Override) []Override {
	var all []Override
	for _, o := range farther {
		if slices.ContainsFunc(nearer, func(n Override) bool { return n.For == o.For && len(n.Success)+len(n.Failure) > 0 }) {
			o.Success, o.Failure = nil, nil
		}
		all = append(all, o)
	}
	return append(all, nearer...)
}

// RuleOf returns the rule by which an object is ready. The nearest wins: an override that names the object, one for its kind,
// one for its labels, then the annotations of the chart, then what the kind says. The caller sets JobsComplete and Hook.
//
// Rule R22b: what the operator says comes before the chart, and that before what is known of a kind.
func (o *Operator) RuleOf(object plan.Object, labels, annotations map[string]string) (status.Rule, error) {
	if r := o.find(object, labels, func(r *rule) bool { return len(r.Success) > 0 }); r != nil {
		return r.status, nil
	}
	return status.ParseRule(annotations)
}

// Wait returns how the run waits for an object: chart is what its annotations say.
func (o *Operator) Wait(object plan.Object, labels map[string]string, chart plan.Wait) plan.Wait {
	if r := o.find(object, labels, func(r *rule) bool { return r.Wait != nil }); r != nil {
		chart.Never = !*r.Wait
	}
	if r := o.find(object, labels, func(r *rule) bool { return r.Timeout > 0 }); r != nil {
		chart.Timeout, chart.Source = r.Timeout, FlagTimeout+" "+r.For
	}
	return chart
}

// find returns the first rule for an object that has what is looked for, or nil.
func (o *Operator) find(object plan.Object, labels map[string]string, has func(*rule) bool) *rule {
	if o == nil {
		return nil
	}
	for i := range o.rules {
		if r := &o.rules[i]; has(r) && r.selector.matches(object, labels) {
			return r
		}
	}
	return nil
}

// Object is an object of an operation.
type Object struct {
	plan.Object
	Labels map[string]string
}

// Unmatched returns a warning for each override that applies to no object, by Override.For: the operator may have misspelt it.
func (o *Operator) Unmatched(objects []Object) map[string]plan.Warning {
	if o == nil {
		return nil
	}
	warnings := map[string]plan.Warning{}
	kinds, names := map[string]bool{}, map[string]bool{}
	for _, x := range objects {
		kinds[x.Kind], kinds[kindText(x.GroupKind())] = true, true
	}
	for _, r := range o.rules {
		if slices.ContainsFunc(objects, func(x Object) bool { return r.selector.matches(x.Object, x.Labels) }) {
			continue
		}
		problem, near := "no object of the release has these labels", ""
		if s := r.selector; s.labels == nil {
			problem = "the release has no object of this kind"
			near = plan.NearestName(s.kind, slices.Sorted(maps.Keys(kinds)))
			clear(names)
			for _, x := range objects {
				if s.matchesKind(x.Object) {
					names[x.Name] = true
				}
			}
			if len(names) > 0 {
				problem = "the release has no object of this kind with this name"
				if near = plan.NearestName(s.name, slices.Sorted(maps.Keys(names))); near != "" {
					near = s.kind + "/" + near
				}
			}
		}
		if near != "" {
			problem += "; did you mean " + near + "?"
		}
		warnings[r.For] = plan.Warning{Rule: "R22b", Message: "readiness of " + r.For + ": " + problem}
	}
	return warnings
}

// kindText returns KIND.GROUP, or KIND for the core group.
func kindText(k plan.GroupKind) string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// ParseFlag parses a value of FlagReadiness: KIND[.GROUP][/NAME]='SUCCESS; FAILURE'.
func ParseFlag(value string) (Override, error) {
	objects, expressions, found := strings.Cut(value, "=")
	if objects = strings.TrimSpace(objects); !found || strings.ContainsAny(objects, "{};") || objects == "" {
		return Override{}, fmt.Errorf("%s %q: write KIND.GROUP[/NAME]='SUCCESS; FAILURE', for example "+
			"Rollout.argoproj.io='{.phase} == Healthy; {.phase} == Degraded'", FlagReadiness, value)
	}
	success, failure := splitExpressions(expressions)
	o := Override{For: objects}
	if success != "" {
		o.Success = []string{success}
	}
	if failure != "" {
		o.Failure = []string{failure}
	}
	return o, nil
}

// splitExpressions splits at the first semicolon that is in neither quotes nor braces.
func splitExpressions(s string) (success, failure string) {
	braces, end := 0, len(s)
	status.Unquoted(s, func(i int, c byte) bool {
		switch {
		case c == '{':
			braces++
		case c == '}':
			braces--
		case c == ';' && braces <= 0:
			end = i
		}
		return end == len(s)
	})
	return strings.TrimSpace(s[:end]), strings.TrimSpace(s[min(end+1, len(s)):])
}

// ParseNoWait parses a value of FlagNoWait.
func ParseNoWait(value string) (Override, error) {
	never := false
	o := Override{For: strings.TrimSpace(value), Wait: &never}
	if _, err := parseSelector(o.For); err != nil {
		return Override{}, fmt.Errorf("%s: %w", FlagNoWait, err)
	}
	return o, nil
}

// ParseTimeout parses a value of FlagTimeout for some objects: KIND[.GROUP][/NAME]=DURATION. forSome is false for a value
// without an equals sign.
func ParseTimeout(value string) (o Override, forSome bool, err error) {
	objects, text, forSome := strings.Cut(value, "=")
	if !forSome {
		return Override{}, false, nil
	}
	d, err := plan.ParseWait(text)
	if err != nil {
		return Override{}, true, fmt.Errorf("the readiness timeout of %s %w", objects, err)
	}
	o = Override{For: strings.TrimSpace(objects), Timeout: d}
	_, err = parseSelector(o.For)
	return o, true, err
}
