package overview

import (
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// TestUnreadyForLong: a workload of a deployed release that is not ready for minutes counts as a problem, from the time that its
// status or its pods tell, or else from when it was first seen. A Job may take long, and a run may be at work.
func TestUnreadyForLong(t *testing.T) {
	now := time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
	long, short := now.Add(-7*time.Minute), now.Add(-time.Minute)
	api, job := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}, plan.Object{Group: "batch", Kind: "Job", Namespace: "n", Name: "job"}
	for _, c := range []struct {
		name         string
		object       plan.Object
		status       string
		since, first time.Time
		failed       int
	}{
		{"by its conditions", api, "deployed", long, now, 1},
		{"since a minute", api, "deployed", short, long, 0},
		{"first seen minutes ago", api, "deployed", time.Time{}, long, 1},
		{"first seen now", api, "deployed", time.Time{}, now, 0},
		{"during a run", api, "pending-upgrade", long, long, 0},
		{"a Job", job, "deployed", long, long, 0},
	} {
		d := &details{objects: []plan.Object{c.object}, unready: map[plan.Object]time.Time{c.object: c.first},
			seen: map[plan.Object]run.Observation{c.object: {Object: c.object, Status: event.InProgress, Message: "0 of 1 ready", Since: c.since}}}
		h := d.health(c.status, &podCauses{}, now)
		if h.Failed != c.failed || h.Cause != c.object.Kind+"/"+c.object.Name+": 0 of 1 ready" || !h.Since.Equal(c.since) {
			t.Errorf("%s: %+v", c.name, h)
		}
	}
}

// TestBeingDeleted: an object of a deployed release that somebody deletes counts as a problem, and the cause says so. An operation
// may delete objects.
func TestBeingDeleted(t *testing.T) {
	data := plan.Object{Kind: "PersistentVolumeClaim", Namespace: "n", Name: "data"}
	for _, c := range []struct {
		status, message, cause string
		failed                 int
	}{
		{"deployed", "waiting for finalizer x", "being deleted: waiting for finalizer x", 1},
		{"deployed", "terminating", "being deleted", 1},
		{"uninstalling", "waiting for finalizer x", "waiting for finalizer x", 0},
	} {
		d := &details{objects: []plan.Object{data}, seen: map[plan.Object]run.Observation{data: {Object: data, Status: event.Deleting, Message: c.message}}}
		if h := d.health(c.status, &podCauses{}, time.Now()); h.Failed != c.failed || h.Cause != "PersistentVolumeClaim/data: "+c.cause {
			t.Errorf("%+v: %+v", c, h)
		}
	}
}
