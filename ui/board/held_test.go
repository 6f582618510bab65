package board

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/screen"
)

// TestHeldShowsWhatIsReadyNow highlights the re-check once a failed object has been fixed by hand (R44).
func TestHeldShowsWhatIsReadyNow(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.shows(t, "✗ held  api:server · deploy/shop-api: image", "✗ not ready: image example/no-such-image:1 cannot be pulled: not found", "A re-check   R retry   G stop here   a abort")
	s.showsNot(t, "is ready now")
	s.feed(event.Event{Kind: event.KindObject, Phase: "apply", Group: "shop/api:server", Status: event.Ready, Time: s.State.Now,
		Object: &plan.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "shop-api"}})
	s.shows(t, "deploy/shop-api is ready now   A re-check")
}

// TestReadyNowWhileOthersAreNot: a fixed object is named although an object before it is still in
// progress (R44).
func TestReadyNowWhileOthersAreNot(t *testing.T) {
	cache, api := plan.Object{Kind: "Deployment", Name: "cache"}, plan.Object{Kind: "Deployment", Name: "api"}
	g := &plan.Group{ID: "s:app", Chart: "s", Name: "app", Objects: []plan.Object{cache, api}}
	object := func(o plan.Object, status event.Status) event.Event {
		return event.Event{Kind: event.KindObject, Phase: "apply", Group: g.ID, Object: &o, Status: status}
	}
	s := newScreen(t, 100, 30, []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{g}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running},
		object(cache, event.InProgress),
		object(api, event.InProgress),
		{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Object: &api, Status: event.Failed, Cause: "not ready after 5m"},
		{Kind: event.KindRun, Status: event.Held, Message: g.ID},
	})
	s.showsNot(t, "is ready now")
	s.feed(object(api, event.Ready))
	s.shows(t, "Deployment/api is ready now   A re-check")
}

// TestGiveUpAsks: the dialog asks before the run ends as failed, and closes when nothing is held any
// more.
func TestGiveUpAsks(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.press("G")
	s.shows(t, "stop here?", "end the run with 1 failed group once running work is finished", "4 waiting groups") // the last is a hook
	if len(s.sent) > 0 {
		t.Errorf("G sent %v before it was confirmed", s.sent)
	}
	s.feed(event.Event{Kind: event.KindRun, Status: event.Running, Time: s.State.Now})
	s.showsNot(t, "stop here?")
	s.press("G")
	s.showsNot(t, "stop here?")
}

// TestGiveUpOneOfTwo: giving up the selected group leaves the run held by the other failed group.
func TestGiveUpOneOfTwo(t *testing.T) {
	one, two := &plan.Group{ID: "s:one", Chart: "s", Name: "one"}, &plan.Group{ID: "s:two", Chart: "s", Name: "two"}
	s := newScreen(t, 160, 30, []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{one, two}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: one.ID, Status: event.Failed, Message: "no image"},
		{Kind: event.KindGroup, Phase: "apply", Group: two.ID, Status: event.Failed, Message: "no image"},
		{Kind: event.KindRun, Status: event.Held, Message: two.ID},
	})
	s.press("end")
	s.shows(t, "A re-check two   R retry two")
	s.press("G")
	s.shows(t, "leave two failed; the run stays held until the other failed group is resolved too")
	s.press("esc")
	s.Sel = screen.Spot{}
	s.send(tickMsg{})
	s.shows(t, "A re-check all 2   R retry all 2")
	s.press("G")
	s.shows(t, "end the run with 2 failed groups once running work is finished")
}

// TestDegradedFor: card, its border and pane count from when the object became degraded, also after a re-check.
func TestDegradedFor(t *testing.T) {
	at := func(n int, e event.Event) event.Event { e.Time = time.Unix(int64(n), 0); return e }
	api := plan.Object{Kind: "Deployment", Name: "api"}
	g := &plan.Group{ID: "s:app", Chart: "s", Name: "app", Objects: []plan.Object{api, {Kind: "ConfigMap", Name: "c"}}}
	degraded := event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: g.ID, Object: &api, Status: event.Degraded, Cause: "exited with code 3"}
	running := event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running}
	var clock time.Time
	s := newScreen(t, 100, 30, []event.Event{
		at(1, event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}}),
		at(1, event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{g}}}}),
		at(1, running),
		at(1, event.Event{Kind: event.KindObject, Phase: "apply", Group: g.ID, Object: &api, Status: event.InProgress}),
		at(9, degraded),
	}, func(o *Options) { o.Now = func() time.Time { return clock } })
	expect := func(now int64, text string) {
		t.Helper()
		clock = time.Unix(now, 0)
		s.send(tickMsg{})
		s.shows(t, "◑ degraded for "+text)
		if got := strings.Count(s.text(), "degraded "+text); got != 2 {
			t.Errorf("%d times %q:\n%s", got, "degraded "+text, s.text())
		}
	}
	expect(9, "0 s")
	expect(24, "15 s")
	s.feed(at(30, event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Failed, Object: &api}), at(31, running), at(32, degraded))
	expect(39, "30 s")
}

// TestHeldNamesTheCause: of two groups that failed because the time of the operation ended, the view follows the one whose cause is
// known, although it followed the other before that.
func TestHeldNamesTheCause(t *testing.T) {
	late, broken := plan.Object{Kind: "Deployment", Name: "late"}, plan.Object{Kind: "Deployment", Name: "broken"}
	one, two := &plan.Group{ID: "s:one", Chart: "s", Name: "one", Objects: []plan.Object{late}}, &plan.Group{ID: "s:two", Chart: "s", Name: "two", Objects: []plan.Object{broken}}
	timeout := &event.Timeout{After: time.Minute, Flag: "--timeout"}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{one, two}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: one.ID, Status: event.Running},
		{Kind: event.KindGroup, Phase: "apply", Group: two.ID, Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: two.ID, Object: &broken, Status: event.InProgress},
		{Kind: event.KindDiagnosis, Phase: "apply", Group: two.ID, Object: &broken, Cause: "image cannot be pulled", Status: event.Degraded},
	}
	s := newScreen(t, 60, 20, events)
	s.press("F")
	s.Sel = screen.Spot{Unit: event.Unit{Phase: "apply", Group: one.ID}}
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: one.ID, Object: &late, Status: event.Failed, Cause: "not applied", Timeout: timeout},
		event.Event{Kind: event.KindGroup, Phase: "apply", Group: two.ID, Object: &broken, Status: event.Failed, Cause: "image cannot be pulled", Timeout: timeout},
		event.Event{Kind: event.KindRun, Status: event.Held, Message: "s:two: image cannot be pulled"})
	s.shows(t, "✗ held  two · Deployment/broken: image cannot", "A re-check two")
}

// TestFollowsTheEditedRevision: the view shows the first group of an edited revision, not a hook of the old one that nothing kept
// from starting.
func TestFollowsTheEditedRevision(t *testing.T) {
	hook := func(name string) *plan.Group {
		return &plan.Group{ID: name + ":Job/" + name, Name: "Job/" + name, Objects: []plan.Object{{Kind: "Job", Name: name}}}
	}
	web := &plan.Group{ID: "s:web", Chart: "s", Name: "web", Objects: []plan.Object{{Kind: "Deployment", Name: "web"}}}
	phases := []event.Phase{{Name: "pre-install", Kind: event.PhaseHooks, Groups: []*plan.Group{hook("first")}},
		{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{web}},
		{Name: "post-install", Kind: event.PhaseHooks, Groups: []*plan.Group{hook("last")}}}
	op := event.Operation{Name: "install", Release: "s", Namespace: "n", Revision: 1}
	edited := op
	edited.Revision = 2
	s := newScreen(t, 100, 30, []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &op},
		{Kind: event.KindPlan, Phases: phases},
		{Kind: event.KindGroup, Phase: "pre-install", Group: "first:Job/first", Status: event.Ready},
		{Kind: event.KindGroup, Phase: "apply", Group: web.ID, Status: event.Ready},
	})
	for _, e := range []event.Event{
		{Kind: event.KindRun, Status: event.Replacing},
		{Kind: event.KindOperation, Status: event.Running, Operation: &edited},
		{Kind: event.KindPlan, Phases: phases},
		{Kind: event.KindRun, Status: event.Paused},
	} {
		s.feed(e)
	}
	if got := s.Sel.Unit.Group; got != "first:Job/first" {
		t.Errorf("the view shows %q", got)
	}
}

// TestEndsAlone: the screen of a held or paused run says when the run ends once no screen is open, which home counts down.
func TestEndsAlone(t *testing.T) {
	for run, want := range map[string]string{"sandbox-held": "if every screen closes, fails after 5:00", "sandbox-breakpoint": "if every screen closes, aborts after 5:00"} {
		with(run, 0, "", canBeLeft)(t).shows(t, want)
		with(run, 0, "")(t).showsNot(t, "every screen closes")
	}
}

// TestHeldNamesWhatElseIsInTrouble: while a failure holds the run, the header names the other groups with a problem, and says when the
// run would fail because of them. A Job that has failed after its group was ready is failed, in the colour of a failure, for the cause of
// its container.
func TestHeldNamesWhatElseIsInTrouble(t *testing.T) {
	group := func(kind, name string) *plan.Group {
		return &plan.Group{ID: "s:" + name, Chart: "s", Name: name, Objects: []plan.Object{{Kind: kind, Name: name}}}
	}
	api, worker, migrate := group("Deployment", "api"), group("Deployment", "worker"), group("Job", "migrate")
	of := func(g *plan.Group, e event.Event) event.Event {
		e.Time, e.Phase, e.Group, e.Object = time.Unix(9, 0), "apply", g.ID, &g.Objects[0]
		return e
	}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{api, worker, migrate}}}},
	}
	for _, g := range []*plan.Group{api, worker, migrate} {
		events = append(events, of(g, event.Event{Kind: event.KindGroup, Status: event.Running}), of(g, event.Event{Kind: event.KindObject, Status: event.InProgress}))
	}
	events = append(events,
		of(worker, event.Event{Kind: event.KindDiagnosis, Status: event.Degraded, Cause: "container main crashes"}),
		of(migrate, event.Event{Kind: event.KindObject, Status: event.Ready, ReadyBy: event.ByStart}),
		of(migrate, event.Event{Kind: event.KindGroup, Status: event.Ready}),
		of(migrate, event.Event{Kind: event.KindObject, Status: event.Failed, Message: "BackoffLimitExceeded", Cause: "BackoffLimitExceeded"}),
		of(migrate, event.Event{Kind: event.KindDiagnosis, Status: event.Degraded, Cause: "container main exited with code 3"}),
		of(api, event.Event{Kind: event.KindObject, Status: event.Failed, Cause: "no image"}),
		of(api, event.Event{Kind: event.KindGroup, Status: event.Failed, Cause: "no image"}),
		event.Event{Kind: event.KindRun, Status: event.Held, Message: api.ID},
	)
	for _, width := range []int{100, 160} {
		s := newScreen(t, width, 30, events)
		s.shows(t, "also degraded, the run waits for it: worker · Deployment/worker: container main crashes",
			"also failed, checked again at the end of the run: migrate · Job/migrate: container main", "container main exited with code 3", "✗ failed", "1 degraded · 2 failed")
		s.showsNot(t, "BackoffLimitExceeded")
	}
	if got := newScreen(t, 100, 30, events); got.GroupMark(got.Graph.ByKey[event.Unit{Phase: "apply", Group: migrate.ID}]).Role != theme.Bad {
		t.Error("the failed Job is not in the colour of a failure")
	}
}
