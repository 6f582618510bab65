package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/theme"
	"lockstep/ui/golden"
)

var plain = Style{Theme: theme.New(theme.Options{})}

// scenarios are operations with different outcomes.
var scenarios = map[string]func(*testing.T) []event.Event{
	"succeeded":  succeeded,
	"failed":     failed,
	"leaf":       leafFails,
	"held":       heldAndRetried,
	"steered":    steered,
	"aborted":    aborted,
	"rolledback": rolledBack,
}

func TestText(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			events := scenario(t)
			var out, warnings bytes.Buffer
			opts := Options{
				Style:  plain,
				Next:   func(s *event.State) []string { return []string{"helm status " + s.Operation.Release} },
				Record: func() string { return "20000101-000000-shop" },
			}
			Replay(events, newTextLog(&out, &warnings, opts))
			if warnings.Len() > 0 {
				out.WriteString("--- stderr\n" + warnings.String())
			}
			golden.CompareFile(t, "testdata/"+name+".txt", out.String())
			if strings.Contains(out.String(), "\x1b") {
				t.Error("plain text contains control sequences")
			}
		})
	}
}

func TestTextInColourAndASCII(t *testing.T) {
	for name, style := range map[string]Style{"colour.txt": {Theme: theme.New(theme.Options{}), Codes: true}, "ascii.txt": {Theme: theme.New(theme.Options{ASCII: true})}} {
		var out bytes.Buffer
		Replay(failed(t), newTextLog(&out, &out, Options{Style: style}))
		golden.CompareFile(t, "testdata/"+name, out.String())
	}
}

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	Summary(&out, Replay(failed(t)), Options{Style: plain})
	golden.CompareFile(t, "testdata/summary.txt", out.String())
}

// TestJSONIsTheEvents expects that -o json writes each event as one line, and that a log of the events that are read
// from these lines is the same. The tests of package reportfile read the golden files.
func TestJSONIsTheEvents(t *testing.T) {
	for name, scenario := range map[string]func(*testing.T) []event.Event{
		"succeeded": succeeded, "failed": failed, "aborted": aborted, "rolledback": rolledBack, "roots": manyRoots, "rolledback-refused": refused,
	} {
		events := scenario(t)
		var out bytes.Buffer
		Replay(events, jsonLines{&out})
		golden.CompareFile(t, "testdata/"+name+".ndjson", out.String())
		for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			want, err := json.Marshal(events[i])
			if err != nil || line != string(want) {
				t.Errorf("%s: line %d is %s, want %s (%v)", name, i+1, line, want, err)
			}
		}
		again, err := event.Read(&out)
		if err != nil {
			t.Fatal(err)
		}
		var first, second bytes.Buffer
		Replay(events, newTextLog(&first, &first, Options{Style: plain}))
		Replay(again, newTextLog(&second, &second, Options{Style: plain}))
		if first.String() != second.String() {
			t.Errorf("%s: log of the record:\n%s\nwant\n%s", name, second.String(), first.String())
		}
	}
}

func TestReadNamesInvalidLine(t *testing.T) {
	events, err := event.Read(strings.NewReader("{\"seq\":1,\"kind\":\"run\"}\n{\"seq\":2,\"ki"))
	if len(events) != 1 || err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%d events, error %v", len(events), err)
	}
}

// finish ends the operation with the outcome of its run.
func finish(b *bench, err error) {
	switch {
	case b.EndingCommand() != nil:
		b.Finish(run.End{Status: event.Aborted, Message: "release marked failed", Exit: 3})
	case err != nil:
		b.Finish(run.End{Status: event.Failed, Message: "release marked failed: it failed", Outcome: "release marked failed", Exit: 1})
	default:
		b.Finish(run.End{Status: event.Succeeded})
	}
}

func succeeded(t *testing.T) []event.Event {
	return record(t, run.Options{Heartbeat: 5 * sec}, func(b *bench) {
		groups, cluster := readPlan(shop...), newFake(behaviours(map[string]behaviour{"db": {change: event.Unchanged}, "ddl": {change: event.Configured}}))
		pre, post := hooks("pre-install", readPlan("pre-install:Job/check: Job/check")), hooks("post-install", readPlan("post-install:Job/smoke: Job/smoke"))
		b.Announce(pre, apply(groups), post)
		b.Publish(event.Event{Kind: event.KindWarning, Rule: "R9", Message: "shop: group lonely is isolated"})
		b.Publish(event.Event{Kind: event.KindWarning, Rule: "R2", Object: &plan.Object{Kind: "ConfigMap", Name: "db"}, Message: "not a list"})
		_ = b.Run(run.Stage{Phase: pre, Cluster: cluster})
		err := b.Run(run.Stage{Phase: apply(groups), Cluster: cluster, Await: awaited(groups)})
		time.Sleep(3 * sec)
		_ = b.Run(run.Stage{Phase: post, Cluster: cluster})
		b.Publish(event.Event{Kind: event.KindNotes, Lines: []string{"Open http://shop.example", "", "  and buy \x1b[1msomething\x1b[0m"}})
		finish(b, err)
	})
}

func failed(t *testing.T) []event.Event {
	return record(t, run.Options{Diagnose: diagnose}, func(b *bench) {
		groups := readPlan(shop...)
		pre := hooks("pre-install", readPlan("pre-install:Job/check: Job/check"))
		b.Announce(pre, apply(groups))
		check := &pre.Groups[0].Objects[0]
		_ = b.Run(run.Stage{Phase: pre, Cluster: newFake(nil)})
		for _, l := range []string{"checking …", "fine"} {
			b.Publish(event.Event{Kind: event.KindLog, Phase: pre.Name, Group: pre.Groups[0].ID, Object: check, Source: &event.Source{Pod: "check-7fk2p", Container: "main"}, Message: "Pod/check-7fk2p main", Lines: []string{l}})
		}
		finish(b, b.Run(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(map[string]behaviour{"migrate": {ready: 2 * sec, failed: "exit code 2 after 3 tries"}}))}))
	})
}

func leafFails(t *testing.T) []event.Event {
	return record(t, run.Options{}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		err := b.Run(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(map[string]behaviour{"api": {failed: "image example/no-such-image:1 cannot be pulled"}})), Await: awaited(groups)})
		time.Sleep(sec)
		finish(b, err)
	})
}

func heldAndRetried(t *testing.T) []event.Event {
	return record(t, run.Options{HoldOnFailure: true}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		r := b.Start(run.Stage{Phase: apply(groups), ObjectTimeout: 20 * sec, Cluster: newFake(behaviours(map[string]behaviour{
			"ddl": {refused: "admission webhook denied the request", tries: 1}, "StatefulSet/db-server": {never: true, tries: 1}}))})
		b.at(60 * sec)
		b.command(event.Retry, "shop/db:database")
		b.at(200 * sec)
		b.command(event.Step, "")
		b.command(event.Retry, "")
		finish(b, r.Wait())
	})
}

func steered(t *testing.T) []event.Event {
	return record(t, run.Options{Paused: true, Breakpoints: []string{"shop/db:schema"}}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		r := b.Start(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(nil))})
		b.at(2 * sec)
		b.command(event.Step, "")
		b.at(4 * sec)
		b.command(event.Resume, "")
		b.command(event.Break, "shop/api:(unsequenced)")
		b.command(event.Break, "shop/api:(unsequenced)")
		b.at(20 * sec)
		b.command(event.Resume, "")
		finish(b, r.Wait())
	})
}

func aborted(t *testing.T) []event.Event {
	return record(t, run.Options{}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		r := b.Start(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(nil))})
		b.at(2 * sec)
		b.Command(event.Command{Name: event.Abort, Reason: "interrupted"})
		finish(b, r.Wait())
	})
}

func rolledBack(t *testing.T) []event.Event {
	return record(t, run.Options{}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		r := b.Start(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(nil))})
		b.at(5 * sec)
		b.command(event.Rollback, "")
		_ = r.Wait()
		b.StartRollback(event.Operation{Name: "uninstall", Timeout: 5 * time.Minute}, "aborted")
		undo := event.Phase{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: readPlan(
			"shop/db:database: Service/db-server, StatefulSet/db-server", "shop/queue:broker: Service/queue, StatefulSet/queue", "shop/db:config < shop/db:database: ConfigMap/db, Secret/db")}
		b.Announce(undo)
		_ = b.Run(run.Stage{Phase: undo, Cluster: newFake(map[string]behaviour{"db": {change: event.Kept}, "queue": {ready: sec / 2}})})
		b.Finish(run.End{Status: event.Aborted, Message: "release uninstalled", Exit: 3})
	})
}

// TestRemovalsAndUncheckedGroups expects that a group and its removal in the same
// operation can be distinguished, and that a group that is not checked counts as
// applied (R21).
func TestRemovalsAndUncheckedGroups(t *testing.T) {
	g := func() []*plan.Group {
		return []*plan.Group{{ID: "c:g", Objects: []plan.Object{{Kind: "Job", Name: "a"}, {Kind: "Job", Name: "b"}}}}
	}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: g()}, {Name: "remove", Kind: event.PhaseRemove, Groups: g()}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &plan.Object{Kind: "Job", Name: "a"}, Status: event.Ready, Change: event.Created},
		{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &plan.Object{Kind: "Job", Name: "b"}, Status: event.InProgress, Change: event.Created},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Applied},
		{Kind: event.KindGroup, Phase: "remove", Group: "c:g", Status: event.Running},
		{Kind: event.KindGroup, Phase: "remove", Group: "c:g", Status: event.Failed, Message: "Job/b: a finalizer"},
		{Kind: event.KindOperation, Status: event.Failed},
	}
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	for _, want := range []string{"✗ delete c:g failed (0 of 2 objects gone): Job/b: a finalizer", "  ◇ applied  c:g         2/2", "  ✗ failed   delete c:g  0/2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestSkippedRemoval: the log says of a group in an uninstall that its deletion was not started, not the group, and tells the
// deletion of what revision 2 left over from the other.
func TestSkippedRemoval(t *testing.T) {
	phase := event.Phase{Name: "remove", Kind: event.PhaseRemove, Groups: readPlan("c:g: Job/a")}
	left := event.Phase{Name: "remove-2", Kind: event.PhaseRemove, Groups: readPlan("c:g: Job/b")}
	skip := &event.Skip{By: event.SkippedByFailure, Group: "c:db"}
	var out bytes.Buffer
	Replay([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "uninstall", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{left, phase}},
		{Kind: event.KindGroup, Phase: "remove-2", Group: "c:g", Status: event.Skipped, Message: "not started: c:db failed", Skip: skip},
		{Kind: event.KindGroup, Phase: "remove", Group: "c:g", Status: event.Skipped, Message: "not started: c:db failed", Skip: skip},
		{Kind: event.KindOperation, Status: event.Failed},
	}, newTextLog(&out, &out, Options{Style: plain}))
	if want := "⊘ delete c:g of revision 2, delete c:g not started: c:db failed\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

// TestRegressedGroup expects a group that was ready, but did not stay so, to be shown as degraded and counted as done. The
// log says so when it happens, but not for each crash of a pod.
func TestRegressedGroup(t *testing.T) {
	web := plan.Object{Kind: "Deployment", Name: "web"}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{apply([]*plan.Group{{ID: "r:web", Objects: []plan.Object{web}}})}},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &web, Status: event.Ready, Change: event.Created},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: event.Ready},
	}
	crash := event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &web, Status: event.InProgress, Message: "0 of 1 available"}
	again := event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &web, Status: event.Ready}
	for range maxRegressions + 2 {
		events = append(events, crash, again)
	}
	events = append(events, crash, event.Event{Kind: event.KindOperation, Status: event.Succeeded})
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	const noLonger, readyAgain = "◑ Deployment/web in r:web is no longer ready: 0 of 1 available\n", "✓ Deployment/web in r:web ready again\n"
	if n, m := strings.Count(out.String(), noLonger), strings.Count(out.String(), readyAgain); n != maxRegressions || m != maxRegressions {
		t.Errorf("%d × no longer ready, %d × ready again, want %d each, in\n%s", n, m, maxRegressions, out.String())
	}
	for _, want := range []string{"  ✓ 1 group done: 1 created\n", "  ◑ degraded  r:web  0/1    Deployment/web is no longer ready: 0 of 1 available\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestLogOfCommands expects lines that say what a command did, and where it came from.
func TestLogOfCommands(t *testing.T) {
	web := plan.Object{Kind: "Deployment", Name: "web"}
	group := event.Event{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Object: &web}
	status := func(e event.Event, s event.Status, message string) event.Event {
		e.Status, e.Message = s, message
		return e
	}
	rechecked := status(group, event.Running, "re-checking")
	rechecked.Code = event.Rechecking
	breakpoint := event.Event{Kind: event.KindBreakpoint, Phase: "apply", Group: "r:web"}
	paused := event.Event{Kind: event.KindRun, Status: event.Paused, Message: "by lockstep ctl", Origin: &event.Origin{Command: event.Pause, Via: "lockstep ctl"}}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "rollback", Release: "r", Revision: 2, ToRevision: 1}},
		{Kind: event.KindPlan, Phases: []event.Phase{apply([]*plan.Group{{ID: "r:web", Objects: []plan.Object{web}}})}},
		status(breakpoint, event.Set, ""), status(breakpoint, event.Disabled, ""), status(breakpoint, event.Set, ""),
		status(group, event.Running, ""), status(group, event.Failed, "Deployment/web: it is broken"),
		rechecked,
		{Kind: event.KindObject, Phase: "apply", Group: "r:web", Object: &web, Status: event.Failed, Message: "broken", Cause: "broken"},
		{Kind: event.KindWaiting, Phase: "apply", Group: "r:web", Object: &web, Status: event.Failed, Wait: &event.Wait{State: "broken", For: 46 * time.Second}},
		paused,
	}
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	for _, want := range []string{"rollback r: revision 2 (a rollback to revision 1)\n", "● breakpoint set on r:web\n", "○ breakpoint disabled on r:web\n",
		"● breakpoint enabled on r:web\n", "◐ re-checking r:web (1 object)\n", ": broken (failed; 46s so far)\n", "‖ paused by lockstep ctl\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	var s event.State
	for _, e := range events {
		s.Apply(e)
	}
	if text := NewRunStatus(&s).text(Stream{Style: plain}); !strings.HasPrefix(text, "rollback r paused by lockstep ctl; ") {
		t.Errorf("the status is %s", text)
	}
}

// TestRunStatus expects a paused run to name the group that a step starts next, and, until the first step,
// where it paused. Groups with the same id can be distinguished.
// TestRunStatusOfADegradedObject: ctl status and the screen use the same word, and the cause comes first.
func TestRunStatusOfADegradedObject(t *testing.T) {
	api := plan.Object{Kind: "Deployment", Name: "api"}
	var s event.State
	for _, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:a", Objects: []plan.Object{api}}}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:a", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "c:a", Object: &api, Status: event.InProgress, Message: "1 of 2 updated"},
		{Kind: event.KindDiagnosis, Phase: "apply", Group: "c:a", Object: &api, Status: event.Degraded, Cause: "exited with code 2: panic: no db"},
	} {
		s.Apply(e)
	}
	status := NewRunStatus(&s)
	if text := status.text(Stream{Style: plain}); !strings.Contains(text, "degraded: exited with code 2: panic: no db") {
		t.Error(text)
	}
	if o := status.Groups[0].Objects[0]; o.Status != event.InProgress || !o.Degraded || o.Cause != "exited with code 2: panic: no db" {
		t.Errorf("%+v", o)
	}
}

func TestRunStatus(t *testing.T) {
	groups := func() []*plan.Group {
		return []*plan.Group{
			{ID: "c:a", Objects: []plan.Object{{Kind: "Job", Name: "a"}}},
			{ID: "c:b", After: []string{"c:a"}, Objects: []plan.Object{{Kind: "Job", Name: "b"}}},
		}
	}
	var s event.State
	phase := "apply"
	group := func(id string, to event.Status) event.Event {
		return event.Event{Kind: event.KindGroup, Phase: phase, Group: id, Status: to, Time: time.Unix(1, 0)}
	}
	run := func(status event.Status, why string) event.Event {
		return event.Event{Kind: event.KindRun, Status: status, Message: why}
	}
	operation := event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r", Namespace: "n"}}
	phases := []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups()}, {Name: "remove", Kind: event.PhaseRemove, Groups: groups()[:1]}}
	for _, step := range []struct {
		events []event.Event
		want   string
	}{
		{[]event.Event{operation, {Kind: event.KindPlan, Phases: phases}, run(event.Paused, "before the first group")},
			"upgrade r paused: before the first group; next: c:a; 0 of 3 objects ready or gone (namespace n)"},
		{[]event.Event{group("c:a", event.Running)}, "upgrade r paused; 0 of 3 objects ready or gone (namespace n)"},
		{[]event.Event{group("c:a", event.Ready)}, "upgrade r paused; next: c:b; 0 of 3 objects ready or gone (namespace n)"},
		{[]event.Event{run(event.Running, ""), group("c:b", event.AtBreakpoint), run(event.Paused, "breakpoint c:b")},
			"upgrade r paused: breakpoint c:b; 0 of 3 objects ready or gone (namespace n)"},
		{[]event.Event{group("c:b", event.Running), group("c:b", event.Ready)},
			"upgrade r paused; next: delete c:a; 0 of 3 objects ready or gone (namespace n)"},
		{[]event.Event{run(event.Running, "")}, "upgrade r running; 0 of 3 objects ready or gone (namespace n)"},
	} {
		for _, e := range step.events {
			s.Apply(e)
		}
		text := NewRunStatus(&s).text(Stream{Style: plain})
		if head, _, _ := strings.Cut(text, "\n"); head != step.want || !strings.Contains(text, "\nc:a 0/1\n") || !strings.Contains(text, "\ndelete c:a 0/1\n") {
			t.Errorf("%s\nwant %s", text, step.want)
		}
	}
}
