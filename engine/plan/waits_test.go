package plan

import (
	"strings"
	"testing"
	"time"
)

// TestWaitAnnotations: the annotations about waiting are read, and a value without a meaning is an error (R22b).
func TestWaitAnnotations(t *testing.T) {
	for _, c := range []struct {
		wait, timeout, stable string
		want                  Wait
		fault                 string
	}{
		{},
		{wait: "true"},
		{wait: " false ", want: Wait{Never: true}},
		{wait: "no", fault: "annotation lockstep/wait must be true or false, but is 'no'"},
		{timeout: "90s", want: Wait{Timeout: 90 * time.Second, Source: AnnotationReadinessTimeout}},
		{stable: "30s", want: Wait{StableFor: 30 * time.Second}},
		{stable: "soon", fault: "annotation lockstep/stable-for must be a duration"},
		{timeout: "0s", fault: "annotation helm.sh/readiness-timeout must be a duration of more than 0"},
		{timeout: "10", fault: "annotation helm.sh/readiness-timeout must be a duration"},
	} {
		got, faults := ReadWait(map[string]string{AnnotationWait: c.wait, AnnotationReadinessTimeout: c.timeout, AnnotationStableFor: c.stable})
		if got != c.want || len(faults) > 1 || (len(faults) == 1) != (c.fault != "") {
			t.Errorf("%q, %q: %v, %v", c.wait, c.timeout, got, faults)
		} else if len(faults) == 1 && !strings.Contains(faults[0].Message, c.fault) {
			t.Errorf("%q, %q: %v, want %q", c.wait, c.timeout, faults, c.fault)
		}
	}
}

// TestLintNamesWhoWaits: lint names the groups that wait for the group of an object that nothing waits for, unless they wait
// only through others (R22b).
func TestLintNamesWhoWaits(t *testing.T) {
	object := func(name, group string, w Wait, after ...string) Resource {
		annotations := map[string]string{AnnotationGroup: group}
		if len(after) > 0 {
			annotations[AnnotationGroupDependsOn] = `["` + strings.Join(after, `", "`) + `"]`
		}
		return Resource{Object: Object{Kind: "Service", Name: name}, Chart: "c", Annotations: annotations, Wait: w}
	}
	var found []string
	for _, f := range Lint(&Chart{Path: "c"}, []Resource{
		object("debug", "a", Wait{Never: true}), object("slow", "a", Wait{Timeout: time.Second}), object("b", "b", Wait{}, "a"), object("c", "c", Wait{Never: true}, "a", "b"),
	}) {
		if f.Rule == "R22b" {
			found = append(found, f.Message)
		}
	}
	if len(found) != 1 || !strings.Contains(found[0], `group "b" waits for group "a", but nothing waits for Service/debug of that group`) {
		t.Errorf("%q", found)
	}
}

// TestNeverPassed (R33a): lint reports a point of no return in a group for which no run waits.
func TestNeverPassed(t *testing.T) {
	object := func(name, group string, w Wait) Resource {
		return Resource{Object: Object{Kind: "Service", Name: name}, Chart: "c", Wait: w, Annotations: map[string]string{AnnotationGroup: group, AnnotationNoReturn: "x"}}
	}
	var found []string
	for _, f := range Lint(&Chart{Path: "c"}, []Resource{object("a", "a", Wait{Never: true}), object("b", "b", Wait{Never: true}), object("c", "b", Wait{})}) {
		if f.Rule == "R33a" {
			found = append(found, f.Message)
		}
	}
	if len(found) != 0 { // groups that nothing orders are one
		t.Errorf("%q", found)
	}
	after := object("b", "b", Wait{})
	after.Annotations[AnnotationGroupDependsOn] = `["a"]`
	for _, f := range Lint(&Chart{Path: "c"}, []Resource{object("a", "a", Wait{Never: true}), after}) {
		if f.Rule == "R33a" {
			found = append(found, f.Message)
		}
	}
	if len(found) != 1 || !strings.Contains(found[0], `group "a" is a point of no return, but nothing waits for its objects`) {
		t.Errorf("%q", found)
	}
}

// TestNoReturnOfCharts: an object makes its group a point of no return, Chart.yaml the last groups of the chart (R33a).
func TestNoReturnOfCharts(t *testing.T) {
	object := func(chart, name, group, reason string, after ...string) Resource {
		annotations := map[string]string{AnnotationGroup: group, AnnotationNoReturn: reason}
		if len(after) > 0 {
			annotations[AnnotationGroupDependsOn] = `["` + strings.Join(after, `", "`) + `"]`
		}
		return Resource{Object: Object{Group: "batch", Kind: "Job", Name: name}, Chart: chart, Annotations: annotations}
	}
	tree := &Chart{Path: "c", DependsOn: []string{"db"}, Subcharts: []Subchart{{Name: "db", Chart: &Chart{Path: "c/db", NoReturn: "drops a table"}}}}
	p, err := Build(tree, []Resource{
		object("c/db", "a", "a", ""), object("c/db", "b", "b", "new  schema", "a"), object("c", "d", "d", "false"), object("c", "e", "e", "", "d"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"c/db:a": "", "c/db:b": "new schema; drops a table", "c:d": "", "c:e": ""}
	for _, g := range p.Groups {
		if g.NoReturn != want[g.ID] {
			t.Errorf("%s: %q, want %q", g.ID, g.NoReturn, want[g.ID])
		}
	}
	StartedJobs.Complete(p.Groups)
	for _, g := range p.Groups { // a Job that has only started has passed nothing
		if g.JobsComplete != (g.NoReturn != "") {
			t.Errorf("%s: its Job must be complete: %t", g.ID, g.JobsComplete)
		}
	}
	for _, g := range RemovalOrder(p.Groups) {
		if g.NoReturn != "" {
			t.Errorf("the removal of %s is a point of no return", g.ID)
		}
	}
}
