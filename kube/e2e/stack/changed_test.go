package stack

import (
	"strings"
	"testing"
	"time"

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
