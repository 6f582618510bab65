package stack

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube/operation"
)

// TestResults derives the results of releases from random facts. Whatever happened, a result says no more than the record:
// deployed means that the newest record is deployed and that this run's operation created it (S5, R51b).
func TestResults(t *testing.T) {
	statuses := []string{"deployed", "failed", "superseded", "uninstalled", "uninstalling", "pending-install", "pending-upgrade", "pending-rollback", event.NoRelease}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[event.Result]int{}
	for range 100000 {
		var releases []event.ReleaseResult
		for n := range 1 + r.IntN(5) {
			f := randomFacts(r, statuses)
			got := resultOf(f)
			seen[got]++
			if wrong := contradiction(got, f); wrong != "" {
				t.Fatalf("%s, but %s: %+v", got, wrong, f)
			}
			release := event.ReleaseResult{
				Release: fmt.Sprint("r", n), Result: got, Status: f.record.Status, Revision: f.record.Revision, Newer: f.record.Newer, Changed: f.changedBy(),
			}
			if f.notReady || f.changed || r.IntN(3) == 0 {
				release.Reason = fmt.Sprint("reason ", n)
			}
			releases = append(releases, release)
		}
		checkOutcomes(t, releases)
	}
	if len(seen) != len(countedResults) {
		t.Errorf("results %v, want all of %v", seen, countedResults)
	}
}

func randomFacts(r *rand.Rand, statuses []string) facts {
	yes := func() bool { return r.IntN(3) == 0 }
	f := facts{remove: yes(), started: r.IntN(3) > 0, known: r.IntN(4) > 0}
	if !f.started {
		f.absent, f.passed = f.remove && yes(), !f.remove && yes()
		f.notReady, f.changed = !f.remove && yes(), !f.remove && yes()
		if !f.passed && !f.notReady && !f.changed {
			f.known = false
			return f
		}
	}
	f.record = operation.FinalRecord{Revision: 1 + r.IntN(4), Status: statuses[r.IntN(len(statuses))]}
	if f.record.Status == event.NoRelease {
		f.record.Revision = 0
	}
	if f.started && !f.remove && r.IntN(3) > 0 {
		f.record.Created = 1 + r.IntN(4)
		if yes() {
			f.record.RolledBack = f.record.Created + 1
		} else if yes() {
			f.rolledBack = f.record.Created + 1
		}
	}
	f.idle, f.notReady = f.started && f.record.Created == 0 && yes(), f.notReady || f.started && !f.remove && yes()
	if yes() {
		f.record.Newer = &event.NewerRevision{Revision: f.record.Revision, Status: f.record.Status, Author: "helm"}
		f.known = true
	}
	return f
}

// contradiction says how a result contradicts the facts, "" if it does not.
func contradiction(got event.Result, f facts) string {
	r := f.record
	deployed := f.known && r.Newer == nil && r.Status == "deployed"
	holds := map[event.Result]bool{
		event.Deployed:        f.started && deployed && r.Revision == r.Created,
		event.RolledBack:      f.started && deployed && r.Revision > r.Created && r.Created > 0,
		event.Uninstalled:     f.started && f.known && r.Newer == nil && (r.Status == event.NoRelease || r.Status == "uninstalled" && f.remove),
		event.PassedUnchanged: f.passed && f.known && !f.notReady && !f.changed && r.Newer == nil,
		event.NotReady:        f.notReady && (!f.started || !f.known || r.Status == "deployed"),
		event.NotDeployed:     f.started && f.known && r.Newer == nil && (!deployed || r.Revision != r.Created),
		event.Unfinished:      f.started && f.known && (strings.HasPrefix(r.Status, "pending-") || r.Status == "uninstalling"),
		event.ChangedByOthers: r.Newer != nil || f.changed,
		event.UnknownResult:   !f.known,
		event.NotInstalled:    f.absent,
		event.NotStarted:      !f.passed && (!f.started || f.idle && r.Created == 0),
	}
	switch {
	case !holds[got]:
		return "the facts say otherwise"
	case r.Newer != nil && got != event.ChangedByOthers:
		return "somebody else has a newer revision"
	case succeeded(got, f.remove) && f.started && !f.known:
		return "its record is unknown"
	}
	return ""
}

var number = regexp.MustCompile(`\d+`)

// checkOutcomes checks that the numbers in the outcomes add up, that each release which is not final, has a newer revision or
// was not rolled back is named with the reason, and that nothing is said twice.
func checkOutcomes(t *testing.T, releases []event.ReleaseResult) {
	t.Helper()
	outcome, rollback := outcomeOf(releases), rollbackOutcomeOf(releases)
	counts, _, _ := strings.Cut(outcome, "; ")
	sum, changed, done := 0, 0, 0
	for _, n := range number.FindAllString(counts, -1) {
		i, _ := strconv.Atoi(n)
		sum += i
	}
	for _, r := range releases {
		left := r.Changed && r.Result != event.RolledBack && r.Result != event.Uninstalled
		if r.Changed {
			changed++
		}
		if r.Changed && !left {
			done++
		}
		named := r.Reason != "" && undone(r) || r.Result == event.ChangedByOthers || r.Result == event.NotReady || r.Result == event.Unfinished || r.Result == event.UnknownResult
		for text, want := range map[string]bool{outcome: named, rollback: named || left} {
			times := strings.Count(text, r.Release+" ") + strings.Count(text, r.Release+":")
			if times > 1 || (times == 1) != want || strings.Count(text, r.Reason) > 1 && r.Reason != "" || strings.Contains(text, "; ;") {
				t.Fatalf("%q and %+v", text, r)
			}
		}
		if left && r.Newer == nil && r.Result != event.UnknownResult && !strings.Contains(rollback, r.Reason) {
			t.Fatalf("%q does not say why %+v was not rolled back", rollback, r)
		}
		if kept := strings.Contains(noteOf(r, left), "rolled back"); kept != left {
			t.Fatalf("%q of %+v", noteOf(r, left), r)
		}
	}
	if sum != len(releases) {
		t.Fatalf("%q counts %d of %d releases", outcome, sum, len(releases))
	}
	first, _, _ := strings.Cut(rollback, ";")
	if partly := strings.HasPrefix(rollback, fmt.Sprintf("rolled back %d of %d changed releases", done, changed)); partly == (done == changed) {
		t.Fatalf("%q, but %d of %d releases are rolled back", first, done, changed)
	}
}

// TestMessages: the message of a run does not repeat what its outcome says about the releases.
func TestMessages(t *testing.T) {
	s := &Stack{byID: map[string]*member{"n/a": {}, "n/b": {}}}
	for want, results := range map[string][]event.ReleaseResult{
		"releases: 1 unchanged, 1 unknown; the record of n/a cannot be read; run the same command again once the cluster answers": {
			{Release: "n/a", Result: event.UnknownResult, Status: event.NoRelease}, {Release: "n/b", Result: event.PassedUnchanged}},
		"releases: 1 unchanged, 1 changed by others; n/a has a newer revision 3 by helm": {
			{Release: "n/a", Result: event.ChangedByOthers, Newer: &event.NewerRevision{Revision: 3, Status: "deployed", Author: "helm"}}, {Release: "n/b", Result: event.PassedUnchanged}},
		"releases: 1 unchanged, 1 failed: n/a is failed": {{Release: "n/a", Result: event.NotDeployed}, {Release: "n/b", Result: event.PassedUnchanged}},
	} {
		outcome := outcomeOf(results)
		if got := messageOf(outcome, s.failedResults(results)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
