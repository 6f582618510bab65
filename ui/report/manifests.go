package report

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// The manifests in a record are there so that a replay can be looked into as the
// run could. They are events of a kind of their own, right behind the first event
// and behind each one that begins an edited revision, one an object: a record is one file that can be copied and read with the same
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

// Keep makes the record hold manifests of objects: those of the revision that the run
// begins with and, after so many edits (R46), of the one that they have led to. They
// are read when the event has been written that begins it. Keep is called before.
func (r *RunLog) Keep(manifests func(edits int) iter.Seq2[plan.Object, string]) {
	r.manifests = manifests
}

// keepManifests writes what is kept of the manifests of a revision that has begun.
func (r *RunLog) keepManifests(now time.Time) error {
	r.revisions++
	if r.manifests == nil || r.room <= 0 {
		return nil
	}
	for o, text := range r.manifests(r.revisions - 1) {
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		if over := len(text) - longestManifest; over > 0 {
			lines = append(firstLines(lines, longestManifest), fmt.Sprintf("# cut here, where it goes on for %d bytes", over))
		}
		e := event.Event{Time: now, Kind: event.KindManifest, Object: &o, Lines: lines}
		if err := writeEvent(r.file, e); err != nil {
			return err
		}
		if r.room -= min(len(text), longestManifest); r.room <= 0 {
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

// manifests are those of a revision: what was sent from when so many events had
// happened.
type manifests struct {
	from int
	of   map[plan.Object]string
}

// takeManifests parts a record in what happened and the manifests.
func takeManifests(events []event.Event) (happened []event.Event, kept []manifests) {
	for _, e := range events {
		switch {
		case e.Kind != event.KindManifest:
			happened = append(happened, e)
		case e.Object != nil:
			if n := len(kept); n == 0 || kept[n-1].from != len(happened) {
				kept = append(kept, manifests{len(happened), map[plan.Object]string{}})
			}
			kept[len(kept)-1].of[*e.Object] = strings.Join(e.Lines, "\n")
		}
	}
	return happened, kept
}

// Manifest is an object as it was applied by the revision that was under way when so
// many events had happened, "" where the record does not hold it.
func (r *Record) Manifest(o plan.Object, at int) string {
	planned := o
	for _, e := range r.Events {
		if e.Planned != "" && e.Object != nil && *e.Object == o {
			planned.Name = e.Planned
		}
	}
	for n, m := range slices.Backward(r.manifests) {
		if n > 0 && m.from > at {
			continue // a revision to come
		}
		for _, name := range []plan.Object{o, planned} {
			if text, ok := m.of[name]; ok {
				return text
			}
		}
	}
	return ""
}

// Found is what was found out about an object while it was not ready, until so many
// events had happened: the lines of its diagnoses, each once, those of the last one
// at the end.
func (r *Record) Found(o plan.Object, at int) []string {
	var lines []string
	seen := map[string]int{}
	for _, e := range r.Events[:at] {
		if e.Kind != event.KindDiagnosis || e.Object == nil || *e.Object != o {
			continue
		}
		for _, l := range e.Lines {
			if n, again := seen[l]; again {
				lines[n] = ""
			}
			seen[l] = len(lines)
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
