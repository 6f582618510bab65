package runs

import (
	"context"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/ui/report"
)

// recordInspector is the inspector of a replay. It has the diagnoses and manifests from the record of
// a run, in which secret values are already hidden.
type recordInspector struct {
	record *report.Record
	at     func() int // number of events replayed so far
}

func (r recordInspector) Events(_ context.Context, o plan.Object) ([]event.ClusterEvent, error) {
	found := r.record.Diagnoses(o, r.at())
	type content struct{ object, reason, message string }
	events := latest(found, func(d event.Details) []event.ClusterEvent { return d.Events },
		func(e event.ClusterEvent) content { return content{e.Object, e.Reason, e.Message} })
	if len(events) == 0 {
		return nil, inspect.Unavailable(strings.Join(instead(found, "events"), "; "))
	}
	return events, nil
}

func (r recordInspector) Pods(_ context.Context, o plan.Object) (pods []inspect.Pod, err error) {
	found := r.record.Diagnoses(o, r.at())
	failing := latest(found, func(d event.Details) []event.FailingPod { return d.Pods }, func(p event.FailingPod) string { return p.Name })
	for _, p := range failing {
		pods = append(pods, inspect.Pod{Name: p.Name, Why: p.Why})
	}
	if len(pods) == 0 {
		return nil, inspect.Unavailable(strings.Join(instead(found, "pods"), "; "))
	}
	return pods, nil
}

// Logs passes the log lines of the diagnoses to follow, or as notes what the record has instead. The record has the
// logs of hooks as log events (event.KindLog).
func (r recordInspector) Logs(_ context.Context, o plan.Object, follow func(inspect.LogLine)) error {
	found := r.record.Diagnoses(o, r.at())
	withLog := slices.DeleteFunc(slices.Clone(found), func(d event.Details) bool { return len(d.Log) == 0 })
	whole := func(d event.Details) []event.Details { return []event.Details{d} }
	for _, d := range latest(withLog, whole, func(d event.Details) event.Source { return d.Source }) {
		for _, l := range d.Log {
			follow(inspect.LogLine{Source: d.Source, Text: l})
		}
	}
	if len(withLog) == 0 {
		for _, l := range instead(found, "logs") {
			follow(inspect.LogLine{Text: l, Note: true})
		}
	}
	return nil
}

// latest returns a part of all diagnoses, oldest first: of items with the same key, only the last one.
func latest[T any, K comparable](diagnoses []event.Details, part func(event.Details) []T, key func(T) K) (items []T) {
	known := map[K]bool{}
	for _, d := range slices.Backward(diagnoses) {
		for _, item := range slices.Backward(part(d)) {
			if k := key(item); !known[k] {
				known[k], items = true, append(items, item)
			}
		}
	}
	slices.Reverse(items)
	return items
}

// instead says that the diagnoses have no events, pods or logs, followed by what they have.
func instead(diagnoses []event.Details, what string) []string {
	lines := latest(diagnoses, phrase.Details, func(l string) string { return l })
	if len(lines) == 0 {
		return []string{"no " + what + " recorded at this point"}
	}
	return append([]string{"no " + what + " recorded; the record has only:"}, lines...)
}

// recordedActions are the actions that lead to each recorded change.
var recordedActions = map[event.Change]inspect.Action{
	event.Created: inspect.Create, event.Configured: inspect.Modify, event.Replaced: inspect.Replace, event.Unchanged: inspect.Unchanged,
	event.Deleted: inspect.Delete, event.Absent: inspect.Absent, event.Kept: inspect.Keep,
}

// Change returns what the run did to an object. Records have no field diffs.
func (r recordInspector) Change(_ context.Context, it inspect.Item) (inspect.Change, error) {
	g := r.record.State.Find(it.Phase, it.Group)
	if g == nil || g.Find(it.Object) == nil {
		return inspect.Change{}, inspect.Unavailable("the record has no action for it")
	}
	c := inspect.Change{Recorded: true, Message: "recorded action only; field diffs unavailable"}
	did := g.Find(it.Object).Change
	if it.Kind == event.PhaseHooks && did != "" || it.Kind != event.PhaseRemove && did == event.Deleted {
		c.Action = inspect.Hook // even if its delete policy deleted it afterwards
		return c, nil
	}
	if it.Kind == event.PhaseApply {
		did = g.Find(it.Object).NetChange()
	}
	if c.Action = recordedActions[did]; c.Action == "" {
		return inspect.Change{}, inspect.Unavailable("the run never reached it")
	}
	return c, nil
}

func (r recordInspector) Sent(_ context.Context, it inspect.Item) (string, error) {
	if text := r.record.Manifest(it.Object, r.at()); text != "" {
		return text, nil
	}
	return "", inspect.Unavailable("the record has no manifest of it")
}

func (r recordInspector) Live(context.Context, plan.Object) (string, error) {
	return "", inspect.Unavailable("the record has only the sent manifest, not the live object")
}
