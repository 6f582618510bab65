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
			releases = append(releases, event.ReleaseResult{
				Release: fmt.Sprint("r", n), Result: got, Status: f.record.Status, Revision: f.record.Revision, Newer: f.record.Newer, Changed: f.changedBy(),
			})
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
	f.aborted = f.started && f.record.Created == 0 && yes()
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
		event.NotReady:        f.notReady,
		event.NotDeployed:     f.started && f.known && r.Newer == nil && (!deployed || r.Revision != r.Created),
		event.Unfinished:      f.started && f.known && (strings.HasPrefix(r.Status, "pending-") || r.Status == "uninstalling"),
		event.ChangedByOthers: r.Newer != nil || f.changed,
		event.UnknownResult:   !f.known,
		event.NotInstalled:    f.absent,
		event.NotStarted:      !f.passed && (!f.started || f.aborted && r.Created == 0),
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

// checkOutcomes checks that the numbers in the outcomes add up, and that every release which is not final or has a newer
// revision is named.
func checkOutcomes(t *testing.T, releases []event.ReleaseResult) {
	t.Helper()
	outcome, undone := outcomeOf(releases), rollbackOutcomeOf(releases, nil)
	counts, _, _ := strings.Cut(outcome, "; ")
	sum, changed, done := 0, 0, 0
	for _, n := range number.FindAllString(counts, -1) {
		i, _ := strconv.Atoi(n)
		sum += i
	}
	for _, r := range releases {
		if r.Changed {
			changed++
		}
		if r.Changed && (r.Result == event.RolledBack || r.Result == event.Uninstalled) {
			done++
		}
		if named := strings.Contains(outcome, r.Release+" "); named != (r.Newer != nil || r.Result == event.Unfinished || r.Result == event.UnknownResult) {
			t.Fatalf("%q and %+v", outcome, r)
		}
	}
	if sum != len(releases) {
		t.Fatalf("%q counts %d of %d releases", outcome, sum, len(releases))
	}
	first, _, _ := strings.Cut(undone, ";")
	if partly := strings.HasPrefix(undone, fmt.Sprintf("rolled back %d of %d changed releases", done, changed)); partly == (done == changed) {
		t.Fatalf("%q, but %d of %d releases are rolled back", first, done, changed)
	}
}
