package report

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// The manifests in a record are there so that a replay can be looked into as the
// run could. They are events of a kind of their own, right behind the first event,
// one an object: a record is one file that can be copied and read with the same
// tools as the rest of it, it has them even where the run is killed, and who reads
// events passes over a kind that it does not know. They are no part of -o json,
// which tells what happens. They are not compressed, for that would be another
// format; they are bounded instead, since 50 records are kept.
const (
	// longestManifest is how many bytes of one object are kept, and allManifests
	// of all.
	longestManifest = 64 << 10
	allManifests    = 2 << 20
)

// Keep makes the record hold manifests of objects, which are read when the first
// event has been written. It is called before that.
func (r *RunLog) Keep(manifests iter.Seq2[plan.Object, string]) { r.manifests = manifests }

// keepManifests writes what is kept of the manifests.
func (r *RunLog) keepManifests(now time.Time) error {
	if r.manifests == nil {
		return nil
	}
	room := allManifests
	for o, text := range r.manifests {
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		if over := len(text) - longestManifest; over > 0 {
			lines = append(firstLines(lines, longestManifest), fmt.Sprintf("# cut here, where it goes on for %d bytes", over))
		}
		e := event.Event{Time: now, Kind: event.KindManifest, Object: &o, Lines: lines}
		if err := writeEvent(r.file, e); err != nil {
			return err
		}
		if room -= min(len(text), longestManifest); room <= 0 {
			return nil
		}
	}
	return nil
}

// firstLines are as many whole lines as fit.
func firstLines(lines []string, room int) []string {
	for n, l := range lines {
		if room -= len(l) + 1; room < 0 {
			return lines[:n:n]
		}
	}
	return lines
}

// takeManifests parts a record in what happened and the manifests.
func takeManifests(events []event.Event) (happened []event.Event, manifests map[plan.Object]string) {
	manifests = map[plan.Object]string{}
	for _, e := range events {
		switch {
		case e.Kind != event.KindManifest:
			happened = append(happened, e)
		case e.Object != nil:
			manifests[*e.Object] = strings.Join(e.Lines, "\n")
		}
	}
	return happened, manifests
}

// Manifest is an object as it was applied, "" where the record does not hold it.
func (r *Record) Manifest(o plan.Object) string {
	if text, ok := r.manifests[o]; ok {
		return text
	}
	for _, e := range r.Events {
		if e.Planned != "" && e.Object != nil && *e.Object == o {
			o.Name = e.Planned
			return r.manifests[o]
		}
	}
	return ""
}

// Found is what was found out about an object while it was not ready: the lines of
// its diagnoses, each once, those of the last one at the end.
func (r *Record) Found(o plan.Object) []string {
	var lines []string
	at := map[string]int{}
	for _, e := range r.Events {
		if e.Kind != event.KindDiagnosis || e.Object == nil || *e.Object != o {
			continue
		}
		for _, l := range e.Lines {
			if n, again := at[l]; again {
				lines[n] = ""
			}
			at[l] = len(lines)
			lines = append(lines, l)
		}
	}
	return withoutEmpty(lines)
}

func withoutEmpty(lines []string) []string {
	var out []string
	for _, l := range lines {
		if l != "" {
			out = append(out, l)
		}
	}
	return out
}
