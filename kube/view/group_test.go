package view

import (
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// TestNotAwaitedInAGroup: an object that the run did not wait for decides nothing about its group, and one without other
// objects is applied, never ready (R22b).
func TestNotAwaitedInAGroup(t *testing.T) {
	web, debug := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Deployment", Name: "debug"}
	for _, c := range []struct {
		objects           []plan.Object
		web, debug, group event.Status
	}{
		{[]plan.Object{web, debug}, event.Ready, event.Failed, event.Ready},
		{[]plan.Object{web, debug}, event.Ready, event.InProgress, event.Ready},
		{[]plan.Object{web, debug}, event.InProgress, event.Ready, event.Running},
		{[]plan.Object{web, debug}, event.Failed, event.Ready, event.Failed},
		{[]plan.Object{debug}, "", event.Ready, event.Applied},
		{[]plan.Object{debug}, "", event.Failed, event.Applied},
		{[]plan.Object{debug}, "", event.Gone, event.Gone},
	} {
		g := newGroup(&plan.Group{ID: "a", Objects: c.objects, Waits: []plan.ObjectWait{{Object: debug, Wait: plan.Wait{Never: true}}}}, nil, nil)
		if c.web != "" {
			g.record(run.Observation{Object: web, Status: c.web})
		}
		g.record(run.Observation{Object: debug, Status: c.debug}.NotAwaited())
		if status, message := g.derive(); status != c.group || status == event.Applied && message != "not waited for" {
			t.Errorf("%+v: the group is %s (%s)", c, status, message)
		}
	}
}

// TestGoneInAGroup: a group with an object that is gone is ready only if that is a Job which the cluster deletes.
func TestGoneInAGroup(t *testing.T) {
	web, job := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Job", Name: "work"}
	for _, c := range []struct {
		expiring  bool
		web, want event.Status
	}{
		{true, event.Ready, event.Ready},
		{true, event.InProgress, event.Running},
		{false, event.Ready, event.Running},
		{false, event.Gone, event.Gone},
	} {
		g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{web, job}}, map[plan.Object]bool{job: c.expiring}, nil)
		g.record(run.Observation{Object: web, Status: c.web})
		g.record(run.Observation{Object: job, Status: event.Gone})
		if status, _ := g.derive(); status != c.want {
			t.Errorf("%+v: the group is %s", c, status)
		}
	}
}

// TestAbsentObjects: what the record says of the release decides why an object is not in the cluster. What a failed uninstall has
// deleted was created.
func TestAbsentObjects(t *testing.T) {
	web, job := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Job", Name: "work"}
	for _, c := range []struct {
		release    rcommon.Status
		deleted    bool
		web, job   event.Status
		webMessage string
		ran        event.Status // of the group, when the run ended
		number     int          // of the revision, if it was asked for
	}{
		{rcommon.StatusDeployed, false, event.Failed, event.Gone, "not in the cluster", "", 0},
		{rcommon.StatusDeployed, true, event.Failed, event.Gone, "not in the cluster", "", 0},
		{rcommon.StatusFailed, false, event.Waiting, event.Waiting, event.NotCreated, "", 0},
		{rcommon.StatusFailed, false, event.Failed, event.Waiting, "not in the cluster", event.Ready, 0},
		{rcommon.StatusFailed, false, event.Gone, event.Waiting, "deleted since", event.Ready, 2},
		{rcommon.StatusFailed, false, event.Waiting, event.Waiting, "not created, or deleted since", event.Failed, 0},
		{rcommon.StatusFailed, true, event.Gone, event.Gone, "", "", 0},
		{rcommon.StatusUninstalling, true, event.Gone, event.Gone, "", "", 0},
		{rcommon.StatusUninstalled, true, event.Gone, event.Gone, "", "", 0},
		{rcommon.StatusSuperseded, false, event.Gone, event.Gone, "a newer revision may have removed it", "", 0},
		{rcommon.StatusPendingInstall, false, event.Waiting, event.Waiting, "not in the cluster yet", "", 0},
	} {
		rel := &rel1.Release{Info: &rel1.Info{Status: c.release}}
		if c.deleted {
			rel.Info.Deleted = time.Unix(1, 0)
		}
		v := &View{which: which{number: c.number}, revision: &revision{rel: rel, expiring: map[plan.Object]bool{job: true}, ran: map[string]event.Status{"a": c.ran}}}
		g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{web, job}}, nil, nil)
		status, message := v.absent(g, web)
		ofJob, _ := v.absent(g, job)
		if status != c.web || message != c.webMessage || ofJob != c.job {
			t.Errorf("%s, deleted %t: %s (%s), Job %s", c.release, c.deleted, status, message, ofJob)
		}
	}
}

// TestBeingDeleted: an object of a deployed release that somebody deletes is not ready, and is diagnosed. An uninstall deletes objects.
func TestBeingDeleted(t *testing.T) {
	data := plan.Object{Kind: "PersistentVolumeClaim", Name: "data"}
	for release, want := range map[rcommon.Status]run.Observation{
		rcommon.StatusDeployed:     {Object: data, Status: event.InProgress, Message: "being deleted: waiting for finalizer x"},
		rcommon.StatusUninstalling: {Object: data, Status: event.Deleting, Message: "waiting for finalizer x"},
	} {
		unit := event.Unit{Phase: "apply", Group: "a"}
		v := &View{revision: &revision{rel: &rel1.Release{Info: &rel1.Info{Status: release}}}}
		v.explainer = newExplainer()
		g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{data}}, nil, nil)
		got, _ := v.judge(unit, g, run.Observation{Object: data, Status: event.Deleting, Message: "waiting for finalizer x"})
		if got.Status != want.Status || got.Message != want.Message {
			t.Errorf("%s: %s (%s)", release, got.Status, got.Message)
		}
	}
}

// TestUnappliedGroup: a group that a failed revision did not reach is skipped, until its objects exist.
func TestUnappliedGroup(t *testing.T) {
	web := plan.Object{Kind: "Deployment", Name: "web"}
	g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{web}}, nil, nil)
	for _, c := range []struct {
		unapplied bool
		web, want event.Status
	}{{false, event.Waiting, event.Waiting}, {true, event.Waiting, event.Skipped}, {true, event.InProgress, event.Running}} {
		g.unapplied = c.unapplied
		g.record(run.Observation{Object: web, Status: c.web})
		if status, _ := g.derive(); status != c.want {
			t.Errorf("%+v: the group is %s", c, status)
		}
	}
}

// TestSince: an object that has not been ready in between is not ready since the first time that it says.
func TestSince(t *testing.T) {
	web, old, later := plan.Object{Kind: "Deployment", Name: "web"}, time.Unix(100, 0), time.Unix(200, 0)
	for _, c := range []struct {
		before, now run.Observation
		want        time.Time
	}{
		{run.Observation{}, run.Observation{Status: event.InProgress, Since: later}, later},
		{run.Observation{Status: event.Failed, Since: old}, run.Observation{Status: event.InProgress, Since: later}, old},
		{run.Observation{Status: event.InProgress, Since: old}, run.Observation{Status: event.Failed}, old},
		{run.Observation{Status: event.Ready}, run.Observation{Status: event.InProgress, Since: later}, later},
		{run.Observation{Status: event.InProgress, Since: old}, run.Observation{Status: event.Ready}, time.Time{}},
	} {
		c.before.Object, c.now.Object = web, web
		g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{web}}, nil, nil)
		g.record(c.before)
		if got := g.since(c.now); !got.Equal(c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestExplainKeepsWhatWasObserved: the answer of a diagnosis replaces nothing that the watch has said: which fields others have changed,
// and that the object is ready by now.
func TestExplainKeepsWhatWasObserved(t *testing.T) {
	web := plan.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}
	unit := event.Unit{Phase: "apply", Group: "a"}
	v := &View{revision: &revision{rel: &rel1.Release{Info: &rel1.Info{Status: rcommon.StatusDeployed}}}, explainer: newExplainer(), seen: make(chan struct{}), unseen: 1}
	g := newGroup(&plan.Group{ID: "a", Objects: []plan.Object{web}}, nil, nil)
	v.groups = map[string]*group{"a": g}
	drift := []event.Drift{{Field: "spec.replicas", Manager: "kubectl"}}
	finding := run.Finding{Cause: "image cannot be pulled", Degraded: true}
	v.observe(unit, run.Observation{Object: web, Status: event.InProgress, Message: "0 of 1 available", Drift: drift, Finalizers: []string{"x"}})
	v.explainer.start(time.Now().Add(diagnosisDelay))
	v.explainer.finish(target{unit, web}, finding)
	v.explain(target{unit, web}, finding)
	if got := g.last[web]; got.Status != event.Failed || len(g.drift[web]) != 1 || len(got.Finalizers) != 1 {
		t.Errorf("after the diagnosis: %s, drift %v, finalizers %v", got.Status, g.drift[web], got.Finalizers)
	}
	g.pods[web] = run.Pods{Ready: 1}
	v.observe(unit, run.Observation{Object: web, Status: event.Ready, Drift: drift})
	before := len(v.feed.Events())
	v.explain(target{unit, web}, finding)
	if after := v.feed.Events(); len(after) != before {
		t.Errorf("a diagnosis of an object that is ready by now is published: %+v", after[before:])
	}
}
