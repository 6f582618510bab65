package preflight

import (
	"fmt"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/journal"
	"lockstep/kube/session"
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

// TestRefusalOfABegunRun (S13): what refuses the rest of a run, whose earlier pod may have written, becomes the cause of its failure.
func TestRefusalOfABegunRun(t *testing.T) {
	pod := (*journal.Entry)(nil)
	for _, test := range []struct {
		common session.Common
		want   string
	}{
		{session.Common{Journal: pod}, "install: 2 problems; nothing was written:\n  a\n  b"},
		{session.Common{Journal: journal.Lost(nil).Entry("").Begin(journal.Start{})}, "install: 2 problems: a; b"},
		{session.Common{RunInProgress: &session.RunProgress{}}, "install: 2 problems: a; b"},
	} {
		p := &session.Prepared{Common: test.common, Info: event.Operation{Name: "install"}, Conflicts: []plan.Warning{{Message: "a"}, {Message: "b"}}}
		if got := refusal(p).Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
