package stack

import (
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
)

// TestChangedSincePlanning (S5, R51b): somebody else changes a release after it was planned and before the run writes to it. It
// counts as changed by others, not as failed, and if the run has written nothing at all, the exit code says so.
func TestChangedSincePlanning(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{"upgrade", "install", "uninstall"} {
		for _, wrote := range []bool{false, true} {
			t.Run(theirs+map[bool]string{true: " after a write", false: ""}[wrote], func(t *testing.T) {
				t.Parallel()
				b := newStackRig(t)
				b.Meddles = "helm changes a release after planning"
				one, two := map[string]any{"data": "one"}, map[string]any{"data": "two"}
				a := release{Name: "a", Dir: chart(t, "a"), Values: one}
				last := release{Name: "last", Dir: chart(t, "last"), Needs: []string{"a"}}
				base := release{Name: "base", Dir: chart(t, "base"), Values: one}
				stack := []release{base, last, a}
				if theirs == "install" {
					b.mustUp(base)
				} else {
					b.mustUp(base, a)
				}
				stack[2].Values = two
				if wrote {
					stack[0].Values, stack[2].Needs = two, []string{"base"}
				}
				s, err := b.prepare(false, nil, stack...)
				if err != nil {
					t.Fatal(err)
				}
				if theirs == "uninstall" {
					b.MustHelm("uninstall", "a")
				} else {
					b.MustHelm("upgrade", "--install", "a", helmsChart(t, "a"), "--set", "data=helm")
				}
				start := time.Now()
				state, _ := b.run(s, nil, nil)
				exit := map[bool]int{false: event.ExitNothingWritten, true: event.ExitFailed}[wrote]
				if got := result(state, "a"); state.Exit != exit || got.Result != event.ChangedByOthers || got.Newer == nil || strings.Contains(state.Outcome, "failed") {
					t.Errorf("exit %d, want %d; result %+v; %s; %s", state.Exit, exit, got, state.Outcome, phrase.Reason(state))
				}
				if got := result(state, "last").Result; got != event.NotStarted {
					t.Errorf("the release that needs it is %s", got)
				}
				if !wrote {
					b.assertNoWritesSince(start)
				}
			})
		}
	}
}

// TestLoserOfTwoRuns (S5): two runs of the same file, planned at the same time. The one that comes second finds the release locked or
// changed, writes nothing, and says so with its exit code.
func TestLoserOfTwoRuns(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	for n := range stack {
		stack[n].Values = map[string]any{"data": "two"}
	}
	second := mustPrepare(t, b, stack)
	first, err := b.prepare(false, nil, stack...)
	lost := false
	state, _ := b.run(first, err, func(e event.Event) {
		if e.Kind != event.KindGroup || e.Group != "a:config" || e.Status != event.Ready || lost {
			return
		}
		lost = true
		if err := second.Run(); err == nil {
			t.Error("both runs succeeded")
		}
	})
	var loser event.State
	for _, e := range second.Feed().Events() {
		loser.Apply(e)
	}
	if !lost || state.Exit != 0 || loser.Exit != event.ExitNothingWritten || result(&loser, "a").Result != event.ChangedByOthers || result(&loser, "b").Result != event.NotStarted {
		t.Errorf("exit %d; the second run: exit %d, %s: %s", state.Exit, loser.Exit, loser.Outcome, phrase.Reason(&loser))
	}
	if got := b.history("a", "b"); got[0] != "a 2 deployed" || got[1] != "b 2 deployed" {
		t.Errorf("history %v", got)
	}
}

// TestChangedAfterItsTurn: while the run deploys s, somebody writes to an object of a, which this run has deployed. If a release has
// taken the object over, the run fails and names it; what is only changed is a fact of the object (R21, S4).
func TestChangedAfterItsTurn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		patch  string
		exit   int
		result event.Result
	}{
		"belongs to release other":  {`{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`, event.ExitFailed, event.ChangedByOthers},
		"theirs has changed data.v": {`{"data":{"v":"theirs"}}`, 0, event.Deployed},
	}
	for want, test := range tests {
		t.Run(string(test.result), func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			b.Meddles = "somebody else changes a"
			s, err := b.prepare(false, nil, release{Name: "a", Dir: chart(t, "a")}, release{Name: "s", Dir: chart(t, "s"), Needs: []string{"a"}})
			var once sync.Once
			said := ""
			state, _ := b.run(s, err, func(e event.Event) {
				if e.Kind == event.KindGroup && e.Group == "s:config" && e.Status == event.Ready {
					once.Do(func() {
						s.Command(event.Command{Name: event.Pause})
						if _, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(test.patch), metav1.PatchOptions{FieldManager: "theirs"}); err != nil {
							t.Error(err)
						}
						s.Command(event.Command{Name: event.Resume})
					})
				}
			})
			for release, o := range state.Drifted() {
				if said += o.Drift[0].Manager + " has changed " + o.Drift[0].Field; !strings.HasSuffix(release, "/a") {
					t.Errorf("drift is in release %s", release)
				}
			}
			if got := result(state, "a"); state.Exit != test.exit || got.Result != test.result || !strings.Contains(said+phrase.Reason(state), want) {
				t.Errorf("exit %d, result %+v, drift %q: %s", state.Exit, got, said, phrase.Reason(state))
			}
		})
	}
}
