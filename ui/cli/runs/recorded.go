package runs

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

// recorded answers the screen's questions about objects from the record of a run: the
// diagnoses of objects that were not ready, and the manifests. Secret values in it are
// already hidden.
type recorded struct {
	record *report.Record
	// at is how many of its events have been replayed.
	at func() int
}

// Kinds of lines in a diagnosis.
var (
	ofEvent = regexp.MustCompile(`^\d\d:\d\d:\d\d `)
	ofPod   = regexp.MustCompile(`^(pod |and \d+ more pods)`)
	ofLog   = regexp.MustCompile(`^(last lines of |  )`)

	podAndWhy   = regexp.MustCompile(`^pod (\S+): (.*)`)
	ofContainer = regexp.MustCompile(`^last lines of pod (\S+), container (\S+):$`)
)

func (l recorded) Events(_ context.Context, o plan.Object) ([]string, error) {
	return l.found(o, ofEvent, "events"), nil
}

func (l recorded) Pods(_ context.Context, o plan.Object) (pods []board.Pod, err error) {
	for _, line := range l.record.Diagnosis(o, l.at()) {
		if m := podAndWhy.FindStringSubmatch(line); m != nil {
			pods = append(pods, board.Pod{Name: m[1], Why: m[2]})
		}
	}
	if len(pods) == 0 {
		return nil, board.Nothing(strings.Join(l.found(o, ofPod, "pods"), "; "))
	}
	return pods, nil
}

// Logs are the last log lines quoted in a diagnosis. The screen has a hook's logs from its
// events.
func (l recorded) Logs(_ context.Context, o plan.Object, follow func(board.LogLine)) error {
	var from board.LogSource
	for _, line := range l.found(o, ofLog, "logs") {
		if m := ofContainer.FindStringSubmatch(line); m != nil {
			from = board.LogSource{Pod: m[1], Container: m[2]}
			continue
		}
		follow(board.LogLine{Source: from, Text: strings.TrimPrefix(line, "  ")})
	}
	return nil
}

// Change is what the run did to an object; records hold no field diffs.
func (l recorded) Change(_ context.Context, it board.Item) (board.Change, error) {
	g := l.record.State.Find(it.Phase, it.Group)
	if g == nil || g.Find(it.Object) == nil {
		return board.Change{}, board.Nothing("the record has no action for it")
	}
	c := board.Change{Recorded: true, Message: "recorded action only; field diffs unavailable"}
	did := g.Find(it.Object).Change
	if it.Kind == event.PhaseHooks && did != "" || it.Kind != event.PhaseRemove && did == event.Deleted {
		c.Action = "hook" // its delete policy may have deleted it afterwards
		return c, nil
	}
	switch did {
	case event.Created:
		c.Action = "create"
	case event.Configured:
		c.Action = "change"
	case event.Unchanged:
		c.Action = "unchanged"
	case event.Deleted:
		c.Action = "delete"
	case event.Absent:
		c.Action = "absent"
	case event.Kept:
		c.Action = "keep"
	default:
		return board.Change{}, board.Nothing("the run never reached it")
	}
	return c, nil
}

func (l recorded) Sent(_ context.Context, it board.Item) (string, error) {
	if text := l.record.Manifest(it.Object, l.at()); text != "" {
		return text, nil
	}
	return "", board.Nothing("the record has no manifest of it")
}

func (l recorded) Live(context.Context, plan.Object) (string, error) {
	return "", board.Nothing("the record has only the sent manifest, not the live object")
}

// found are the lines about an object that match, or all of them if none matches, or why
// there are none.
func (l recorded) found(o plan.Object, which *regexp.Regexp, what string) []string {
	all := l.record.Diagnosis(o, l.at())
	if len(all) == 0 {
		return []string{"no " + what + " recorded at this point"}
	}
	lines := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !which.MatchString(s) })
	if len(lines) == 0 {
		return append([]string{"no " + what + " recorded, only this:"}, all...)
	}
	return lines
}
