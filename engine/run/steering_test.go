package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestFailuresCanBeResolvedInAnyOrder(t *testing.T) { // R44, R41
	failing := behaviour{failed: "exit code 1", untilTry: 1}
	held := Options{HoldOnFailure: true}
	tests := []struct {
		name   string
		opts   Options
		groups []string
		script map[string]behaviour
		steer  func(*rig)
		err    error
		trace  []string
	}{
		{
			name: "a retry of a failed group starts the groups that wait for it", opts: held,
			groups: []string{"a: x", "b: y", "c < a: z"}, script: map[string]behaviour{"x": failing, "y": {failed: "exit code 2", untilTry: 1, ready: 2 * sec}},
			steer: func(b *rig) {
				b.at(sec)
				b.command(event.GiveUp, "c:a")
				b.at(3 * sec)
				b.command(event.Retry, "")
			},
			trace: []string{"0.0s c:a running", "0.0s c:b running", "0.0s c:a failed (Pod/x: exit code 1)", "0.0s run held (c:a: Pod/x: exit code 1)",
				"1.0s run running", "1.0s give-up accepted", "2.0s c:b failed (Pod/y: exit code 2)", "2.0s run held (c:b: Pod/y: exit code 2)",
				"3.0s run running", "3.0s c:a running", "3.0s c:b running", "3.0s retry accepted", "3.0s c:a ready", "3.0s c:c running", "3.0s c:c ready", "5.0s c:b ready"},
		},
		{
			name: "the run is held until the last failure is resolved", opts: held, err: errAny,
			groups: []string{"a: x", "b: y"}, script: map[string]behaviour{"x": failing, "y": {failed: "exit code 2", ready: sec}},
			steer: func(b *rig) { b.at(2 * sec); b.command(event.GiveUp, "c:b"); b.command(event.Retry, "c:a") },
			trace: []string{"0.0s c:a running", "0.0s c:b running", "0.0s c:a failed (Pod/x: exit code 1)", "0.0s run held (c:a: Pod/x: exit code 1)",
				"1.0s c:b failed (Pod/y: exit code 2)", "1.0s run held (c:b: Pod/y: exit code 2)",
				"2.0s run held (c:a: Pod/x: exit code 1)", "2.0s give-up accepted", "2.0s run running", "2.0s c:a running", "2.0s retry accepted", "2.0s c:a ready"},
		},
		{
			name: "a run that was paused is paused again after a retry", opts: Options{HoldOnFailure: true, Paused: true},
			groups: []string{"a: x", "b: y"}, script: map[string]behaviour{"x": failing},
			steer: func(b *rig) {
				b.command(event.Step, "")
				b.at(sec)
				b.command(event.Retry, "")
				b.at(2 * sec)
				b.command(event.Step, "")
			},
			trace: []string{"0.0s run paused (before the first group)", "0.0s step accepted", "0.0s c:a running", "0.0s c:a failed (Pod/x: exit code 1)",
				"0.0s run held (c:a: Pod/x: exit code 1)", "1.0s run paused", "1.0s c:a running", "1.0s retry accepted", "1.0s c:a ready",
				"2.0s step accepted", "2.0s c:b running", "2.0s c:b ready"},
		},
		{
			name: "after a give-up the run returns to the earlier pause", opts: held, err: errAny,
			groups: []string{"a: x", "b: y"}, script: map[string]behaviour{"x": {failed: "exit code 1", ready: 2 * sec}, "y": {ready: 5 * sec}},
			steer: func(b *rig) {
				b.at(sec)
				b.command(event.Pause, "")
				b.at(3 * sec)
				b.command(event.GiveUp, "")
				b.at(4 * sec)
				b.command(event.Resume, "")
			},
			trace: []string{"0.0s c:a running", "0.0s c:b running", "1.0s run paused", "1.0s pause accepted", "2.0s c:a failed (Pod/x: exit code 1)",
				"2.0s run held (c:a: Pod/x: exit code 1)", "3.0s run paused", "3.0s give-up accepted", "4.0s run running", "4.0s resume accepted", "5.0s c:b ready"},
		},
		{
			name: "a step starts the named group, if it can start (R41)", opts: Options{Paused: true},
			groups: []string{"a: x", "b: y", "c < b: z"},
			steer: func(b *rig) {
				b.command(event.Step, "c:b")
				b.command(event.Step, "c:b")
				b.command(event.Step, "c:q")
				b.command(event.Step, "")
				b.command(event.Step, "c:c")
			},
			trace: []string{"0.0s run paused (before the first group)", "0.0s step accepted", "0.0s c:b running", "0.0s c:b ready",
				"0.0s step refused (c:b has already started)", `0.0s step refused (no group "c:q")`,
				"0.0s step accepted", "0.0s c:a running", "0.0s c:a ready", "0.0s step accepted", "0.0s c:c running", "0.0s c:c ready"},
		},
		{
			name: "a step is refused after a failure was given up (R26)", opts: Options{HoldOnFailure: true, Paused: true}, err: errAny,
			groups: []string{"a: x", "b: y", "c: z"}, script: map[string]behaviour{"x": {failed: "exit code 1"}, "y": {ready: 5 * sec}},
			steer: func(b *rig) {
				b.command(event.Step, "c:b")
				b.command(event.Step, "c:a")
				b.command(event.GiveUp, "")
				b.command(event.Step, "c:c")
				b.command(event.Step, "")
			},
			trace: []string{"0.0s run paused (before the first group)", "0.0s step accepted", "0.0s c:b running", "0.0s step accepted", "0.0s c:a running",
				"0.0s c:a failed (Pod/x: exit code 1)", "0.0s run held (c:a: Pod/x: exit code 1)", "0.0s run paused", "0.0s give-up accepted",
				"0.0s step refused (no group can start because c:a failed (R26); the operation fails once the running groups finish)",
				"0.0s step refused (no group can start because c:a failed (R26); the operation fails once the running groups finish)", "5.0s c:b ready", "5.0s c:c skipped (not started: the operation failed)"},
		},
		{
			name: "run-to a group that can start is refused (R42)", opts: Options{MaxGroups: 1},
			groups: []string{"a: x", "b: y", "c: z"}, script: map[string]behaviour{"x": {ready: 2 * sec}},
			steer: func(b *rig) {
				b.command(event.RunTo, "c:c")
				b.command(event.Pause, "")
				b.command(event.RunTo, "c:c")
				b.command(event.Resume, "")
			},
			trace: []string{"0.0s c:a running", "0.0s run-to refused (c:c can already start)", "0.0s run paused", "0.0s pause accepted",
				"0.0s run-to refused (c:c can already start; step or resume the run)", "0.0s run running", "0.0s resume accepted",
				"2.0s c:a ready", "2.0s c:b running", "2.0s c:b ready", "2.0s c:c running", "2.0s c:c ready"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := run(t, tt.opts, Stage{Phase: event.Phase{Groups: groupsOf(tt.groups...)}}, newFake(tt.script), tt.steer)
			if tt.err == nil && err != nil || tt.err == errAny && err == nil {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			want(t, trace, tt.trace...)
		})
	}
}

func TestAcceptChecksAgainWithoutApplying(t *testing.T) { // R44, R22
	pod := func(name string) plan.Object { return plan.Object{Kind: "Pod", Namespace: "n", Name: name} }
	tests := []struct {
		name   string
		script behaviour
		await  bool
		// before arrives at 1s, the command at 2s, after at 3s.
		before, after Observation
		end           string
		at            time.Duration
	}{
		{name: "an earlier Ready observation counts", script: behaviour{failed: "exit code 1"}, await: true,
			before: Observation{Status: event.Ready, Version: 900}, end: "ready", at: 2 * sec},
		{name: "a later Ready observation counts", script: behaviour{failed: "exit code 1"}, await: true,
			after: Observation{Status: event.Ready, Version: 900}, end: "ready", at: 3 * sec},
		{name: "a status older than the apply does not count", script: behaviour{failed: "exit code 1"}, await: true,
			before: Observation{Status: event.Ready, Version: 50}, end: "failed", at: 22 * sec},
		{name: "a refused object counts once it has changed in the cluster", script: behaviour{err: errDenied}, await: true,
			after: Observation{Status: event.Ready, Version: 900}, end: "ready", at: 3 * sec},
		{name: "an unchanged refused object does not count", script: behaviour{err: errDenied, stale: true}, await: true, end: "failed", at: 22 * sec},
		{name: "the same for a group that nothing waits for", script: behaviour{err: errDenied},
			after: Observation{Status: event.Ready, Version: 900}, end: "ready", at: 3 * sec},
		{name: "a new Failed observation fails the group again", script: behaviour{failed: "exit code 1"}, await: true,
			after: Observation{Status: event.Failed, Message: "exit code 3", Version: 900}, end: "failed", at: 3 * sec},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := newFake(map[string]behaviour{"x": tt.script})
			s := Stage{Phase: event.Phase{Groups: groupsOf("a: x")}, ObjectTimeout: 20 * sec, Await: func(*plan.Group) bool { return tt.await }}
			trace, _ := run(t, Options{HoldOnFailure: true}, s, fake, func(b *rig) {
				see := func(seen Observation) {
					if seen.Object = pod("x"); seen.Status != "" {
						fake.reports[pod("x")](seen)
					}
				}
				b.at(sec)
				see(tt.before)
				b.at(2 * sec)
				b.command(event.Accept, "")
				b.at(3 * sec)
				see(tt.after)
				b.at(60 * sec)
				b.command(event.Abort, "")
			})
			end := fmt.Sprintf("%.1fs c:a %s", tt.at.Seconds(), tt.end)
			ended := slices.ContainsFunc(trace, func(line string) bool { return strings.HasPrefix(line, end) })
			if !ended || fake.calls["x"] != 1 {
				t.Errorf("want %q and one request, there were %d:\n%s", end, fake.calls["x"], strings.Join(trace, "\n"))
			}
		})
	}
}

func TestARetryWaitsForEarlierRequests(t *testing.T) { // R44
	fake := newFake(map[string]behaviour{"x": {err: errDenied, untilTry: 1}, "y": {request: 5 * sec}})
	trace, err := run(t, Options{HoldOnFailure: true}, Stage{Phase: event.Phase{Groups: groupsOf("a: x y")}}, fake, func(b *rig) {
		b.at(sec)
		b.command(event.Retry, "c:a")
	})
	if err != nil || fake.calls["y"] != 2 || fake.mostFor["y"] != 1 {
		t.Errorf("error %v; %d requests for y, at most %d at a time", err, fake.calls["y"], fake.mostFor["y"])
	}
	want(t, trace, "0.0s c:a running", "0.0s c:a failed (Pod/x: "+errDenied.Error()+")", "0.0s run held (c:a: Pod/x: "+errDenied.Error()+")",
		"1.0s run running", "1.0s c:a running", "1.0s retry accepted", "10.0s c:a ready")
}

// inBubble runs an engine in a synctest bubble.
func inBubble(t *testing.T, opts Options, do func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		b := &rig{t: t, feed: &event.Feed{}, from: time.Now()}
		opts.Feed = b.feed
		b.e = New(opts)
		do(b)
		synctest.Wait()
	})
}

func (b *rig) commandUnit(name event.CommandName, phase, group string) {
	b.e.Command(event.Command{Name: name, Phase: phase, Group: group})
	synctest.Wait()
}

func TestRemovalsHaveTheirOwnBreakpoints(t *testing.T) { // R42
	apply := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x", "b < a: y")}
	remove := event.Phase{Name: "remove", Kind: event.PhaseRemove, Groups: groupsOf("a: v", "b < a: w")}
	start := func(b *rig, p event.Phase) *StageRun {
		r := b.e.Start(Stage{Phase: p, Cluster: newFake(nil)})
		synctest.Wait()
		return r
	}
	t.Run("on one of two units of an id", func(t *testing.T) {
		inBubble(t, Options{}, func(b *rig) {
			b.e.Announce(apply, remove)
			if err := start(b, apply).Wait(); err != nil {
				t.Error(err)
			}
			b.commandUnit(event.Break, "remove", "c:a")
			b.commandUnit(event.Break, "apply", "c:a")
			r := start(b, remove)
			b.command(event.Resume, "")
			if err := r.Wait(); err != nil {
				t.Error(err)
			}
			b.e.Finish(End{Status: event.Succeeded})
			want(t, b.trace(), "0.0s c:a running", "0.0s c:a ready", "0.0s c:b running", "0.0s c:b ready",
				"0.0s breakpoint c:a set", "0.0s break accepted", "0.0s break refused (c:a has already started)",
				"0.0s c:a held (breakpoint)", "0.0s run paused (breakpoint c:a)",
				"0.0s c:a waiting", "0.0s run running", "0.0s resume accepted", "0.0s c:a running", "0.0s c:a gone", "0.0s c:b running", "0.0s c:b gone")
		})
	})
	t.Run("without a phase the run pauses before both units, once each", func(t *testing.T) {
		inBubble(t, Options{Breakpoints: []string{"c:a"}}, func(b *rig) {
			b.e.Announce(apply, remove)
			for _, p := range []event.Phase{apply, remove} {
				r := start(b, p)
				b.command(event.Resume, "")
				if err := r.Wait(); err != nil {
					t.Error(err)
				}
			}
			b.e.Finish(End{Status: event.Succeeded})
			pauses := slices.DeleteFunc(b.trace(), func(s string) bool { return s != "0.0s c:a held (breakpoint)" })
			if len(pauses) != 2 {
				t.Errorf("paused %d times:\n%v", len(pauses), b.trace())
			}
		})
	})
}

func TestTheFirstInterruptOfARollbackChangesNothing(t *testing.T) { // R43, R44
	for _, name := range []event.CommandName{event.Abort, event.Stop} {
		inBubble(t, Options{HoldOnFailure: true}, func(b *rig) {
			if err := b.e.StartRollback(event.Operation{Name: "uninstall"}, "it failed"); err != nil {
				t.Error(err)
			}
			remove := event.Phase{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: groupsOf("a: x", "b < a: y")}
			r := b.e.Start(Stage{Phase: remove, Cluster: newFake(map[string]behaviour{"x": {gone: 5 * sec}})})
			b.at(sec)
			b.command(name, "")
			b.at(2 * sec)
			b.command(name, "")
			if err := r.Wait(); !errors.Is(err, ErrAborted) {
				t.Errorf("error %v", err)
			}
			if b.e.Finish(End{Status: event.Failed, Exit: 1}) == nil {
				t.Error("Finish accepted Failed after the run was stopped")
			}
			b.e.Finish(End{Status: event.Aborted, Exit: 3})
			stopped := ""
			if name != event.Stop {
				stopped = " (the rollback was stopped)"
			}
			want(t, b.trace(), "0.0s c:a running", "1.0s "+string(name)+" refused ("+"a rollback is in progress; repeat the command to stop it and leave the objects as they are"+")",
				"2.0s run aborting", "2.0s "+string(name)+" accepted"+stopped, "2.0s c:a aborted (aborted)", "2.0s c:b skipped (not started: the run was aborted)")
		})
	}
}

// TestEditedRevisionKeepsBreakpoints: set and disabled ones; a run-to target belongs to the
// replaced revision (R46, R42).
func TestEditedRevisionKeepsBreakpoints(t *testing.T) {
	apply := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x", "b < a: y", "c < b: z", "d < c: w")}
	opts := Options{Paused: true, Breakpoints: []string{"c:b"}, DisabledBreakpoints: []string{"c:c"}, Operation: event.Operation{Name: "install"}}
	inBubble(t, opts, func(b *rig) {
		b.e.Announce(apply)
		b.commandUnit(event.RunTo, "apply", "c:d")
		b.command(event.Pause, "")
		b.e.Command(event.Command{Name: event.Edit, Edit: 1})
		if err := b.e.StartEditedRevision(event.Operation{Name: "upgrade", Revision: 2}, "edited", apply); err != nil {
			t.Fatal(err)
		}
		var s event.State
		for _, e := range b.feed.Events() {
			s.Apply(e)
		}
		want := map[event.Unit]bool{{Phase: "apply", Group: "c:b"}: true, {Phase: "apply", Group: "c:c"}: false} // enabled
		if !maps.Equal(s.Breakpoints, want) {
			t.Errorf("breakpoints %v, want %v", s.Breakpoints, want)
		}
		b.e.Finish(End{Status: event.Succeeded})
	})
}

// TestEditedRevisionDoesNotAskAgain: the plan paused the run before two replacements. Of the group that the user let go, an edited
// revision does not pause it again, unless the user has a breakpoint there, too (R46, R30b).
func TestEditedRevisionDoesNotAskAgain(t *testing.T) {
	apply := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x", "b < a: y")}
	for name, breakpoints := range map[string][]string{"asked": {"c:a", "c:b"}, "user's": {"c:a", "c:a", "c:b"}} {
		opts := Options{Operation: event.Operation{Name: "install"}, HoldOnFailure: true, Breakpoints: breakpoints, PausesBefore: map[string]string{"c:a": "before x is replaced", "c:b": "before y is replaced"}}
		inBubble(t, opts, func(b *rig) {
			b.e.Announce(apply)
			r := b.e.Start(Stage{Phase: apply, Cluster: newFake(map[string]behaviour{"x": {err: errDenied, untilTry: 1}})})
			b.at(sec)
			b.command(event.Resume, "")
			b.at(2 * sec)
			b.e.Command(event.Command{Name: event.Edit, Edit: 1})
			if err := r.Wait(); !errors.Is(err, ErrReplaced) {
				t.Errorf("error %v", err)
			}
			if err := b.e.StartEditedRevision(event.Operation{Name: "upgrade", Revision: 2}, "edited", apply); err != nil {
				t.Fatal(err)
			}
			var s event.State
			for _, e := range b.feed.Events() {
				s.Apply(e)
			}
			want := map[event.Unit]bool{{Phase: "apply", Group: "c:b"}: true}
			if name == "user's" {
				want[event.Unit{Phase: "apply", Group: "c:a"}] = true
			}
			if !maps.Equal(s.Breakpoints, want) {
				t.Errorf("%s: breakpoints %v, want %v", name, s.Breakpoints, want)
			}
			b.e.Finish(End{Status: event.Succeeded})
		})
	}
}

// TestWarnedUserStopsARollbackAtOnce sends the command of a dialog that has already said that
// a rollback is running (R43).
func TestWarnedUserStopsARollbackAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(b *rig) {
		if err := b.e.StartRollback(event.Operation{Name: "uninstall"}, "it failed"); err != nil {
			t.Error(err)
		}
		b.e.Command(event.Command{Name: event.Abort, KnowsRollback: true, ID: "7"})
		b.e.Finish(End{Status: event.Aborted, Exit: 3})
		for _, e := range b.feed.Events() {
			if e.Kind == event.KindCommand && (e.Status != event.Accepted || e.Answers != "7") {
				t.Errorf("the answer is %+v", e)
			}
		}
		want(t, b.trace(), "0.0s run aborting", "0.0s abort accepted (the rollback was stopped)")
	})
}

func TestAFailureOfARollbackIsHeld(t *testing.T) { // R44
	inBubble(t, Options{HoldOnFailure: true}, func(b *rig) {
		if err := b.e.StartRollback(event.Operation{Name: "rollback"}, "it failed"); err != nil {
			t.Error(err)
		}
		back := event.Phase{Name: "rollback/apply", Kind: event.PhaseApply, Groups: groupsOf("a: x")}
		r := b.e.Start(Stage{Phase: back, Cluster: newFake(map[string]behaviour{"x": {err: errDenied, untilTry: 1}})})
		b.at(sec)
		b.command(event.Retry, "")
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
		b.e.Finish(End{Status: event.Failed, Exit: 1})
	})
}

func TestCommandsAcceptedAtTheEndTakeEffect(t *testing.T) { // R48
	for _, tt := range []struct {
		command  event.CommandName
		rollback bool // it may start
	}{{event.Abort, false}, {event.Stop, false}, {event.Rollback, true}} {
		inBubble(t, Options{}, func(b *rig) {
			if c := b.e.EndingCommand(); c != nil {
				t.Errorf("ended by %+v", c)
			}
			b.command(tt.command, "") // while the final state is being written
			for _, end := range []End{{Status: event.Succeeded}, {Status: event.Failed, Exit: 1}} {
				if b.e.Finish(end) == nil {
					t.Errorf("%s was accepted, but the run ended as %s", tt.command, end.Status)
				}
			}
			if c := b.e.EndingCommand(); c == nil || c.Name != tt.command {
				t.Errorf("ended by %+v, want %s", c, tt.command)
			}
			if err := b.e.StartRollback(event.Operation{Name: "uninstall"}, ""); (err == nil) != tt.rollback {
				t.Errorf("StartRollback after %s: %v", tt.command, err)
			}
			if err := b.e.Finish(End{Status: event.Aborted, Exit: 3}); err != nil {
				t.Error(err)
			}
			b.command(event.Pause, "")
			b.e.Publish(event.Event{Kind: event.KindWarning})
			if all := b.feed.Events(); all[len(all)-1].Exit == nil {
				t.Errorf("the last event is %+v", all[len(all)-1])
			}
		})
	}
}

func TestAStageKeepsItsResultAfterTheRun(t *testing.T) {
	inBubble(t, Options{}, func(b *rig) {
		r := b.e.Start(Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x")}, Cluster: newFake(nil)})
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
		b.e.Finish(End{Status: event.Succeeded})
		for range 100 {
			if err := r.Wait(); err != nil {
				t.Fatalf("the stage succeeded, but Wait returned %v", err)
			}
		}
	})
}

func TestBeforeEnd(t *testing.T) { // R48
	var e *Engine
	inBubble(t, Options{BeforeEnd: func() {
		e.Publish(event.Event{Kind: event.KindWarning, Message: "still told"})
		e.Command(event.Command{Name: event.Abort}) // too late
		synctest.Wait()
	}}, func(b *rig) {
		e = b.e
		if err := e.Finish(End{Status: event.Succeeded}); err != nil {
			t.Error(err)
		}
		all := b.feed.Events()
		if last := all[len(all)-1]; len(all) != 3 || all[1].Message != "still told" || last.Kind != event.KindOperation || last.Status != event.Succeeded {
			t.Errorf("%+v", all)
		}
	})
}
