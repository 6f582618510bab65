package report

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"os"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// writeAndRead writes a record with manifests and reads it. It also returns its size.
func writeAndRead(t *testing.T, events []event.Event, manifests map[plan.Object]string) (*Record, int64) {
	t.Helper()
	dir := t.TempDir()
	log := NewRunLog(dir, func(s string) { t.Error(s) })
	log.KeepManifests(func(int) iter.Seq2[plan.Object, string] { return maps.All(manifests) })
	Replay(events, log)
	log.Close()
	path, err := FindRun(dir, log.Name())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecord(dir, log.Name())
	if err != nil || r.Damage != nil {
		t.Fatal(err, r)
	}
	return r, info.Size()
}

func TestRecordHasManifests(t *testing.T) {
	events := failed(t)
	db := plan.Object{Kind: "Deployment", Namespace: "shop", Name: "db"}
	r, _ := writeAndRead(t, events, map[plan.Object]string{db: "kind: Deployment\nmetadata:\n  name: db\n"})
	if got := r.Manifest(db, 1); got != "kind: Deployment\nmetadata:\n  name: db" {
		t.Errorf("manifest %q", got)
	}
	if r.Manifest(plan.Object{Kind: "Deployment", Name: "other"}, 1) != "" {
		t.Error("an unknown object has a manifest")
	}
	// The events are those of a record without manifests.
	var with, without bytes.Buffer
	Replay(r.Events, jsonLines{&with})
	Replay(events, jsonLines{&without})
	if with.String() != without.String() || r.State.Seq != events[len(events)-1].Seq {
		t.Error("the manifests changed the events")
	}
}

func TestManifestsInRecordAreBounded(t *testing.T) {
	large := map[plan.Object]string{}
	for n := range 200 {
		large[plan.Object{Kind: "ConfigMap", Name: fmt.Sprint(n)}] = strings.Repeat("data: "+strings.Repeat("x", 100)+"\n", 1000)
	}
	r, size := writeAndRead(t, aborted(t), large)
	if size > maxManifests+maxManifests/4 {
		t.Errorf("the record has %d bytes", size)
	}
	for o := range r.manifests[0].text {
		text := r.Manifest(o, 1)
		if !strings.Contains(text, "# truncated") || len(text) > maxManifest+100 {
			t.Fatalf("%d bytes of %s, ending in %q", len(text), o, text[len(text)-50:])
		}
	}
}

// TestRecordHasManifestsOfEditedRevisions expects, for each time in an edited run, the
// manifests of the revision that was applied then (R46).
func TestRecordHasManifestsOfEditedRevisions(t *testing.T) {
	dir, begin := t.TempDir(), aborted(t)[0]
	word, gone := plan.Object{Kind: "ConfigMap", Name: "word"}, plan.Object{Kind: "ConfigMap", Name: "gone"}
	log := NewRunLog(dir, func(s string) { t.Error(s) })
	log.KeepManifests(func(edits int) iter.Seq2[plan.Object, string] {
		of := map[plan.Object]string{word: fmt.Sprint("revision: ", edits+1)}
		if edits == 0 {
			of[gone] = "kind: ConfigMap"
		}
		return maps.All(of)
	})
	Replay([]event.Event{begin, {Kind: event.KindRun, Status: event.Paused}, begin, {Kind: event.KindRun, Status: event.Paused}, begin}, log)
	log.Close()
	r, err := ReadRecord(dir, log.Name())
	if err != nil || len(r.Events) != 5 {
		t.Fatal(r, err)
	}
	for at, want := range []string{1: "revision: 1", 2: "revision: 1", 3: "revision: 2", 4: "revision: 2", 5: "revision: 3"} {
		if got := r.Manifest(word, at); at > 0 && got != want {
			t.Errorf("at event %d: %q, want %q", at, got, want)
		}
	}
	if r.Manifest(gone, 5) != "kind: ConfigMap" {
		t.Error("an object that an edit removed has no manifest")
	}
}

// TestManifestOfGeneratedName expects the manifest of an object with a generated name.
func TestManifestOfGeneratedName(t *testing.T) {
	planned, made := plan.Object{Kind: "Job", Name: "work-"}, plan.Object{Kind: "Job", Name: "work-x7"}
	events := append(aborted(t)[:1:1], event.Event{Kind: event.KindObject, Object: &made, Planned: "work-"})
	r, _ := writeAndRead(t, events, map[plan.Object]string{planned: "generateName: work-"})
	if r.Manifest(made, 2) != "generateName: work-" {
		t.Errorf("%q", r.Manifest(made, 2))
	}
}
