package preflight

import (
	"fmt"
	"testing"

	"lockstep/engine/plan"
)

// TestRefusalIsShort: objects that share a conflict have one line if they are many, and one each if they are few.
func TestRefusalIsShort(t *testing.T) {
	shared := func(n int, rule, shared string) (all []plan.Warning) {
		for i := range n {
			o := plan.Object{Kind: "ConfigMap", Name: fmt.Sprint("c", i)}
			all = append(all, plan.Warning{Rule: rule, Object: &o, Message: o.String() + " " + shared, Shared: "all " + shared})
		}
		return all
	}
	const owned = `5 objects all owned; for example ConfigMap/c0, ConfigMap/c1, ConfigMap/c2 ("lockstep plan" lists all)`
	own := shared(5, "", "owned")
	tests := []struct {
		conflicts []plan.Warning
		want      string
	}{
		{own, owned},
		{append(append([]plan.Warning{{Message: "first"}}, own...), shared(3, "R29", "unknown")...),
			"install: 9 problems; nothing was written:\n  first\n  " + owned + "\n  ConfigMap/c0 unknown (R29)\n  ConfigMap/c1 unknown (R29)\n  ConfigMap/c2 unknown (R29)"},
		{own[:1], "ConfigMap/c0 owned"},
	}
	for _, tt := range tests {
		if got := (&Refusal{Operation: "install", Conflicts: tt.conflicts}).Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
