package rig

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/throwaway/auditlog"
)

// TimelineOf returns the number of lockstep's writes to an object.
func (r *Rig) TimelineOf(resource, name string) int {
	n := 0
	for _, w := range r.Writes() {
		if strings.HasSuffix(w, " "+resource+"/"+name) {
			n++
		}
	}
	return n
}

// LastStatus returns the time of the last write of an object's status.
func (tl *timeline) LastStatus(t *testing.T, object string) (at time.Time) {
	t.Helper()
	at, _ = tl.last(t, []string{object}, func(e auditlog.Event) bool { return e.Object.Subresource == "status" })
	return at
}

// Since returns the timeline from a time on.
func (tl *timeline) Since(at time.Time) *timeline {
	out := *tl
	i := slices.IndexFunc(tl.Events, func(e auditlog.Event) bool { return e.Received.After(at) })
	if i < 0 {
		i = len(tl.Events)
	}
	out.Events = tl.Events[i:]
	return &out
}

// FirstWriteIfAny returns the first of lockstep's writes to the objects. Like LastWriteIfAny
// it ignores unchanged objects.
func (tl *timeline) FirstWriteIfAny(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.first(t, objects, tl.isWrite)
}

func (tl *timeline) LastWriteIfAny(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.last(t, objects, tl.isWrite)
}

// Deleted returns the time of lockstep's last delete request for the objects.
func (tl *timeline) Deleted(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.last(t, objects, tl.isDelete)
}

func (tl *timeline) FirstDelete(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.first(t, objects, tl.isDelete)
}

func (tl *timeline) isWrite(e auditlog.Event) bool {
	return e.UserAgent == tl.agent && e.Verb != "delete" && e.Object.Subresource == ""
}

func (tl *timeline) isDelete(e auditlog.Event) bool {
	return e.UserAgent == tl.agent && e.Verb == "delete"
}

// first returns the time of the first matching event about the objects, and its object.
func (tl *timeline) first(t *testing.T, objects []string, matches func(auditlog.Event) bool) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		for _, e := range tl.Of(t, o) {
			if matches(e) && (at.IsZero() || e.Received.Before(at)) {
				at, which = e.Received, o
			}
		}
	}
	return at, which
}

func (tl *timeline) last(t *testing.T, objects []string, matches func(auditlog.Event) bool) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		for _, e := range tl.Of(t, o) {
			if matches(e) && e.Received.After(at) {
				at, which = e.Received, o
			}
		}
	}
	return at, which
}

func Clock(t time.Time) string { return t.Format("04:05.000000") }

// timeline is the audit log of the objects of a namespace.
type timeline struct {
	Events auditlog.Log
	agent  string
	plural map[string]schema.GroupVersionResource // by kind
}

func (r *Rig) Timeline(agent string) *timeline {
	r.T.Helper()
	tl := &timeline{Events: r.Audit(), agent: agent, plural: map[string]schema.GroupVersionResource{}}
	client, err := r.Client.Getter.ToDiscoveryClient()
	if err != nil {
		r.T.Fatal(err)
	}
	client.Invalidate()
	lists, err := client.ServerPreferredResources()
	if err != nil {
		r.T.Fatal(err)
	}
	for _, l := range lists {
		gv, _ := schema.ParseGroupVersion(l.GroupVersion)
		for _, res := range l.APIResources {
			if old, ok := tl.plural[res.Kind]; ok && (old.Group == "" || old.Group == "apps" || !strings.HasPrefix(gv.Group, r.Namespace)) {
				continue
			}
			tl.plural[res.Kind] = gv.WithResource(res.Name)
		}
	}
	return tl
}

// Dump logs the changes in the namespace, in order.
func (tl *timeline) Dump(t *testing.T) {
	for _, e := range tl.Events {
		if e.Object.Namespace != "" && e.Object.Resource != "events" {
			t.Logf("%s %s %s/%s %s by %s", Clock(e.Received), e.Verb, e.Object.Resource, e.Object.Name, e.Object.Subresource, e.UserAgent)
		}
	}
}

// Of returns the events about an object, "Kind/name", in order.
func (tl *timeline) Of(t *testing.T, object string) []auditlog.Event {
	t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	gvr, ok := tl.plural[kind]
	if !ok {
		t.Fatalf("the cluster does not know kind %s", kind)
	}
	return tl.Events.Where(func(e auditlog.Event) bool { return e.Object.Resource == gvr.Resource && e.Object.Name == name })
}

// FirstWrite returns the time of the first write to any of the objects.
func (tl *timeline) FirstWrite(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		first, _ := tl.first(t, []string{o}, func(e auditlog.Event) bool { return e.UserAgent == tl.agent && e.Object.Subresource == "" })
		if first.IsZero() {
			t.Errorf("%s was never written", o)
		} else if at.IsZero() || first.Before(at) {
			at, which = first, o
		}
	}
	return at, which
}

// notAwaited are objects whose status nobody waits for (R22).
var notAwaited = []string{"Deployment/paused"}

// Ready returns when the last of the objects became ready: the time of the status update that
// made it ready, or of its own write if nobody writes its status.
func (tl *timeline) Ready(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		var own, status []time.Time
		for _, e := range tl.Of(t, o) {
			switch {
			case e.Object.Subresource == "status":
				status = append(status, e.Received)
			case e.UserAgent == tl.agent:
				own = append(own, e.At)
			}
		}
		var done time.Time
		switch {
		case len(status) > 0 && !slices.Contains(notAwaited, o):
			done = tl.decisive(o, status)
		case len(own) > 0:
			done = own[0]
		default:
			t.Errorf("%s was never written", o)
		}
		if done.After(at) {
			at, which = done, o
		}
	}
	return at, which
}

// decisive returns the time at which an object became ready, from the times of its status
// updates. A workload is ready with its first status after the last one of its pods; a Job
// that need not be complete is ready with its first status (R22).
func (tl *timeline) decisive(o string, status []time.Time) time.Time {
	kind, name, _ := strings.Cut(o, "/")
	switch kind {
	case "Job":
		return status[0]
	case "Deployment", "StatefulSet", "DaemonSet":
		var pods time.Time
		for _, e := range tl.Events {
			if e.Object.Resource == "pods" && e.Object.Subresource == "status" && strings.HasPrefix(e.Object.Name, name+"-") && e.Received.After(pods) {
				pods = e.Received
			}
		}
		for _, s := range status {
			if s.After(pods) {
				return s
			}
		}
	}
	return status[len(status)-1]
}
