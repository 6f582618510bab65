package status

import (
	"strings"
	"testing"

	"lockstep/engine/plan"
)

func TestParseRule(t *testing.T) {
	tests := []struct {
		name             string
		success, failure string
		custom           bool
		err              string
	}{
		{name: "none"},
		{name: "both", success: `["{.succeeded} == 1", "{.succeeded} == 2"]`, failure: `["{.failed} >= 1"]`, custom: true},
		{name: "only success", success: `["{.a} == 1"]`},
		{name: "only failure", failure: `["{.a} == 1"]`},
		{name: "empty list counts as not set", success: `["{.a} == 1"]`, failure: `[]`},
		{name: "empty lists", success: `[]`, failure: " "},
		{name: "no list", success: `{.a} == 1`, failure: `["{.a} == 2"]`, err: `helm.sh/readiness-success: "{.a} == 1" is not a list of expressions`},
		{name: "list of numbers", success: `["{.a} == 1"]`, failure: `[1]`, err: `helm.sh/readiness-failure: "[1]" is not a list of expressions`},
		{name: "invalid success", success: `["{.a == 1"]`, failure: `["{.a} == 2"]`,
			err: `helm.sh/readiness-success: expression "{.a == 1": no closing brace`},
		{name: "invalid failure", success: `["{.a} == 1"]`, failure: `["{.a} == 2", "{.b} ~ 2"]`,
			err: `helm.sh/readiness-failure: expression "{.b} ~ 2": unknown operator "~"; use == or !=; patterns are not supported`},
		{name: "only failure, invalid", failure: `["x"]`, err: `helm.sh/readiness-failure: expression "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			annotations := map[string]string{}
			if tt.success != "" {
				annotations[plan.AnnotationReadinessSuccess] = tt.success
			}
			if tt.failure != "" {
				annotations[plan.AnnotationReadinessFailure] = tt.failure
			}
			rule, err := ParseRule(annotations)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if rule.Custom() != tt.custom {
				t.Errorf("custom: %v", rule.Custom())
			}
		})
	}
}
