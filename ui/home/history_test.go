package home

import (
	"strings"
	"testing"
	"time"
)

// newerHistory has one more revision than sampleHistory.
type newerHistory struct{ sampleHistory }

func (h newerHistory) Revisions() []Revision {
	all := h.sampleHistory.Revisions()
	all[0].Status = "superseded"
	return append([]Revision{{Number: 15, Status: "deployed", Changed: now}}, all...)
}

// TestHistoryFollows: an open history reads the revisions again when the release has changed, and keeps the selection.
func TestHistoryFollows(t *testing.T) {
	r := stateOf(t, "history").open(t, 100, 30, bare)
	top := r.Modes.Top().(*history)
	changed := func(revision int, status string) {
		all := releases(3)
		all[0].Revision, all[0].Status = revision, status
		r.send(snapshotMsg{Snapshot{Listed: true, Releases: all}, r.number})
	}
	if changed(1, "deployed"); top.reading {
		t.Error("the revisions are read again although nothing has changed")
	}
	if changed(15, "pending-upgrade"); !top.reading {
		t.Fatal("the revisions are not read again after another terminal has made one")
	}
	changed(15, "deployed") // while they are read
	if r.Update(historyMsg{of: top.of, content: newerHistory{}}); !top.reading {
		t.Error("the revisions are not read again after they have changed while they were read")
	}
	r.send(historyMsg{of: top.of, content: newerHistory{}})
	if top.reading || !strings.Contains(r.text(), "13 revisions") || r.state.Revision != 0 || top.revision().Number != 14 {
		t.Errorf("revision %d is selected, want 14, which was selected before:\n%s", top.revision().Number, r.text())
	}
}

// TestHistoryAtFirst: a history that home opens at its start is read again only if the first snapshot knows a newer revision.
func TestHistoryAtFirst(t *testing.T) {
	for revision, want := range map[int]bool{14: false, 15: true} {
		r := stateOf(t, "three").open(t, 100, 30, bare)
		r.snapshot = Snapshot{}
		r.run(r.openHistory(Key{"shop", "api"}))
		all := releases(3)
		all[0].Revision = revision
		r.send(snapshotMsg{Snapshot{Listed: true, Releases: all}, r.number})
		if got := r.Modes.Top().(*history).reading; got != want {
			t.Errorf("after revision 14, the history is read again for revision %d: %v", revision, got)
		}
	}
}

// TestHistoryOutside: the history of a release in a namespace that is not followed is read again from time to time.
func TestHistoryOutside(t *testing.T) {
	for namespace, want := range map[string]bool{"shop": false, "data": true} {
		at := now
		r := stateOf(t, "three").open(t, 100, 30, bare, func(o *Options) { o.Now = func() time.Time { return at } })
		r.run(r.openHistory(Key{namespace, "api"}))
		top := r.Modes.Top().(*history)
		if r.Update(tickMsg{}); top.reading {
			t.Errorf("%s: the revisions are read again at once", namespace)
		}
		at = at.Add(readEvery)
		if r.Update(tickMsg{}); top.reading != want {
			t.Errorf("%s: after %s, the revisions are read again: %v", namespace, readEvery, top.reading)
		}
	}
}

// TestNoHistory: a release without revisions is no error, and its page offers what works.
func TestNoHistory(t *testing.T) {
	r := state{Snapshot: Snapshot{Listed: true, Runs: liveRuns()}}.open(t, 100, 30, bare)
	r.source.history = ErrNoRevisions
	r.press("h")
	if want := "release payments has no revisions yet: its upgrade payments-1.5.0 has not created one"; !strings.Contains(r.text(), want) {
		t.Errorf("the history does not show %q:\n%s", want, r.text())
	}
	if footer := r.text()[strings.LastIndex(r.text(), "\n"):]; strings.TrimSpace(footer) != "esc releases  q quit  ? help" {
		t.Errorf("the footer is %q", footer)
	}
}
