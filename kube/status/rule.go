package status

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// The annotations of R23. Their values are JSON arrays: the chart loader
// converts YAML lists (R1).
const (
	SuccessAnnotation = "helm.sh/readiness-success"
	FailureAnnotation = "helm.sh/readiness-failure"
)

// Rule says how to tell whether one object is ready. The zero value is kstatus
// (R22).
type Rule struct {
	// Success and Failure replace kstatus if both are given (R23).
	Success, Failure []Expression
	// JobsComplete makes a Job ready only when it is complete (R18, R22).
	JobsComplete bool
	// Hook is Helm's rule for hooks: a Job is ready when it is complete, a Pod
	// when it has succeeded, anything else as soon as it exists. Annotations
	// have no effect then (R5).
	Hook bool
}

// Custom reports whether expressions replace kstatus.
func (r Rule) Custom() bool { return len(r.Success) > 0 && len(r.Failure) > 0 }

// ParseRule reads the readiness annotations of an object. JobsComplete and Hook
// are left for the caller to set.
//
// A value that is not a list of strings and an expression that does not parse
// are errors that name the annotation (R2, R24). If only one of the two
// annotations is given, the rule is kstatus and a warning under R24 is
// returned; the caller adds chart and object. An empty list or an empty value
// counts as not given.
func ParseRule(annotations map[string]string) (Rule, []plan.Warning, error) {
	success, err := parseList(annotations, SuccessAnnotation)
	if err != nil {
		return Rule{}, nil, err
	}
	failure, err := parseList(annotations, FailureAnnotation)
	if err != nil {
		return Rule{}, nil, err
	}
	switch rule := (Rule{Success: success, Failure: failure}); {
	case rule.Custom():
		return rule, nil, nil
	case len(success) > 0:
		return Rule{}, lonely(SuccessAnnotation, FailureAnnotation), nil
	case len(failure) > 0:
		return Rule{}, lonely(FailureAnnotation, SuccessAnnotation), nil
	}
	return Rule{}, nil, nil
}

// lonely warns of one annotation without the other.
func lonely(given, missing string) []plan.Warning {
	return []plan.Warning{{Rule: "R24", Message: fmt.Sprintf(
		"%s without %s: both are needed, so both are ignored and kstatus decides", given, missing)}}
}

// parseList reads the expressions of an annotation, none where it is blank.
func parseList(annotations map[string]string, key string) ([]Expression, error) {
	value := annotations[key]
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	var texts []string
	if err := json.Unmarshal([]byte(value), &texts); err != nil {
		return nil, fmt.Errorf("%s: %q is not a list of expressions", key, CleanText(value))
	}
	var list []Expression
	for _, text := range texts {
		e, err := parseExpression(text)
		if err != nil {
			return nil, fmt.Errorf("%s: expression %q: %w", key, text, err)
		}
		list = append(list, e)
	}
	return list, nil
}
