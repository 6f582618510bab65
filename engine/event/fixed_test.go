package event

import (
	"testing"
	"time"

	"lockstep/engine/plan"
)

// run is a State whose groups have one ConfigMap each, and the time of its last event.
type run struct {
	State
	at    time.Time
	scope string
}

func newRun(groups ...string) *run { return newRunIn("", groups...) }

// newRunIn is like newRun for a release of a stack.
func newRunIn(scope string, groups ...string) *run {
	r := &run{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), scope: scope}
	r.apply(0, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r", ReadinessTimeout: time.Minute}})
	r.apply(0, planOf(groups...))
	return r
}

func planOf(groups ...string) Event {
	p := Phase{Name: "apply", Kind: PhaseApply}
	for _, id := range groups {
		p.Groups = append(p.Groups, &plan.Group{ID: id, Objects: []plan.Object{object(id)}})
	}
	return Event{Kind: KindPlan, Phases: []Phase{p}}
}

func object(name string) plan.Object {
	return plan.Object{Kind: "ConfigMap", Name: name}
}

// apply applies an event some seconds after the previous one.
func (r *run) apply(after int, e Event) {
	r.at = r.at.Add(time.Duration(after) * time.Second)
	e.Time, e.Scope = r.at, r.scope
	r.Apply(e)
}

func (r *run) group(id string, st Status) {
	r.apply(1, Event{Kind: KindGroup, Phase: "apply", Group: id, Status: st, Message: "why"})
}

func (r *run) object(id string, st Status, change Change) {
	o := object(id)
	r.apply(1, Event{Kind: KindObject, Phase: "apply", Group: id, Object: &o, Status: st, Change: change, Cause: causeOf(st)})
}

func causeOf(st Status) string {
	if st == Failed {
		return "it is broken"
	}
	return ""
}

// fails starts a group and makes it fail.
func (r *run) fails(id string) {
	r.group(id, Running)
	r.object(id, Applying, "")
	r.object(id, Failed, "")
	r.group(id, Failed)
}

func (r *run) command(name CommandName, group, by string) {
	r.apply(0, Event{Kind: KindCommand, Command: name, Group: group, Status: Accepted, By: by})
}

// TestFixedFailures (R44) expects the cause of each fixed failure and how it was fixed, whether the command's answer arrives before
// or after the group becomes ready.
func TestFixedFailures(t *testing.T) {
	tests := map[string]struct {
		run  func(*run)
		want []string
	}{
		"none":                     {func(r *run) { r.group("a", Running); r.group("a", Ready) }, nil},
		"still failed":             {func(r *run) { r.fails("a") }, nil},
		"retried and failed again": {func(r *run) { r.fails("a"); r.group("a", Running); r.command(Retry, "", ""); r.group("a", Failed) }, nil},
		"retried": {func(r *run) { r.fails("a"); r.group("a", Running); r.command(Retry, "", ""); r.group("a", Ready) },
			[]string{"a retry"}},
		"accepted at once, from elsewhere": {func(r *run) { r.fails("a"); r.group("a", Ready); r.command(Accept, "a", "another terminal") },
			[]string{"a accept, by another terminal"}},
		"two, fixed differently": {func(r *run) {
			r.fails("a")
			r.fails("b")
			r.group("b", Running)
			r.command(Retry, "b", "")
			r.group("a", Running)
			r.command(Accept, "a", "")
			r.group("a", Ready)
			r.group("b", Ready)
		}, []string{"a accept", "b retry"}},
		"edited": {func(r *run) {
			r.fails("a")
			r.command(Edit, "", "")
			r.apply(1, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r"}})
			r.apply(0, planOf("a"))
			r.group("a", Running)
			r.group("a", Ready)
		}, []string{"a edit"}},
		"removed by an edit": {func(r *run) {
			r.fails("a")
			r.command(Edit, "", "")
			r.apply(1, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r"}})
			r.apply(0, planOf("b"))
			r.group("b", Running)
			r.group("b", Ready)
			r.apply(1, Event{Kind: KindOperation, Status: Succeeded})
		}, []string{"a edit"}},
		"three failures, the last one fixed": {func(r *run) {
			r.fails("a")
			r.group("a", Running)
			r.command(Retry, "a", "")
			r.group("a", Failed)
			r.group("a", Running)
			r.group("a", Failed) // before the answer
			r.command(Accept, "a", "another terminal")
			r.command(Edit, "", "")
			r.apply(1, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r"}})
			r.apply(0, planOf("a"))
			r.group("a", Running)
			r.group("a", Ready)
		}, []string{"a retry, again", "a accept, again, by another terminal",
			"a edit"}},
		"failed again after an edit, then fixed": {func(r *run) {
			r.fails("a")
			r.command(Edit, "", "")
			r.apply(1, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r"}})
			r.apply(0, planOf("a"))
			r.fails("a")
			r.group("a", Ready)
			r.command(Accept, "a", "")
		}, []string{"a edit, again", "a accept"}},
		"failed again after an edit": {func(r *run) {
			r.fails("a")
			r.command(Edit, "", "")
			r.apply(1, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r"}})
			r.apply(0, planOf("a"))
			r.fails("a")
			r.apply(1, Event{Kind: KindOperation, Status: Failed})
		}, nil},
	}
	for name, tt := range tests {
		r := newRun("a", "b")
		tt.run(r)
		var got []string
		for _, f := range r.Fixed() {
			fix := f.Unit.Group + " " + string(f.How)
			if f.Again {
				fix += ", again"
			}
			if f.By != "" {
				fix += ", by " + f.By
			}
			got = append(got, fix)
			if f.Root.Cause != "it is broken" {
				t.Errorf("%s: the cause is %q", name, f.Root.Cause)
			}
			if f.Failed.IsZero() || f.Ready.Before(f.Failed) {
				t.Errorf("%s: failed at %s, ready at %s", name, f.Failed, f.Ready)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %q, want %q", name, got[i], tt.want[i])
			}
		}
	}
}

// TestWatchFixesNothing: a group of a watch that recovers was not fixed by a command.
func TestWatchFixesNothing(t *testing.T) {
	r := newRun("a")
	r.Operation = Operation{Name: "watch"}
	r.fails("a")
	r.group("a", Ready)
	if len(r.Fixed()) > 0 {
		t.Errorf("fixed: %v", r.Fixed())
	}
}

// TestOperationsOfARelease: a stack rolls a release back with a second operation, whose changes do not count with those of
// the first. It is no edit.
func TestOperationsOfARelease(t *testing.T) {
	r := newRun("a")
	r.object("a", Ready, Created)
	r.apply(1, Event{Kind: KindOperation, Status: Succeeded})
	r.apply(1, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "uninstall"}})
	r.apply(0, planOf("a"))
	r.object("a", Gone, Deleted)
	if got := r.Changes(); got != (Changes{Deleted: 1}) || r.Edited() {
		t.Errorf("changes %+v, edited %t", got, r.Edited())
	}
}

// TestTimeLeft expects that pauses and outages do not count, as in the engine (R25, R53).
func TestTimeLeft(t *testing.T) {
	r := newRun("a")
	left := func() time.Duration {
		g := r.Find("apply", "a")
		d, _ := r.TimeLeft(g, g.Objects[0], r.at)
		return d
	}
	r.group("a", Running)
	r.object("a", Applying, "")
	r.object("a", InProgress, Created)
	r.apply(10, Event{Kind: KindWaiting})
	if got := left(); got != 50*time.Second {
		t.Errorf("%s left after 10s, want 50s", got)
	}
	r.apply(0, Event{Kind: KindRun, Status: Paused})
	if got := left(); got != 0 {
		t.Errorf("%s left while paused, want no limit", got)
	}
	r.apply(100, Event{Kind: KindServer, Status: Away, Since: r.at.Add(100 * time.Second)})
	r.apply(100, Event{Kind: KindRun, Status: Running})
	r.apply(100, Event{Kind: KindServer, Status: Back})
	r.apply(5, Event{Kind: KindWaiting})
	if got := left(); got != 45*time.Second {
		t.Errorf("%s left after 15s, a pause and an outage, want 45s", got)
	}
	r.apply(100, Event{Kind: KindWaiting})
	if got := left(); got != 0 {
		t.Errorf("%s left after the timeout, want 0s", got)
	}
	r.group("a", Failed)
	r.apply(0, Event{Kind: KindRun, Status: Held})
	r.apply(100, Event{Kind: KindRun, Status: Running})
	r.apply(0, Event{Kind: KindGroup, Phase: "apply", Group: "a", Status: Running, Message: Rechecking})
	r.apply(20, Event{Kind: KindWaiting})
	if got := left(); got != 40*time.Second { // R44
		t.Errorf("%s left 20s after a re-check started, want 40s", got)
	}
	r.object("a", Ready, "")
	if got := left(); got != 0 {
		t.Errorf("%s left for a ready object, want no limit", got)
	}
}

// TestTimeLeftOutside: the time of an object outside the release starts again when it is no longer ready before its group has
// started (R22d, R25).
func TestTimeLeftOutside(t *testing.T) {
	r := &run{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.apply(0, Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install", Release: "r", ReadinessTimeout: time.Minute}})
	p := planOf("a")
	p.Phases[0].Groups[0].WaitFor = []plan.Object{object("tls"), object("ca")}
	r.apply(0, p)
	report := func(after int, name string, s Status) time.Duration {
		o := object(name)
		r.apply(after, Event{Kind: KindObject, Phase: "apply", Group: "a", Object: &o, Status: s, Outside: true})
		left, _ := r.TimeLeft(r.Find("apply", "a"), r.Find("apply", "a").Outside[0], r.at)
		return left
	}
	report(0, "ca", InProgress)
	for n, step := range []struct {
		after int
		name  string
		to    Status
		left  time.Duration
	}{
		{0, "tls", InProgress, time.Minute}, {10, "tls", Ready, 0}, {10, "tls", InProgress, 40 * time.Second},
		{10, "tls", Ready, 0}, {0, "ca", Ready, 0}, {10, "tls", InProgress, time.Minute},
	} {
		if left := report(step.after, step.name, step.to); left != step.left {
			t.Errorf("step %d: %s left, want %s", n, left, step.left)
		}
	}
}

// TestSkippedDidNotStart: a group whose run ended before its first request counts as not started.
func TestSkippedDidNotStart(t *testing.T) {
	r := newRun("a")
	r.group("a", Running)
	r.group("a", Skipped)
	if g := r.Find("apply", "a"); !g.Started.IsZero() || r.AnyGroupStarted() {
		t.Errorf("a skipped group started at %s", g.Started)
	}
}

// TestSnapshot expects events after the end to change the snapshot, but not the result of the
// operation.
func TestSnapshot(t *testing.T) {
	r := newRun("a", "b")
	for _, id := range []string{"a", "b"} {
		r.group(id, Running)
		r.object(id, Applying, "")
		r.object(id, Ready, Created)
		r.group(id, Ready)
	}
	r.apply(1, Event{Kind: KindOperation, Status: Succeeded, Message: "done"})
	snapshot := r.Snapshot()
	if snapshot.Message != "" || snapshot.Find("apply", "a").Objects[0].Status != Ready {
		t.Errorf("the snapshot starts with %q, %+v", snapshot.Message, snapshot.Find("apply", "a").Objects[0])
	}
	o := object("a")
	observe := func(e Event) { e.Time = r.at.Add(time.Minute); snapshot.Observe(e) }
	observe(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "watch", Revision: 3}})
	observe(Event{Kind: KindObject, Phase: "other", Group: "a", Object: &o, Status: InProgress})
	observe(Event{Kind: KindDiagnosis, Phase: "other", Group: "a", Object: &o, Status: Degraded, Cause: "crashes"})
	observe(Event{Kind: KindGroup, Phase: "apply", Group: "a", Status: Failed})
	a := snapshot.Find("apply", "a")
	if !a.Regressed(a.Objects[0]) || a.Objects[0].Cause != "crashes" || a.Status != Ready || snapshot.Message != "" {
		t.Errorf("the degraded object is %+v in a group %s, message %q", a.Objects[0], a.Status, snapshot.Message)
	}
	if b := snapshot.Find("apply", "b"); b.Regressed(b.Objects[0]) {
		t.Error("an object without events regressed")
	}
	if g := r.Find("apply", "a"); g.Objects[0].Status != Ready || g.Done != 1 || len(r.Roots()) > 0 || r.Message != "done" {
		t.Errorf("the original state changed: %+v", g.Objects[0])
	}
	observe(Event{Kind: KindObject, Group: "a", Object: &o, Status: Ready})
	if a.Regressed(a.Objects[0]) {
		t.Error("an object that is ready again counts as regressed")
	}
	observe(Event{Kind: KindOperation, Status: Running, Message: "deployed", Operation: &Operation{Name: "watch", Revision: 4}})
	if snapshot.Message != "revision 4, deployed" {
		t.Errorf("message about a new revision: %q", snapshot.Message)
	}
}

// TestFixedInAStack: what is fixed in a release of a stack counts for the stack, whether the command was for all of it, for the release or
// for the group (R44, S6).
func TestFixedInAStack(t *testing.T) {
	for _, group := range []string{"", "ns/shop", "ns/shop/a", "a"} {
		r := newRunIn("ns/shop", "a", "b")
		r.fails("a")
		r.group("a", Ready)
		r.scope = ""
		r.command(Retry, group, "ann")
		if f := r.Fixed(); len(f) != 1 || f[0].Unit.Group != "ns/shop/a" || f[0].How != Retry || f[0].By != "ann" {
			t.Errorf("%q: fixed %+v", group, f)
		}
	}
}

// TestFixedIsCheap: without a fixed failure in a release of a stack, Fixed copies nothing: the screen asks in each frame.
func TestFixedIsCheap(t *testing.T) {
	r := newRun("a")
	r.fails("a")
	r.group("a", Ready)
	r.command(Retry, "a", "")
	if allocs := testing.AllocsPerRun(10, func() { r.Fixed() }); allocs > 0 || len(r.Fixed()) != 1 {
		t.Errorf("%v allocations for %d failures", allocs, len(r.Fixed()))
	}
}
