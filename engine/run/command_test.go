package run

import (
	"errors"
	"testing"

	"lockstep/engine/event"
)

func TestCommands(t *testing.T) { // R40 to R45: the exact events of each
	quick := map[string]behaviour{"x": {ready: 2 * sec}, "y": {ready: 2 * sec}, "z": {ready: sec}}
	chain := []string{"a: x", "b < a: y", "c < b: z"}
	const held = "the run is held on a failure; use retry, accept, give-up or abort"
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
			name: "during a pause running groups finish and none starts (R40)", groups: chain, script: quick,
			steer: func(b *rig) { b.at(sec); b.command(event.Pause, ""); b.at(9 * sec); b.command(event.Resume, "") },
			trace: []string{"0.0s c:a running", "1.0s run paused", "1.0s pause accepted", "2.0s c:a ready",
				"9.0s run running", "9.0s resume accepted", "9.0s c:b running", "11.0s c:b ready", "11.0s c:c running", "12.0s c:c ready"},
		},
		{
			name: "a second pause is refused (R45)", groups: chain[:1], script: quick,
			steer: func(b *rig) { b.command(event.Pause, ""); b.command(event.Pause, ""); b.command(event.Resume, "") },
			trace: []string{"0.0s c:a running", "0.0s run paused", "0.0s pause accepted", "0.0s pause refused (the run is already paused)",
				"0.0s run running", "0.0s resume accepted", "2.0s c:a ready"},
		},
		{
			name: "a step starts exactly one unit, in plan order (R41)", opts: Options{Paused: true}, groups: []string{"a: x", "b: y", "c < a: z"}, script: quick,
			steer: func(b *rig) {
				b.at(sec)
				b.command(event.Step, "")
				b.at(2 * sec)
				b.command(event.Step, "")
				b.at(6 * sec)
				b.command(event.Step, "")
			},
			trace: []string{"0.0s run paused (before the first group)",
				"1.0s step accepted", "1.0s c:a running", "2.0s step accepted", "2.0s c:b running",
				"3.0s c:a ready", "4.0s c:b ready", "6.0s step accepted", "6.0s c:c running", "7.0s c:c ready"},
		},
		{
			name: "a step takes effect as soon as a group can start (R41)", opts: Options{Paused: true}, groups: chain[:2], script: quick,
			steer: func(b *rig) {
				b.command(event.Step, "c:b")
				b.command(event.Step, "")
				b.command(event.Step, "")
			},
			trace: []string{"0.0s run paused (before the first group)", "0.0s step refused (c:b is waiting for c:a)", "0.0s step accepted", "0.0s c:a running", "0.0s step accepted", "0.0s run paused (step pending: starts the next group as soon as one can start)",
				"2.0s c:a ready", "2.0s c:b running", "4.0s c:b ready"},
		},
		{
			name: "no step is pending once every group has started (R41)", opts: Options{Paused: true}, groups: chain[:1], script: quick,
			steer: func(b *rig) { b.command(event.Step, ""); b.at(1 * sec); b.command(event.Step, "") },
			trace: []string{"0.0s run paused (before the first group)", "0.0s step accepted", "0.0s c:a running",
				"1.0s step refused (every group has started; the run ends once the running ones are ready)", "2.0s c:a ready"},
		},
		{
			name: "step needs a paused run (R45)", groups: chain[:1], script: quick,
			steer: func(b *rig) { b.command(event.Step, ""); b.command(event.Resume, ""); b.command(event.Retry, "") },
			trace: []string{"0.0s c:a running", "0.0s step refused (the run is not paused; pause it first)",
				"0.0s resume refused (the run is not paused)", "0.0s retry refused (the run is not held on a failure)", "2.0s c:a ready"},
		},
		{
			name: "a breakpoint pauses the whole run before the group's first write (R42)", opts: Options{Breakpoints: []string{"c:b"}},
			groups: []string{"a: x", "b < a: y", "c < a: z"}, script: quick,
			steer: func(b *rig) { b.at(5 * sec); b.command(event.Resume, "") },
			trace: []string{"0.0s breakpoint c:b set", "0.0s c:a running", "2.0s c:a ready", "2.0s c:b held (breakpoint)", "2.0s run paused (breakpoint c:b)",
				"5.0s c:b waiting", "5.0s run running", "5.0s resume accepted", "5.0s c:b running", "5.0s c:c running", "6.0s c:c ready", "7.0s c:b ready"},
		},
		{
			name: "breakpoints are set and cleared by command, until the group starts (R42, R45)", groups: chain[:2], script: quick,
			steer: func(b *rig) {
				b.command(event.Break, "c:b")
				b.command(event.Break, "c:b")
				b.command(event.Break, "c:a")
				b.command(event.Break, "c:q")
			},
			trace: []string{"0.0s c:a running", "0.0s breakpoint c:b set", "0.0s break accepted", "0.0s breakpoint c:b cleared", "0.0s break accepted",
				"0.0s break refused (c:a has already started)", `0.0s break refused (no group "c:q")`,
				"2.0s c:a ready", "2.0s c:b running", "4.0s c:b ready"},
		},
		{
			name: "a step passes a breakpoint (R41, R42)", opts: Options{Breakpoints: []string{"c:a"}}, groups: chain[:1], script: quick,
			steer: func(b *rig) { b.at(sec); b.command(event.Step, "") },
			trace: []string{"0.0s breakpoint c:a set", "0.0s c:a held (breakpoint)", "0.0s run paused (breakpoint c:a)", "1.0s step accepted", "1.0s c:a running", "3.0s c:a ready"},
		},
		{
			name: "a disabled breakpoint does not pause the run until it is enabled (R42)", groups: []string{"a: x", "b < a: y", "c < b: z"}, script: quick,
			steer: func(b *rig) {
				b.command(event.Disable, "c:b")
				b.command(event.Break, "c:b")
				b.command(event.Disable, "c:b")
				b.command(event.Break, "c:c")
				b.command(event.Disable, "c:c")
				b.at(3 * sec)
				b.command(event.Disable, "c:c")
				b.at(9 * sec)
				b.command(event.Resume, "")
			},
			trace: []string{"0.0s c:a running", "0.0s disable refused (c:b has no breakpoint; set one first)", "0.0s breakpoint c:b set", "0.0s break accepted",
				"0.0s breakpoint c:b disabled", "0.0s disable accepted", "0.0s breakpoint c:c set", "0.0s break accepted", "0.0s breakpoint c:c disabled", "0.0s disable accepted",
				"2.0s c:a ready", "2.0s c:b running", "3.0s breakpoint c:c set", "3.0s disable accepted", "4.0s c:b ready",
				"4.0s c:c held (breakpoint)", "4.0s run paused (breakpoint c:c)", "9.0s c:c waiting", "9.0s run running", "9.0s resume accepted", "9.0s c:c running", "10.0s c:c ready"},
		},
		{
			name: "run-to pauses before the group once, and at breakpoints on the way (R42)", opts: Options{Paused: true},
			groups: []string{"a: x", "b < a: y", "c < b: z"}, script: quick,
			steer: func(b *rig) {
				b.command(event.RunTo, "c:a")
				b.command(event.RunTo, "c:q")
				b.command(event.Break, "c:b")
				b.command(event.RunTo, "c:c")
				b.at(3 * sec)
				b.command(event.RunTo, "c:c")
				b.at(9 * sec)
				b.command(event.RunTo, "c:b")
				b.command(event.Resume, "")
			},
			trace: []string{"0.0s run paused (before the first group)", "0.0s run-to refused (c:a can already start; step or resume the run)",
				`0.0s run-to refused (no group "c:q")`, "0.0s breakpoint c:b set", "0.0s break accepted",
				"0.0s breakpoint c:c set", "0.0s run running", "0.0s run-to accepted", "0.0s c:a running", "2.0s c:a ready",
				"2.0s c:b held (breakpoint)", "2.0s run paused (breakpoint c:b)", "3.0s c:b waiting", "3.0s run running", "3.0s run-to accepted", "3.0s c:b running",
				"5.0s c:b ready", "5.0s c:c held (run-to target)", "5.0s breakpoint c:c cleared", "5.0s run paused (run-to target c:c)",
				"9.0s run-to refused (c:b has already started)", "9.0s c:c waiting", "9.0s run running", "9.0s resume accepted", "9.0s c:c running", "10.0s c:c ready"},
		},
		{
			name: "abort starts nothing more and ends waits (R43)", groups: chain, script: quick, err: ErrAborted,
			steer: func(b *rig) { b.at(sec); b.command(event.Abort, ""); b.command(event.Pause, "") },
			trace: []string{"0.0s c:a running", "1.0s run aborting", "1.0s abort accepted", "1.0s c:a aborted (aborted)",
				"1.0s c:b skipped (not started: the run was aborted)", "1.0s c:c skipped (not started: the run was aborted)",
				"1.0s pause refused (the run is being aborted)"},
		},
		{
			name: "abort waits for requests in flight (R43)", groups: []string{"a: slow"}, script: map[string]behaviour{"slow": {request: 4 * sec}}, err: ErrAborted,
			steer: func(b *rig) { b.at(sec); b.command(event.Abort, "") },
			trace: []string{"0.0s c:a running", "1.0s run aborting", "1.0s abort accepted", "4.0s c:a aborted (aborted)"},
		},
		{
			name: "stop cancels requests in flight (R43)", groups: []string{"a: x"}, script: map[string]behaviour{"x": {hang: true}}, err: ErrAborted,
			steer: func(b *rig) { b.at(sec); b.command(event.Abort, ""); b.at(2 * sec); b.command(event.Stop, "") },
			trace: []string{"0.0s c:a running", "1.0s run aborting", "1.0s abort accepted", "2.0s run aborting", "2.0s stop accepted", "2.0s c:a aborted (aborted)"},
		},
		{
			name: "a failure holds the run; retry applies and waits again (R44)", opts: Options{HoldOnFailure: true}, groups: chain[:2],
			script: map[string]behaviour{"x": {failed: "exit code 1", untilTry: 1}, "y": {}},
			steer:  func(b *rig) { b.at(30 * sec); b.command(event.Retry, "c:a") },
			trace: []string{"0.0s c:a running", "0.0s c:a failed (Pod/x: exit code 1)", "0.0s run held (c:a: Pod/x: exit code 1)",
				"30.0s run running", "30.0s c:a running", "30.0s retry accepted", "30.0s c:a ready", "30.0s c:b running", "30.0s c:b ready"},
		},
		{
			name: "while the run is held nothing starts and resume is refused; after a give-up running groups finish (R44, R26)", opts: Options{HoldOnFailure: true, InStack: true, Operation: event.Operation{Name: "install"}}, groups: []string{"a: x", "b: y", "c < b: z", "d < a: w"},
			script: map[string]behaviour{"x": {failed: "exit code 1"}, "y": {ready: 2 * sec}},
			steer: func(b *rig) {
				b.at(5 * sec)
				b.command(event.Step, "")
				b.command(event.Pause, "")
				b.command(event.Resume, "")
				b.command(event.GiveUp, "c:b")
				b.command(event.GiveUp, "c:a")
			},
			err: errAny,
			trace: []string{"0.0s c:a running", "0.0s c:b running", "0.0s c:a failed (Pod/x: exit code 1)", "0.0s run held (c:a: Pod/x: exit code 1)",
				"2.0s c:b ready", "5.0s step refused (" + held + ")", "5.0s pause refused (the run is already held)",
				"5.0s resume refused (" + held + ")", "5.0s give-up refused (c:b has not failed)",
				"5.0s run running", "5.0s give-up accepted", "5.0s c:c skipped (not started: the operation failed)", "5.0s c:d skipped (not started: c:a failed)"},
		},
		{
			name: "an abort ends a hold (R44, R43)", opts: Options{HoldOnFailure: true}, groups: chain[:1], err: ErrAborted,
			script: map[string]behaviour{"x": {failed: "exit code 1"}},
			steer:  func(b *rig) { b.at(sec); b.command(event.Rollback, "") },
			trace: []string{"0.0s c:a running", "0.0s c:a failed (Pod/x: exit code 1)", "0.0s run held (c:a: Pod/x: exit code 1)",
				"1.0s run aborting", "1.0s rollback accepted"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := run(t, tt.opts, Stage{Phase: event.Phase{Groups: groupsOf(tt.groups...)}}, newFake(tt.script), tt.steer)
			if tt.err == errAny && err == nil || tt.err != errAny && !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			want(t, trace, tt.trace...)
		})
	}
}

var errAny = errors.New("any error")
