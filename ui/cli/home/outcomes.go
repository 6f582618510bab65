package home

import (
	"cmp"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/ui/home"
	"lockstep/ui/report"
)

// outcomes are the last recorded runs of this machine, by release.
type outcomes map[home.Key]report.Run

// readOutcomes reads the records of runs in the cluster of a context.
func readOutcomes(context string) outcomes {
	last := outcomes{}
	dir, err := report.RunDir()
	if err != nil {
		return last // there are no records
	}
	for _, r := range report.RecordedRuns(dir) {
		if k := (home.Key{Namespace: r.Namespace, Name: r.Release}); r.Context == context && last[k].Started.Before(r.Started) {
			last[k] = r
		}
	}
	return last
}

// lastFailed returns the last run if it has failed, with the namespace of the failure, nil if it has not.
func (o outcomes) lastFailed() *home.PastRun {
	var last report.Run
	for _, r := range o {
		if r.Started.After(last.Started) {
			last = r
		}
	}
	if event.Status(last.Outcome) != event.Failed {
		return nil
	}
	namespace := last.Namespace
	if last.Object != nil {
		namespace = cmp.Or(last.Object.Namespace, namespace)
	}
	return &home.PastRun{Key: home.Key{Namespace: namespace, Name: last.Release}, Operation: last.Operation}
}

// describe says of releases how their last run ended, if nothing has changed them since, and it did not succeed.
func (o outcomes) describe(releases []home.Release) {
	for i := range releases {
		rel := &releases[i]
		r, known := o[rel.Key]
		rel.LastRun = ""
		if ended := r.Started.Add(time.Duration(r.Seconds*float64(time.Second)) + time.Second); known && !ended.Before(rel.Changed) {
			rel.LastRun = outcome(r)
		}
	}
}

// outcome says how a run ended, "" if it succeeded or may not have ended.
func outcome(r report.Run) string {
	switch event.Status(r.Outcome) {
	case event.Failed, event.Aborted:
		rest, repeated := strings.CutPrefix(whyOf(r), r.Outcome) // "aborted by ctrl-c"
		if !repeated {
			return text.Join(": ", r.Operation+" "+r.Outcome, rest)
		}
		return r.Operation + " " + r.Outcome + rest
	}
	return ""
}
