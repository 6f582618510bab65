package event

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/engine/plan"
)

// TestRoots expects the failures of two groups that fail independently, one of them because of two
// objects, but not those of the groups that wait for them.
func TestRoots(t *testing.T) {
	job, web, db, ddl := plan.Object{Kind: "Job", Name: "migrate"}, plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "StatefulSet", Name: "db"}, plan.Object{Kind: "ConfigMap", Name: "ddl"}
	at := func(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)) }
	var s State
	for _, e := range []Event{
		{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{
			{ID: "a", Objects: []plan.Object{ddl, web, db}}, {ID: "b", Objects: []plan.Object{job}}, {ID: "c", After: []string{"a", "b"}, Objects: []plan.Object{web}}}}}},
		{Kind: KindGroup, Phase: "apply", Group: "a", Status: Running},
		{Kind: KindGroup, Phase: "apply", Group: "b", Status: Running},
		{Kind: KindObject, Phase: "apply", Group: "a", Object: &ddl, Status: Ready},
		{Kind: KindObject, Phase: "apply", Group: "a", Object: &web, Status: InProgress, Message: "0 of 1 available"},
		{Kind: KindObject, Phase: "apply", Group: "a", Object: &db, Status: InProgress},
		{Kind: KindDiagnosis, Phase: "apply", Group: "a", Object: &web, Message: "container web exited with code 1", Cause: "container web exited with code 1", Evidence: []string{"no db"}},
		{Kind: KindObject, Phase: "apply", Group: "b", Object: &job, Status: Failed, Message: "1 failed", Time: at(2)},
		{Kind: KindGroup, Phase: "apply", Group: "b", Status: Failed, Object: &job, Message: "Job/migrate: 1 failed", Cause: "1 failed", Time: at(2)},
		{Kind: KindGroup, Phase: "apply", Group: "a", Status: Failed, Object: &db, Cause: "0 of 1 available", Timeout: &Timeout{After: 12 * time.Second, Flag: "--readiness-timeout"}, Time: at(12.2)},
		{Kind: KindGroup, Phase: "apply", Group: "c", Status: Skipped, Message: "not started: a failed"},
	} {
		if e.Time.IsZero() {
			e.Time = at(0.1)
		}
		s.Apply(e)
	}
	roots := s.Roots()
	want := []string{
		"b Job/migrate 1 failed 0s 0s",
		"a StatefulSet/db 0 of 1 available 12s 0s",
		"a Deployment/web container web exited with code 1 0s 12.1s",
	}
	for i, r := range roots {
		after := time.Duration(0)
		if r.Timeout != nil {
			after = r.Timeout.After
		}
		if got := fmt.Sprint(r.Group.ID, " ", r.Object.Object, " ", r.Cause, " ", after, " ", r.Waited); i >= len(want) || got != want[i] {
			t.Errorf("root %d is %q", i, got)
		}
	}
	if len(roots) != len(want) {
		t.Errorf("%d roots, want %d", len(roots), len(want))
	}
	s.Apply(Event{Kind: KindGroup, Phase: "apply", Group: "a", Status: Running})
	if n := len(s.Roots()); n != 1 {
		t.Errorf("%d roots after a retry, want 1", n)
	}
}

// TestCauseIsUpdated expects that heartbeats and failures of groups update the restarts and the evidence
// of a cause, and never replace a known cause with a vaguer one.
func TestCauseIsUpdated(t *testing.T) {
	api := plan.Object{Kind: "Deployment", Name: "api"}
	var s State
	s.Apply(Event{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{{ID: "a", Objects: []plan.Object{api}}}}}})
	o := s.Find("apply", "a").Find(api)
	for _, c := range []struct {
		e               Event
		cause, evidence string
	}{
		{Event{Kind: KindDiagnosis, Cause: "container api exited with code 3", Evidence: []string{"BackOff"}}, "container api exited with code 3", "BackOff"},
		{Event{Kind: KindWaiting, Cause: "container api exited with code 3 (1 restart)", Evidence: []string{"FATAL"}}, "container api exited with code 3 (1 restart)", "FATAL"},
		{Event{Kind: KindGroup, Status: Failed, Cause: "0 of 1 available"}, "container api exited with code 3 (1 restart)", "FATAL"},
		{Event{Kind: KindGroup, Status: Failed, Cause: "container api exited with code 3 (3 restarts)", Evidence: []string{"panic"}}, "container api exited with code 3 (3 restarts)", "panic"},
	} {
		c.e.Phase, c.e.Group, c.e.Object = "apply", "a", &api
		s.Apply(c.e)
		if o.Cause != c.cause || o.Evidence[0] != c.evidence {
			t.Errorf("after %s %q: %q, %q", c.e.Kind, c.e.Cause, o.Cause, o.Evidence)
		}
	}
}

// TestGroupFailureReplacesDiagnosis expects that the cause in the event of a group's failure
// replaces an earlier, different diagnosis of the object.
func TestGroupFailureReplacesDiagnosis(t *testing.T) {
	api := plan.Object{Kind: "Deployment", Name: "api"}
	var s State
	for _, e := range []Event{
		{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{{ID: "a:x", Objects: []plan.Object{api}}}}}},
		{Kind: KindGroup, Phase: "apply", Group: "a:x", Status: Running},
		{Kind: KindDiagnosis, Phase: "apply", Group: "a:x", Object: &api, Cause: "exited with code 137", Evidence: []string{"bye"}},
		{Kind: KindGroup, Phase: "apply", Group: "a:x", Object: &api, Status: Failed, Cause: "was killed because its startup probe failed", Evidence: []string{"Startup probe failed"}},
	} {
		s.Apply(e)
	}
	if roots := s.Roots(); len(roots) != 1 || roots[0].Cause != "was killed because its startup probe failed" || roots[0].Evidence[0] != "Startup probe failed" {
		t.Errorf("%+v", roots)
	}
}

// TestExpiredTimeout: a group that gave up has the timeout that expired, not the slightly different time that the run waited
// for the object, even if a hook is deleted afterwards or there was no diagnosis.
func TestExpiredTimeout(t *testing.T) {
	web := plan.Object{Kind: "Deployment", Name: "web"}
	timeout := &Timeout{After: 9 * time.Second, Flag: "--timeout"}
	for _, diagnosed := range []string{"no node has room", ""} {
		var s State
		at := time.Unix(0, 0)
		for _, e := range []Event{
			{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{{ID: "a", Objects: []plan.Object{web}}}}}},
			{Kind: KindGroup, Phase: "apply", Group: "a", Status: Running},
			{Kind: KindObject, Phase: "apply", Group: "a", Object: &web, Status: InProgress},
			{Kind: KindDiagnosis, Phase: "apply", Group: "a", Object: &web, Cause: diagnosed},
			{Kind: KindGroup, Phase: "apply", Group: "a", Status: Failed, Object: &web, Cause: "no node has room", Timeout: timeout, Time: at.Add(8900 * time.Millisecond)},
			{Kind: KindObject, Phase: "apply", Group: "a", Object: &web, Status: Failed, Message: "deleted by helm.sh/hook-delete-policy", Change: Deleted},
		} {
			if e.Time.IsZero() {
				e.Time = at.Add(10 * time.Millisecond)
			}
			s.Apply(e)
			if roots := s.Roots(); s.Find("apply", "a").Status == Failed && (len(roots) != 1 || roots[0].Timeout != timeout || roots[0].Waited != 0 || roots[0].Cause != "no node has room") {
				t.Errorf("after %s, diagnosed %q: %+v", e.Status, diagnosed, roots)
			}
		}
	}
}

// TestVagueRoots: if the time of the operation ended, a failure whose cause is known comes before one of which only the state is
// known, and an object that was not applied in time comes last.
func TestVagueRoots(t *testing.T) {
	late, slow, broken := plan.Object{Kind: "Pod", Name: "late"}, plan.Object{Kind: "Pod", Name: "slow"}, plan.Object{Kind: "Pod", Name: "broken"}
	timeout := &Timeout{After: 9 * time.Second, Flag: "--timeout"}
	s, start := State{}, time.Unix(0, 0)
	for i, e := range []Event{
		{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{
			{ID: "a", Objects: []plan.Object{late}}, {ID: "b", Objects: []plan.Object{slow}}, {ID: "c", Objects: []plan.Object{broken}}}}}},
		{Kind: KindGroup, Phase: "apply", Group: "a", Status: Running},
		{Kind: KindGroup, Phase: "apply", Group: "b", Status: Running},
		{Kind: KindGroup, Phase: "apply", Group: "c", Status: Running},
		{Kind: KindObject, Phase: "apply", Group: "b", Object: &slow, Status: Applied},
		{Kind: KindObject, Phase: "apply", Group: "b", Object: &slow, Status: InProgress, Message: "0 of 1 ready"},
		{Kind: KindObject, Phase: "apply", Group: "c", Object: &broken, Status: Applied},
		{Kind: KindDiagnosis, Phase: "apply", Group: "c", Object: &broken, Cause: "image cannot be pulled"},
		{Kind: KindGroup, Phase: "apply", Group: "a", Status: Failed, Object: &late, Cause: "not applied", Timeout: timeout},
		{Kind: KindGroup, Phase: "apply", Group: "b", Status: Failed, Object: &slow, Cause: "0 of 1 ready", Timeout: timeout},
		{Kind: KindGroup, Phase: "apply", Group: "c", Status: Failed, Object: &broken, Cause: "image cannot be pulled", Timeout: timeout},
	} {
		e.Time = start.Add(time.Duration(i) * time.Second)
		s.Apply(e)
	}
	var got []string
	for _, r := range s.Roots() {
		got = append(got, r.Object.Object.Name)
	}
	if want := []string{"broken", "slow", "late"}; !slices.Equal(got, want) {
		t.Errorf("roots %q, want %q", got, want)
	}
}

// TestRootBeforeItsDiagnosis: the failed group's event has the cause and the evidence, even if the object's diagnosis follows
// only later.
func TestRootBeforeItsDiagnosis(t *testing.T) {
	job := plan.Object{Kind: "Job", Name: "migrate"}
	var s State
	for _, e := range []Event{
		{Kind: KindPlan, Phases: []Phase{{Name: "apply", Groups: []*plan.Group{{ID: "a", Objects: []plan.Object{job}}}}}},
		{Kind: KindGroup, Phase: "apply", Group: "a", Status: Running},
		{Kind: KindObject, Phase: "apply", Group: "a", Object: &job, Status: InProgress, Message: "running · 0 of 1 complete"},
		{Kind: KindGroup, Phase: "apply", Group: "a", Status: Failed, Object: &job, Evidence: []string{"waiting for the queue"}, Cause: "running 10 s · 0 of 1 complete"},
	} {
		s.Apply(e)
	}
	roots := s.Roots()
	if len(roots) != 1 || !slices.Equal(roots[0].Evidence, []string{"waiting for the queue"}) || roots[0].Cause != "running 10 s · 0 of 1 complete" {
		t.Errorf("roots %+v, want one with the cause and the evidence", roots)
	}
}
