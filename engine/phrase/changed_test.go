package phrase

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestChanged: the objects that a run changed are named, many of a kind are counted, and a run that only created objects
// names none.
func TestChanged(t *testing.T) {
	state := func(op string, changes ...event.Change) *event.State {
		var objects []plan.Object
		kinds := []string{"Deployment", "ConfigMap"}
		for i := range changes {
			objects = append(objects, plan.Object{Kind: kinds[i%2], Name: fmt.Sprint("o", i)})
		}
		s := &event.State{}
		phases := []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:a", Objects: objects}}}}
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: op, Release: "r"}})
		s.Apply(event.Event{Kind: event.KindPlan, Phases: phases})
		for i, c := range changes {
			s.Apply(event.Event{Kind: event.KindObject, Phase: "apply", Group: "c:a", Object: &objects[i], Status: event.Applied, Change: c})
		}
		return s
	}
	const created, configured, unchanged = event.Created, event.Configured, event.Unchanged
	for _, c := range []struct {
		changes []event.Change
		want    []string
	}{
		{[]event.Change{created, created}, nil},
		{[]event.Change{created, configured, unchanged}, []string{"created: Deployment/o0", "changed: ConfigMap/o1"}},
		{slices.Repeat([]event.Change{configured, unchanged}, 7), []string{"changed: 7 Deployments (o0, o2, o4 and 4 more)"}},
	} {
		if got := Changed(state("upgrade", c.changes...)); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.changes, got, c.want)
		}
	}
}

// TestChangedOfAStack: if a stack changed an object, its report also names those of the releases that it only created.
func TestChangedOfAStack(t *testing.T) {
	for change, want := range map[event.Change][]string{
		event.Created:    nil,
		event.Configured: {"ns/a created: ConfigMap/c", "ns/b changed: ConfigMap/c"},
	} {
		s := &event.State{}
		object := plan.Object{Kind: "ConfigMap", Name: "c"}
		var releases []*plan.Group
		for _, name := range []string{"a", "b"} {
			releases = append(releases, &plan.Group{ID: "ns/" + name, Objects: []plan.Object{{Kind: "Release", Name: name}}})
		}
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up"}})
		s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: releases}}})
		for id, change := range map[string]event.Change{"ns/a": event.Created, "ns/b": change} {
			s.Apply(event.Event{Scope: id, Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r"}})
			s.Apply(event.Event{Scope: id, Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:a", Objects: []plan.Object{object}}}}}})
			s.Apply(event.Event{Scope: id, Kind: event.KindObject, Phase: "apply", Group: "c:a", Object: &object, Status: event.Applied, Change: change})
		}
		if got := Changed(s); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", change, got, want)
		}
	}
}

// TestChangedOfARollback: a release that a stack upgraded and rolled back is named once.
func TestChangedOfARollback(t *testing.T) {
	s := &event.State{}
	release := []*plan.Group{{ID: "ns/r", Objects: []plan.Object{{Kind: "Release", Name: "r"}}}}
	object := plan.Object{Kind: "ConfigMap", Name: "r-a"}
	s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up"}})
	s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: release}, {Name: event.RollbackPrefix + "apply", Kind: event.PhaseApply, Groups: release}}})
	s.Apply(event.Event{Scope: "ns/r", Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r"}})
	s.Apply(event.Event{Scope: "ns/r", Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:a", Objects: []plan.Object{object}}}}}})
	s.Apply(event.Event{Scope: "ns/r", Kind: event.KindObject, Phase: "apply", Group: "c:a", Object: &object, Status: event.Applied, Change: event.Configured})
	if got, want := Changed(s), []string{"ns/r changed: ConfigMap/r-a"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPlural(t *testing.T) {
	for kind, want := range map[string]string{"Deployment": "Deployments", "Ingress": "Ingresses", "NetworkPolicy": "NetworkPolicies", "Endpoints": "Endpoints", "Gateway": "Gateways"} {
		if got := plural(kind); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestDrift: the fields that others have changed are named by who has changed them, and when.
func TestDrift(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	drift := []event.Drift{{Field: "data.a", Manager: "kubectl", At: at}, {Field: "data.b"}, {Field: "data.c", Manager: "kubectl", At: at},
		{Field: "data.d", Manager: "kubectl", Gone: true}}
	want := "changed by kubectl (2026-03-01 12:00:00): data.a, data.c; changed by somebody else: data.b; removed by kubectl: data.d"
	if got := Drift(drift); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
