package rig

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/throwaway/auditlog"
)

// WriteCount returns the number of lockstep's writes to an object.
func (r *Rig) WriteCount(resource, name string) int {
	n := 0
	for _, w := range r.Writes() {
		if strings.HasSuffix(w, " "+resource+"/"+name) {
			n++
		}
	}
	return n
}

// LastStatus returns the time of the last write to an object's status.
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

// FirstWriteIfAny returns the time of the first write to the objects, and its object. Unlike FirstWrite, it accepts
// objects that were not written.
func (tl *timeline) FirstWriteIfAny(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.first(t, objects, tl.isWrite)
}

// LastWriteIfAny is like FirstWriteIfAny, for the last write.
func (tl *timeline) LastWriteIfAny(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.last(t, objects, tl.isWrite)
}

// LastDelete returns the time of the last delete request for the objects, and its object.
func (tl *timeline) LastDelete(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	return tl.last(t, objects, tl.isDelete)
}

// FirstDelete is like LastDelete, for the first request.
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

// first returns the time of the first matching event about the objects, and its object; zero if there is none.
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

// timeline is the part of the audit log about a rig. Its methods consider only writes by agent, unless they say
// otherwise, and name objects "Kind/name".
type timeline struct {
	Events    auditlog.Log
	agent     string
	resources map[string]schema.GroupVersionResource // by kind
}

// Timeline returns the writes to the test's namespaces and to cluster-scoped objects.
func (r *Rig) Timeline(agent string) *timeline {
	r.T.Helper()
	tl := &timeline{Events: r.Audit(), agent: agent, resources: map[string]schema.GroupVersionResource{}}
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
			if old, ok := tl.resources[res.Kind]; ok && (old.Group == "" || old.Group == "apps" || !strings.HasPrefix(gv.Group, r.Namespace)) {
				continue
			}
			tl.resources[res.Kind] = gv.WithResource(res.Name)
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

// Of returns all events about an object, in order.
func (tl *timeline) Of(t *testing.T, object string) []auditlog.Event {
	t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	gvr, ok := tl.resources[kind]
	if !ok {
		t.Fatalf("the cluster does not know kind %s", kind)
	}
	return tl.Events.Where(func(e auditlog.Event) bool { return e.Object.Resource == gvr.Resource && e.Object.Name == name })
}

// FirstWrite returns the time of the first write to any of the objects, and its object. All must have been written.
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

// notAwaited are objects that are ready whatever their status (R22).
var notAwaited = []string{"Deployment/paused"}

// Ready returns when the last of the objects became ready, and that object: the time of the status update that made it
// ready, or of lockstep's write if nothing writes its status.
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
			done = tl.readyTime(o, status)
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

// readyTime returns when an object became ready, given the times of its status updates. A workload is ready with its
// first status after the last status of its pods, a Job with its first status (R22).
func (tl *timeline) readyTime(o string, status []time.Time) time.Time {
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
