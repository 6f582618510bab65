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

// recorded answers the screen's questions about objects from the record of a run,
// as the cluster answered them by then: what was found out about objects that were
// not ready, and the manifests. The record has gone through the mask of the run.
type recorded struct {
	record *report.Record
	// at is how many events of it have happened.
	at func() int
}

// What the lines of a diagnosis are about.
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

// Logs are the last lines that a diagnosis has quoted. Those of a hook the screen
// knows from its events.
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

// Change is what has become of an object in the end: no record holds which fields.
func (l recorded) Change(_ context.Context, it board.Item) (board.Change, error) {
	g := l.record.State.Find(it.Phase, it.Group)
	if g == nil || g.Find(it.Object) == nil {
		return board.Change{}, board.Nothing("the record does not hold what became of it")
	}
	c := board.Change{Recorded: true, Message: "that is what the record holds, no differences"}
	switch g.Find(it.Object).Change {
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
		return board.Change{}, board.Nothing("the record holds no differences; the run never came to it")
	}
	return c, nil
}

func (l recorded) Sent(_ context.Context, it board.Item) (string, error) {
	if text := l.record.Manifest(it.Object, l.at()); text != "" {
		return text, nil
	}
	return "", board.Nothing("the record does not hold it")
}

func (l recorded) Live(context.Context, plan.Object) (string, error) {
	return "", board.Nothing("the record does not hold what was in the cluster, only what was sent")
}

// found are the lines about an object that match, or all where none does, or why
// there is none.
func (l recorded) found(o plan.Object, which *regexp.Regexp, what string) []string {
	all := l.record.Diagnosis(o, l.at())
	if len(all) == 0 {
		return []string{"the record holds no " + what + " of it by then: nobody had to look"}
	}
	lines := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !which.MatchString(s) })
	if len(lines) == 0 {
		return append([]string{"the record holds no " + what + " of it, but this:"}, all...)
	}
	return lines
}
