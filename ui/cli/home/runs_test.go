package home

import (
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/ui/home"
	"lockstep/ui/report"
)

// TestDescribe: home says of a stack's releases what the screen of the run says.
func TestDescribe(t *testing.T) {
	f, err := os.Open("../../../testdata/runs/sandbox-stack.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := event.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	var state event.State
	seen := map[event.Status]bool{}
	for _, e := range events {
		state.Apply(e)
		if e.Kind != event.KindGroup || e.Scope == "" || e.Status != event.Running {
			continue
		}
		var row home.LiveRun
		describe(&row, &state)
		for _, p := range row.Parts {
			seen[p.Status] = true
		}
		state.Apply(event.Event{Kind: event.KindRun, Scope: e.Scope, Status: event.Held, Message: "why"})
		describe(&row, &state)
		for _, p := range row.Parts {
			if p.Name == e.Scope && p.Status != event.Held {
				t.Errorf("%s is held, but shown as %q", p.Name, p.Status)
			}
		}
		state.Apply(event.Event{Kind: event.KindRun, Scope: e.Scope, Status: event.Running})
	}
	if !seen[event.InProgress] || !seen[event.Waiting] || seen[event.Running] {
		t.Errorf("the releases are shown as %v", seen)
	}
}

// TestDescribeStuck: home names the object that waiting will not make ready, before it fails.
func TestDescribeStuck(t *testing.T) {
	api := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}
	var state event.State
	var row home.LiveRun
	for _, step := range []struct {
		event.Event
		status event.Status
		why    string
	}{
		{event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}}, event.Running, ""},
		{event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "s:api", Objects: []plan.Object{api}}}}}}, event.Running, "0 of 1 groups done"},
		{event.Event{Kind: event.KindGroup, Status: event.Running}, event.Running, "0 of 1 groups done"},
		{event.Event{Kind: event.KindObject, Object: &api, Status: event.InProgress}, event.Running, "0 of 1 groups done"},
		{event.Event{Kind: event.KindDiagnosis, Object: &api, Status: event.Degraded, Cause: "image cannot be pulled"}, event.Degraded, "Deployment/api: image cannot be pulled; 0 of 1 groups done"},
		{event.Event{Kind: event.KindRun, Status: event.Paused, Message: "before b"}, event.Paused, "before b"},
		{event.Event{Kind: event.KindRun, Status: event.Paused, Origin: &event.Origin{Command: event.Pause, By: "ann on box"}}, event.Paused, "by ann on box; Deployment/api: image cannot be pulled; 0 of 1 groups done"},
		{event.Event{Kind: event.KindRun, Status: event.Running}, event.Degraded, "Deployment/api: image cannot be pulled; 0 of 1 groups done"},
		{event.Event{Kind: event.KindObject, Object: &api, Status: event.Ready}, event.Running, "0 of 1 groups done"},
		{event.Event{Kind: event.KindGroup, Status: event.Failed, Object: &api, Cause: "refused by webhook deny", Message: "server-side apply failed for object n/api apps/v1, Kind=Deployment: forbidden"}, event.Running, "0 of 1 groups done"},
		{event.Event{Kind: event.KindRun, Status: event.Held, Message: "s:api: server-side apply failed for object n/api apps/v1, Kind=Deployment: forbidden"}, event.Held, "Deployment/api: refused by webhook deny"},
	} {
		step.Phase, step.Group = "apply", "s:api"
		state.Apply(step.Event)
		if describe(&row, &state); row.Status != step.status || row.Why != step.why {
			t.Errorf("after %s %s the run is shown as %s: %s", step.Kind, step.Event.Status, row.Status, row.Why)
		}
	}
}

// TestDescribeRetried: home says why the request of an object is retried, also of a release in a stack (R53).
func TestDescribeRetried(t *testing.T) {
	api := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "s:api", Objects: []plan.Object{api}}}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "s:api", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "s:api", Object: &api, Status: event.Applying, Message: "retrying: webhook w does not answer"},
	}
	var one, all event.State
	release := plan.Object{Kind: "Release", Namespace: "n", Name: "s"}
	for _, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "shop"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "n/s", Objects: []plan.Object{release}}}}}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/s", Status: event.Running},
		{Kind: event.KindObject, Phase: "releases", Group: "n/s", Object: &release, Status: event.Applying, Message: "0 of 1 groups done"},
	} {
		all.Apply(e)
	}
	for _, e := range events {
		one.Apply(e)
		e.Scope = "n/s"
		all.Apply(e)
	}
	for want, s := range map[string]*event.State{
		"Deployment/api: retrying: webhook w does not answer; 0 of 1 groups done":        &one,
		"n/s: Deployment/api: retrying: webhook w does not answer; 0 of 1 releases done": &all,
	} {
		var row home.LiveRun
		if describe(&row, s); row.Why != want || row.Status != event.Running {
			t.Errorf("the run is shown as %s: %s, want %s", row.Status, row.Why, want)
		}
	}
}

// TestEnds (R47): a run that is paused and has no screen ends after its timeout, which starts again when a screen closes.
func TestEnds(t *testing.T) {
	start := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	var state event.State
	var run liveRun
	for n, step := range []struct {
		event.Event
		ends int // minutes after the start, 0 for never
	}{
		{event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Timeout: 5 * time.Minute}}, 0},
		{event.Event{Kind: event.KindScreens, Screens: 1}, 0},
		{event.Event{Kind: event.KindRun, Status: event.Paused}, 0},
		{event.Event{Kind: event.KindScreens}, 8},
		{event.Event{Kind: event.KindWarning}, 8},
		{event.Event{Kind: event.KindCommand, Command: event.Break, Status: event.Accepted}, 10},
		{event.Event{Kind: event.KindRun, Status: event.Running}, 0},
		{event.Event{Kind: event.KindRun, Status: event.Held}, 12},
	} {
		step.Time = start.Add(time.Duration(n) * time.Minute)
		state.Apply(step.Event)
		run.follow(step.Event)
		describe(&run.row, &state)
		want := time.Time{}
		if step.ends > 0 {
			want = start.Add(time.Duration(step.ends) * time.Minute)
		}
		if got := run.ends(&state); !got.Equal(want) {
			t.Errorf("after %s %s it ends at %s, want %s", step.Kind, step.Event.Status, got, want)
		}
	}
}

// TestLastRun: a release whose last run on this machine did not succeed says why, until something else changes it.
func TestLastRun(t *testing.T) {
	start := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	k := home.Key{Namespace: "shop", Name: "api"}
	run := func(outcome event.Status, message string) report.Run {
		r := report.Run{Started: start}
		r.Operation, r.Outcome, r.Seconds, r.Message = "upgrade", string(outcome), 300, message
		return r
	}
	for _, c := range []struct {
		outcome event.Status
		message string
		changed time.Duration
		want    string
	}{
		{event.Aborted, "aborted: paused, and nobody attached", time.Minute, "upgrade aborted: paused, and nobody attached"},
		{event.Aborted, "aborted by ctrl-c", time.Minute, "upgrade aborted by ctrl-c"},
		{event.Failed, "1 group failed", time.Minute, "upgrade failed: 1 group failed"},
		{event.Aborted, "aborted", time.Hour, ""},
		{event.Succeeded, "", time.Minute, ""},
	} {
		releases := []home.Release{{Key: k, Changed: start.Add(c.changed)}, {}}
		o := outcomes{k: run(c.outcome, c.message)}
		if o.describe(releases); releases[0].LastRun != c.want || releases[1].LastRun != "" {
			t.Errorf("%s: %q, want %q", c.outcome, releases[0].LastRun, c.want)
		}
	}
}

// TestRunsElsewhereAreLast: the runs of the namespace that is shown come first, even if one elsewhere needs somebody sooner.
func TestRunsElsewhereAreLast(t *testing.T) {
	run := func(namespace, name string, status event.Status) *liveRun {
		return &liveRun{row: home.LiveRun{Key: home.Key{Namespace: namespace, Name: name}, Status: status}}
	}
	all := map[string]*liveRun{"1": run("other", "stuck", event.Held), "2": run("shop", "api", event.Running), "3": run("", "stack", event.Paused)}
	for namespace, want := range map[string]string{"shop": "stack api stuck", "": "stuck stack api"} {
		var got []string
		for _, r := range (&liveRuns{namespace: namespace, runs: all}).rows() {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("in namespace %q: %v, want %s", namespace, got, want)
		}
	}
}

// TestLockedRuns: a run that home is not connected to has a row by its lock, with the reason why it cannot be attached to; one that
// home is connected to has no second row.
func TestLockedRuns(t *testing.T) {
	host, _ := os.Hostname()
	lock := func(release string, change func(*kube.LiveLock)) kube.LiveLock {
		l := kube.LiveLock{Renewed: true}
		l.Release, l.Namespace, l.Holder.User, l.Holder.Host, l.Holder.Operation, l.Holder.Process = release, "shop", "ann", "box", "upgrade", 7
		if change != nil {
			change(&l)
		}
		return l
	}
	l := &liveRuns{namespace: "shop", jobs: []incluster.Run{{Namespace: "shop", Name: "job"}}, runs: map[string]*liveRun{
		"1": {row: home.LiveRun{Key: home.Key{Namespace: "shop", Name: "here"}}, ended: true}, "2": {row: home.LiveRun{Key: home.Key{Name: "apps"}}}}}
	for _, c := range []struct {
		kube.LiveLock
		shown      bool
		why, where string
	}{
		{lock("here", nil), true, "", ""},
		{lock("api", func(l *kube.LiveLock) { l.Holder.Stack = "apps" }), true, "", ""},
		{lock("api", func(l *kube.LiveLock) { l.Holder.Job = "shop/job/1" }), true, "", ""},
		{lock("api", nil), false, "attach as ann on box", ""},
		{lock("api", func(l *kube.LiveLock) { l.Holder.User, l.Holder.Host = me(), host }), false, "attach with its own state folder (XDG_STATE_HOME)", ""},
		{lock("api", func(l *kube.LiveLock) { l.Holder.Host = "" }), false, "another program holds the lock of the release", ""},
		{lock("api", func(l *kube.LiveLock) { l.Holder.Job = "ci/other/1" }), false, "", "ci/api in other"},
		{lock("api", func(l *kube.LiveLock) { l.Holder.Operation = "recover" }), false, "a recovery cannot be attached to", ""},
	} {
		if got := l.shows(c.LiveLock); got != c.shown {
			t.Errorf("%s of %+v has a row: %t", c.Release, c.Holder, got)
		}
		row := lockedRow(c.LiveLock)
		if !c.shown && (row.Elsewhere != c.why || c.why != "" && row.Why != "not controlled from here: "+c.why || c.where != "" && row.Namespace+"/"+row.Name+" in "+row.Cluster != c.where) {
			t.Errorf("%+v: %+v", c.Holder, row)
		}
	}
	if row := lockedRow(kube.LiveLock{Lock: lock("api", nil).Lock}); row.Why != "checking whether it is still running" {
		t.Errorf("a lock that was not renewed yet: %s", row.Why)
	}
	killed := exec.Command("true")
	if err := killed.Run(); err != nil {
		t.Fatal(err)
	}
	mine := lock("api", func(l *kube.LiveLock) {
		l.Holder.User, l.Holder.Host, l.Holder.Process = me(), host, killed.Process.Pid
	})
	mine.Renewed = false
	if row := lockedRow(mine); row.Status != home.Killed || !strings.Contains(row.Why, "has ended without releasing its lock") {
		t.Errorf("a lock whose process on this machine has ended: %s, %s", row.Status, row.Why)
	}
	mine.Holder.Process = os.Getpid()
	if row := lockedRow(mine); row.Status != home.Locked {
		t.Errorf("a lock whose process on this machine runs: %s, %s", row.Status, row.Why)
	}
}

// me returns the user who holds the locks of this process.
func me() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// TestHealthWhileUninstalling: what an uninstall has deleted is no cause for a release to be unready.
func TestHealthWhileUninstalling(t *testing.T) {
	var unready kube.ReleaseRow
	unready.Health.Cause = "ConfigMap/a: not in the cluster"
	for status, shown := range map[string]bool{"deployed": true, "uninstalling": false} {
		unready.Status = status
		if row := releaseRow(unready); (row.Health.Cause != "") != shown {
			t.Errorf("%s: %+v", status, row.Health)
		}
	}
}

// TestLastFailed: of the last runs, only the newest counts, and the failed object says in which namespace.
func TestLastFailed(t *testing.T) {
	at := time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
	failed := report.Run{Started: at, RunTarget: report.RunTarget{Operation: "up", Release: "apps"},
		RunResult: report.RunResult{Outcome: "failed", Object: &plan.Object{Kind: "Job", Namespace: "data", Name: "load"}}}
	good := report.Run{Started: at.Add(-time.Hour), RunResult: report.RunResult{Outcome: "succeeded"}}
	all := outcomes{{Name: "apps"}: failed, {Namespace: "shop", Name: "api"}: good}
	if got := all.lastFailed(); got == nil || got.Key != (home.Key{Namespace: "data", Name: "apps"}) || got.Operation != "up" {
		t.Errorf("the last failed run is %+v", got)
	}
	good.Started = at.Add(time.Hour)
	if all[home.Key{Namespace: "shop", Name: "api"}] = good; all.lastFailed() != nil {
		t.Error("a run that a later one followed counts")
	}
}

// TestUnwatchedRuns: the record of a run in the cluster that nobody watched to the end is left out if its Job has ended, which the list
// has, too, and is running if the Job is. The Jobs are sought in their namespaces.
func TestUnwatchedRuns(t *testing.T) {
	var recorded report.RunList
	var rows []home.PastRun
	for _, job := range []string{"ic/over", "ic/works", "ic/deleted", ""} {
		r := report.Run{Name: "of " + job, RunTarget: report.RunTarget{Job: job}, RunResult: report.RunResult{Outcome: report.Unwatched}}
		if job == "" {
			r.Outcome = report.Killed
		}
		recorded, rows = append(recorded, r), append(rows, home.PastRun{Record: r.Name, Status: event.Status(r.Outcome)})
	}
	jobs := []incluster.Run{{Namespace: "ic", Name: "over", State: "succeeded"}, {Namespace: "ic", Name: "works", State: "running"}}
	var got []string
	for _, r := range withoutUnwatched(rows, recorded, jobs) {
		got = append(got, r.Record+": "+string(r.Status))
	}
	if want := "of ic/works: running, of ic/deleted: unwatched, of : cut-off"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	if why := whyOf(recorded[2]); why != "how it ended is unknown" {
		t.Errorf("of a run whose Job is gone: %q", why)
	}
	for shown, want := range map[string]int{"default": 1, "ic": 0, "": 0} {
		if got := unwatchedIn(recorded, shown); len(got) != want {
			t.Errorf("with namespace %q: %q", shown, got)
		}
	}
}
