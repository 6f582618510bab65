package status

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// The annotations of R23. The chart loader has turned YAML lists into JSON
// arrays in a string (R1).
const (
	SuccessAnnotation = "helm.sh/readiness-success"
	FailureAnnotation = "helm.sh/readiness-failure"
)

// Rule says how the readiness of one object is judged. The zero value is
// kstatus (R22).
type Rule struct {
	// Success and Failure replace kstatus where both are given (R23).
	Success, Failure []Expression
	// JobsComplete makes a Job ready only once it has completed (R18, R22).
	JobsComplete bool
	// Hook is how Helm judges hooks: Jobs are ready once complete, Pods once
	// succeeded, everything else once it is there. Annotations count for
	// nothing then (R5).
	Hook bool
}

// Custom reports whether expressions replace kstatus.
func (r Rule) Custom() bool { return len(r.Success) > 0 && len(r.Failure) > 0 }

// ParseRule reads the readiness annotations of an object. Of the result,
// JobsComplete and Hook are the caller's to set.
//
// An expression that does not parse is an error that names the annotation and
// the expression (R24). Where only one of the two annotations is given the
// rule is kstatus and a warning under R24 is returned, where a value is not a
// list of strings one under R2; the caller adds chart and object. An empty list
// or an empty value counts as not given.
func ParseRule(annotations map[string]string) (Rule, []plan.Warning, error) {
	success, w1, err := parseList(annotations, SuccessAnnotation)
	if err != nil {
		return Rule{}, nil, err
	}
	failure, w2, err := parseList(annotations, FailureAnnotation)
	if err != nil {
		return Rule{}, nil, err
	}
	warnings := append(w1, w2...)
	rule := Rule{Success: success, Failure: failure}
	if rule.Custom() {
		return rule, nil, nil
	}
	if len(warnings) == 0 {
		switch {
		case len(success) > 0:
			warnings = append(warnings, lonely(SuccessAnnotation, FailureAnnotation))
		case len(failure) > 0:
			warnings = append(warnings, lonely(FailureAnnotation, SuccessAnnotation))
		}
	}
	return Rule{}, warnings, nil
}

func lonely(given, missing string) plan.Warning {
	return plan.Warning{Rule: "R24", Message: fmt.Sprintf(
		"%s is given without %s: both are needed, so neither is looked at and kstatus decides", given, missing)}
}

func parseList(annotations map[string]string, key string) ([]Expression, []plan.Warning, error) {
	value := annotations[key]
	if strings.TrimSpace(value) == "" {
		return nil, nil, nil
	}
	var texts []string
	if err := json.Unmarshal([]byte(value), &texts); err != nil {
		return nil, []plan.Warning{{Rule: "R2", Message: fmt.Sprintf(
			"%s: %q is not a list of strings", key, CleanText(value))}}, nil
	}
	var list []Expression
	for _, text := range texts {
		e, err := ParseExpression(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: expression %q: %w", key, text, err)
		}
		list = append(list, e)
	}
	return list, nil, nil
}
