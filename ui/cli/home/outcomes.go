package home

import (
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/ui/home"
	"lockstep/ui/report"
)

// outcomes are the last recorded runs of this machine, by release. It is not safe for concurrent use.
type outcomes struct {
	context string // of the cluster
	last    map[home.Key]report.Run
}

// read reads the records.
func (o *outcomes) read() {
	o.last = map[home.Key]report.Run{}
	dir, err := report.RunDir()
	if err != nil {
		return // there are no records
	}
	for _, r := range report.RecordedRuns(dir) {
		if k := (home.Key{Namespace: r.Namespace, Name: r.Release}); r.Context == o.context && o.last[k].Started.Before(r.Started) {
			o.last[k] = r
		}
	}
}

// describe says of releases how their last run ended, if nothing has changed them since, and it did not succeed.
func (o *outcomes) describe(releases []home.Release) {
	for i := range releases {
		rel := &releases[i]
		r, known := o.last[rel.Key]
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
