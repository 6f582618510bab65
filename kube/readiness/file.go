package readiness

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// entry is the value of a selector in a file.
type entry struct {
	Success expressions `json:"success,omitempty"`
	Failure expressions `json:"failure,omitempty"`
	Wait    *bool       `json:"wait,omitempty"`
	Timeout string      `json:"timeout,omitempty"`
}

// expressions is one expression or a list of them.
type expressions []string

func (e *expressions) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*e = nil
		if one != "" {
			*e = expressions{one}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("write an expression or a list of expressions, not %s", data)
	}
	*e = list
	return nil
}

// FileOf returns the content of a file of overrides. ParseFile reads it.
func FileOf(list []Override) ([]byte, error) {
	entries := map[string]entry{}
	for _, o := range merge(list) {
		e := entry{Success: o.Success, Failure: o.Failure, Wait: o.Wait}
		if o.Timeout > 0 {
			e.Timeout = o.Timeout.String()
		}
		entries[o.For] = e
	}
	return yaml.Marshal(entries)
}

// ParseFile parses a file of overrides:
//
//	Rollout.argoproj.io:              # KIND.GROUP, KIND/NAME, KIND.GROUP/NAME or a label selector
//	  success: "{.phase} == Healthy"  # an expression, or a list of which any one is enough
//	  failure: "{.phase} == Degraded" # may be missing
//	Deployment/debug:
//	  wait: false
//	StatefulSet/db:
//	  timeout: 10m
//
// name is that of the file, for errors.
func ParseFile(name string, data []byte) ([]Override, error) {
	var entries map[string]entry
	if err := yaml.UnmarshalStrict(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w; \""+text.Program+" help readiness\" shows the format", name, err)
	}
	var list []Override
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		o := Override{For: key, Success: e.Success, Failure: e.Failure, Wait: e.Wait}
		if e.Timeout != "" {
			var err error
			if o.Timeout, err = plan.ParseWait(e.Timeout); err != nil {
				return nil, fmt.Errorf("%s: %s: timeout %w", name, key, err)
			}
		}
		if len(o.Success)+len(o.Failure) == 0 && o.Wait == nil && o.Timeout == 0 {
			return nil, fmt.Errorf("%s: %s says nothing; write success, failure, wait or timeout", name, key)
		}
		if _, err := New([]Override{o}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, o)
	}
	return list, nil
}
