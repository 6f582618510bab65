package report

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// TestSummaryFitsTerminal expects that only "next:" lines are wider than the terminal, that nothing is
// missing at any width, and that a success is the last line.
func TestSummaryFitsTerminal(t *testing.T) {
	for name, scenario := range scenarios {
		state := Replay(scenario(t))
		var whole string
		for _, columns := range []int{0, 40, 60, 80, 100, 200} {
			var out bytes.Buffer
			style := Style{Theme: theme.New(theme.Options{}), Codes: columns%40 == 0}
			Summary(&out, state, Options{Style: style, Width: columns, Next: func(*event.State) []string { return []string{"lockstep " + strings.Repeat("word ", 30)} }})
			text := strings.TrimRight(ansi.Strip(out.String()), "\n")
			lines := strings.Split(text, "\n")
			for _, l := range lines {
				if w := ansi.StringWidth(l); columns > 0 && w > columns && !strings.HasPrefix(l, "  next:") {
					t.Errorf("%s: a line of %d columns on %d: %s", name, w, columns, l)
				}
			}
			words := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n│─━", r) }), "")
			whole = cmp.Or(whole, words)
			if words != whole {
				t.Errorf("%s: the text differs on %d columns:\n%s", name, columns, text)
			}
			head := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "install shop ") })
			if last := lines[len(lines)-1]; state.Status == event.Succeeded && len(state.Roots()) == 0 && columns == 0 && head != len(lines)-1 {
				t.Errorf("%s: the last line is %q", name, last)
			}
		}
	}
}

// TestSlowestGroupsComparedWithLastTime expects the slowest groups first, without the differences that
// are negligible, and without groups that failed or never started.
func TestSlowestGroupsComparedWithLastTime(t *testing.T) {
	for name, c := range map[string]struct {
		scenario func(*testing.T) []event.Event
		want     string
	}{
		"succeeded": {succeeded, `    shop/queue:broker     6.1s  last time 9.0s  -2.9s
    shop/db:schema        3.1s  last time 1.0s  +2.1s
`},
		"failed": {failed, `    shop/queue:broker     6.1s  last time 9.0s  -2.9s
    shop/db:config        0.0s  last time 0.4s  -0.4s
`},
	} {
		events := c.scenario(t)
		for n, e := range events {
			if e.Kind != event.KindPlan {
				continue
			}
			phases := slices.Clone(e.Phases)
			for i := range phases {
				phases[i].Usual = map[string]time.Duration{"shop/db:config": 400 * time.Millisecond, "shop/db:database": 4 * time.Second,
					"shop/db:schema": time.Second, "shop/queue:broker": 9 * time.Second, "shop/api:(unsequenced)": time.Second}
			}
			events[n].Phases = phases
		}
		var out bytes.Buffer
		Summary(&out, Replay(events), Options{Style: plain})
		_, got, _ := strings.Cut(out.String(), "compared with last time\n")
		if !strings.HasPrefix(got, c.want) || strings.HasPrefix(strings.TrimPrefix(got, c.want), "    ") {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestVerdictOfAbort expects who aborted a run in front of its time, and a run that never continued as paused
// throughout.
func TestVerdictOfAbort(t *testing.T) {
	exit := 3
	for paused, want := range map[time.Duration]string{
		0:                "✗ install shop aborted by SIGTERM after 1m20s (paused throughout); nothing was written\n",
		50 * time.Second: "✗ install shop aborted by SIGTERM after 1m20s (30.0s paused); nothing was written\n",
	} {
		var s event.State
		start := time.Unix(0, 0)
		for _, e := range []event.Event{
			{Time: start, Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop"}},
			{Time: start.Add(paused), Kind: event.KindRun, Status: event.Paused},
			{Time: start.Add(80 * time.Second), Kind: event.KindOperation, Status: event.Aborted, Exit: &exit,
				Message: "aborted by SIGTERM before anything was written", Origin: &event.Origin{Command: event.Abort, Via: "SIGTERM"}, Outcome: "nothing was written", Code: event.NothingWritten},
		} {
			s.Apply(e)
		}
		var out bytes.Buffer
		Summary(&out, &s, Options{Style: plain})
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("the last line is not %q:\n%s", want, out.String())
		}
	}
}

// TestWarningsAfterTheScreen: the warnings of a run and of its releases are written once each.
func TestWarningsAfterTheScreen(t *testing.T) {
	lost := event.Event{Kind: event.KindWarning, Rule: "R68", Message: "this revision has no order"}
	inRelease := lost
	inRelease.Scope, inRelease.Message = "db", "Job/a is suspended"
	var out bytes.Buffer
	Warnings(&out, Replay([]event.Event{
		{Kind: event.KindPlan, Phases: []event.Phase{apply(readPlan("db: Release/db"))}}, lost, lost, inRelease,
	}), plain)
	if want := "warning: this revision has no order (R68)\nwarning: Job/a is suspended (R68)\n"; out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

// TestVerdictOfIdleRun: a run that was idle nearly all the time was stepped only if somebody took a step.
func TestVerdictOfIdleRun(t *testing.T) {
	start := time.Unix(0, 0)
	pausedUntil := func(command event.CommandName) string {
		phase := apply(readPlan("c:a: Job/a"))
		var out bytes.Buffer
		Summary(&out, Replay([]event.Event{
			{Time: start, Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop"}},
			{Time: start, Kind: event.KindPlan, Phases: []event.Phase{phase}},
			{Time: start, Kind: event.KindRun, Status: event.Paused},
			{Time: start.Add(600 * time.Second), Kind: event.KindRun, Status: event.Running},
			{Time: start.Add(600 * time.Second), Kind: event.KindCommand, Command: command, Status: event.Accepted},
			{Time: start.Add(600 * time.Second), Kind: event.KindGroup, Phase: phase.Name, Group: "c:a", Status: event.Running},
			{Time: start.Add(600 * time.Second), Kind: event.KindOperation, Status: event.Succeeded},
		}), Options{Style: plain})
		return out.String()
	}
	for command, want := range map[event.CommandName]string{event.Step: "(stepped)", event.Resume: "(10m00s paused)"} {
		if got := pausedUntil(command); !strings.Contains(got, "done in 10m00s "+want) {
			t.Errorf("after %s: %s, want %s", command, got, want)
		}
	}
}

// TestSummaryOfRollback: the summary tells a rollback that the user stopped from one that failed.
func TestSummaryOfRollback(t *testing.T) {
	web, exit := plan.Object{Kind: "Deployment", Name: "web"}, event.ExitAborted
	for _, c := range []struct {
		stopped bool
		change  event.Change
		release string
		want    string
	}{
		{true, event.Configured, "failed", "  ✗ rollback stopped; 1 object changed\n"},
		{true, "", "failed", "  ✗ rollback stopped\n"},
		{false, event.Configured, "failed", "  ✗ rollback failed; 1 object changed\n"},
		{false, event.Configured, "deployed", "  ↩ rolled back: 1 changed\n"},
	} {
		s := &event.State{}
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "r"}})
		s.Apply(event.Event{Kind: event.KindRun, Status: event.Aborting})
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.RollingBack})
		s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{
			Name: event.RollbackPrefix + "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "r:web", Objects: []plan.Object{web}}},
		}}})
		s.Apply(event.Event{Kind: event.KindObject, Phase: event.RollbackPrefix + "apply", Group: "r:web", Object: &web, Status: event.Ready, Change: c.change})
		if c.stopped {
			s.Apply(event.Event{Kind: event.KindRun, Status: event.Aborting})
		}
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Aborted, Release: c.release, Exit: &exit})
		var out bytes.Buffer
		Summary(&out, s, Options{Style: plain})
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("no %q in\n%s", c.want, out.String())
		}
	}
}
