package status

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// The annotations of R23. Their values are JSON arrays: the chart loader converts YAML lists (R1).
const (
	SuccessAnnotation = "helm.sh/readiness-success"
	FailureAnnotation = "helm.sh/readiness-failure"
)

// Rule says when an object is ready. With the zero value kstatus decides (R22).
type Rule struct {
	// Success and Failure replace kstatus if both are given (R23).
	Success, Failure []Expression
	// JobsComplete makes a Job ready only when it is complete (R18, R22).
	JobsComplete bool
	// Hook applies Helm's rule for hooks instead (R5): a Job is ready when it is complete, a Pod when it has succeeded,
	// anything else as soon as it exists.
	Hook bool
}

// Custom reports whether expressions replace kstatus.
func (r Rule) Custom() bool { return len(r.Success) > 0 && len(r.Failure) > 0 }

// ParseRule parses the readiness annotations of an object. The caller sets JobsComplete and Hook.
//
// If a value is not a list of strings, or an expression is invalid, the error names the annotation (R2, R24). If only
// one of the two annotations is set, kstatus decides, and ParseRule returns a warning that names neither chart nor object
// (R24). An empty list or value counts as not set.
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
		return Rule{}, unpaired(SuccessAnnotation, FailureAnnotation), nil
	case len(failure) > 0:
		return Rule{}, unpaired(FailureAnnotation, SuccessAnnotation), nil
	}
	return Rule{}, nil, nil
}

// unpaired warns about one annotation without the other.
func unpaired(given, missing string) []plan.Warning {
	return []plan.Warning{{Rule: "R24", Message: fmt.Sprintf(
		"%s without %s: both are needed, so both are ignored and kstatus decides", given, missing)}}
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
