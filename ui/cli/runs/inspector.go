package runs

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/report"
)

// recordInspector is the inspector of a replay. It has the diagnoses and manifests from the record of
// a run, in which secret values are already hidden.
type recordInspector struct {
	record *report.Record
	at     func() int // number of events replayed so far
}

// These patterns recognise the lines of a diagnosis.
var (
	eventLine = regexp.MustCompile(`^\d\d:\d\d:\d\d `)
	podLine   = regexp.MustCompile(`^(pod |and \d+ more pods)`)
	logLine   = regexp.MustCompile(`^(last lines of |  )`)

	podCause  = regexp.MustCompile(`^pod (\S+): (.*)`)
	logHeader = regexp.MustCompile(`^last lines of pod (\S+), container (\S+):$`)
)

func (r recordInspector) Events(_ context.Context, o plan.Object) ([]string, error) {
	return r.lines(o, eventLine, "events"), nil
}

func (r recordInspector) Pods(_ context.Context, o plan.Object) (pods []inspect.Pod, err error) {
	for _, line := range r.record.Diagnosis(o, r.at()) {
		if m := podCause.FindStringSubmatch(line); m != nil {
			pods = append(pods, inspect.Pod{Name: m[1], Why: m[2]})
		}
	}
	if len(pods) == 0 {
		return nil, inspect.Unavailable(strings.Join(r.lines(o, podLine, "pods"), "; "))
	}
	return pods, nil
}

// Logs passes the log lines quoted in a diagnosis to follow, or as notes what the record has instead. The record has the
// logs of hooks as log events (event.KindLog).
func (r recordInspector) Logs(_ context.Context, o plan.Object, follow func(inspect.LogLine)) error {
	var from inspect.Source
	lines := r.lines(o, logLine, "logs")
	note := !logLine.MatchString(lines[0])
	for _, line := range lines {
		if m := logHeader.FindStringSubmatch(line); m != nil {
			from = inspect.Source{Pod: m[1], Container: m[2]}
			continue
		}
		follow(inspect.LogLine{Source: from, Text: strings.TrimPrefix(line, "  "), Note: note})
	}
	return nil
}

// recordedActions are the actions that lead to each recorded change.
var recordedActions = map[event.Change]inspect.Action{
	event.Created: inspect.Create, event.Configured: inspect.Modify, event.Unchanged: inspect.Unchanged,
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

// lines returns the lines about an object that match a pattern. If none does, it returns a line that
// says so, followed by all lines.
func (r recordInspector) lines(o plan.Object, pattern *regexp.Regexp, name string) []string {
	all := r.record.Diagnosis(o, r.at())
	if len(all) == 0 {
		return []string{"no " + name + " recorded at this point"}
	}
	lines := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !pattern.MatchString(s) })
	if len(lines) == 0 {
		return append([]string{"no " + name + " recorded; the record has only:"}, all...)
	}
	return lines
}
