package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Rule says when an object is ready. With the zero value kstatus decides (R22).
type Rule struct {
	// Success and Failure replace kstatus if Success is given (R23).
	Success, Failure []Expression
	// Operator means that Success and Failure are the operator's, not the chart's (R22b).
	Operator bool
	// Inferred means that they are lockstep's, of an inferred order (R68).
	Inferred bool
	// JobsComplete makes a Job ready only when it is complete (R18, R22).
	JobsComplete bool
	// LateBinding means that the StorageClass of a claim waits for the first pod that uses the claim.
	LateBinding bool
	// FirstStatus means that the kind has a status that its controller writes: the object is in progress until then (R22a).
	FirstStatus bool
	// Hook applies Helm's rule for hooks instead (R5): a Job is ready when it is complete, a Pod when it has succeeded,
	// anything else as soon as it exists.
	Hook bool
}

// Custom reports whether expressions replace kstatus. An operator may leave out those for a failure.
func (r Rule) Custom() bool { return len(r.Success) > 0 }

// Text returns the expressions of the rule.
func (r Rule) Text() string {
	var all []string
	for _, e := range slices.Concat(r.Failure, r.Success) {
		all = append(all, e.String())
	}
	return strings.Join(all, "; ")
}

// judge returns whose expressions a custom rule has.
func (r Rule) judge() event.Judge {
	switch {
	case r.Operator:
		return event.ByOperator
	case r.Inferred:
		return event.ByBuiltIn
	}
	return event.ByChart
}

// Own returns whose rule decides about an object of a kind, "" for the usual ones: kstatus, and lockstep's for built-in kinds.
func (r Rule) Own(u *unstructured.Unstructured) event.Judge {
	if r.Custom() {
		return r.judge()
	}
	if k := compiledKinds()[groupKind(u)]; k != nil && (k.silent || k.decides()) {
		return event.ByBuiltIn
	}
	return ""
}

// OperatorRule returns the rule with the expressions of an operator (R22b). Without any it is the zero value.
func OperatorRule(success, failure []string) (r Rule, err error) {
	if r.Success, err = parseExpressions(success); err != nil {
		return Rule{}, err
	}
	if r.Failure, err = parseExpressions(failure); err != nil {
		return Rule{}, err
	}
	if len(r.Success) == 0 && len(r.Failure) > 0 {
		return Rule{}, errors.New("an expression for the failure needs one for the success; add it, for example {.phase} == Ready")
	}
	r.Operator = r.Custom()
	return r, nil
}

func parseExpressions(texts []string) (list []Expression, err error) {
	for _, text := range texts {
		e, err := parseExpression(text)
		if err != nil {
			return nil, fmt.Errorf("expression %q: %w", text, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// ParseRule parses the readiness annotations of an object: JSON arrays, because the chart loader has converted YAML
// lists (R1). The caller sets JobsComplete and Hook.
//
// If a value is not a list of strings, or an expression is invalid, the error names the annotation (R2, R24). If only
// one of the two annotations is set, kstatus decides (R24). An empty list or value counts as not set.
func ParseRule(annotations map[string]string) (Rule, error) {
	success, err := parseList(annotations, plan.AnnotationReadinessSuccess)
	if err != nil {
		return Rule{}, err
	}
	failure, err := parseList(annotations, plan.AnnotationReadinessFailure)
	if err != nil {
		return Rule{}, err
	}
	if len(success) == 0 || len(failure) == 0 {
		return Rule{}, nil
	}
	return Rule{Success: success, Failure: failure}, nil
}

// parseList parses the expressions of an annotation, which may be blank.
func parseList(annotations map[string]string, key string) ([]Expression, error) {
	value := annotations[key]
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	var texts []string
	if err := json.Unmarshal([]byte(value), &texts); err != nil {
		return nil, fmt.Errorf("%s: %q is not a list of expressions; write a JSON list, for example [\"{.succeeded} >= 1\"]", key, CleanText(value))
	}
	list, err := parseExpressions(texts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return list, nil
}
