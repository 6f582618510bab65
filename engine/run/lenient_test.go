package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func removal(lines ...string) Stage {
	return Stage{Phase: event.Phase{Name: "remove", Kind: event.PhaseRemove, Groups: groupsOf(lines...)}, ObjectTimeout: 30 * time.Second, Lenient: true}
}

// TestLenientRemoval: if an object does not disappear, groups that wait for it start after
// ObjectTimeout; if no group waits for it, the stage ends after goneGrace. Nothing fails (R30).
func TestLenientRemoval(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {gone: time.Second}, "b": {stuck: true}, "c": {stuck: true}})
	trace, err := run(t, Options{}, removal("a: a", "b < a: b", "c < b: c", "d: d"), fake, nil)
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s c:a running", "0.0s c:d running", "0.0s c:d gone", "1.0s c:a gone", "1.0s c:b running",
		"31.0s c:b applied (still being deleted, not checked)", "31.0s c:c running", "33.0s c:c applied (still being deleted, not checked)")
}

// TestContinueOnError (S5, R26): after the failure of a group that says so, only groups that wait for it do not start. The stage
// fails, with all failures.
func TestContinueOnError(t *testing.T) {
	slow, broken := behaviour{ready: 2 * time.Second}, behaviour{ready: time.Second, failed: "broken"}
	for _, test := range []struct {
		name string
		d    behaviour
		want []string
	}{
		{"one fails", slow, []string{"2.0s c:d running", "4.0s c:d ready", "4.0s c:e running", "6.0s c:e ready", "6.0s c:b skipped (not started: c:a failed)"}},
		{"another one fails, too", broken, []string{"2.0s c:d running", "3.0s c:d failed (Pod/d: broken)", "3.0s c:b skipped (not started: c:a failed)", "3.0s c:e skipped (not started: c:d failed)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			groups := groupsOf("a: Pod/a", "b < a: Pod/b", "c: Pod/c", "d < c: Pod/d", "e < d: Pod/e")
			groups[0].ContinueOnError = true
			fake := newFake(map[string]behaviour{"a": broken, "b": slow, "c": slow, "d": test.d, "e": slow})
			trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groups}}, fake, nil)
			if err == nil {
				t.Error("no error")
			}
			want(t, trace, append([]string{"0.0s c:a running", "0.0s c:c running", "1.0s c:a failed (Pod/a: broken)", "2.0s c:c ready"}, test.want...)...)
		})
	}
}

// TestLenientRemovalInUse: the removal stops waiting for an object once a diagnosis says that
// waiting does not help.
func TestLenientRemovalInUse(t *testing.T) {
	fake := newFake(map[string]behaviour{"data": {stuck: true}})
	diagnose := func(context.Context, plan.Object) Finding {
		return Finding{Cause: "in use by pod user", Degraded: true}
	}
	trace, err := run(t, Options{Diagnose: diagnose}, removal("a: PersistentVolumeClaim/data", "b < a: b"), fake, nil)
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s c:a running", "1.0s diagnosis c:a PersistentVolumeClaim/data (in use by pod user)", "1.0s c:a applied (still being deleted, not checked)", "1.0s c:b running", "1.0s c:b gone")
}

// TestLenientRemovalTimesOut: after the operation's timeout, the rest is deleted without
// waiting (R30).
func TestLenientRemovalTimesOut(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {stuck: true}, "b": {stuck: true}, "c": {stuck: true}})
	trace, err := run(t, Options{Operation: event.Operation{Timeout: 10 * time.Second}}, removal("a: a", "b < a: b", "c < b: c"), fake, nil)
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s c:a running", "10.0s c:a applied (still being deleted, not checked)", "10.0s c:b running",
		"10.0s c:b applied (still being deleted, not checked)", "10.0s c:c running", "10.0s c:c applied (still being deleted, not checked)")
}

// TestLenientRemovalWithoutAnswers: a removal ends soon after the operation's timeout even if
// the API server never responds.
func TestLenientRemovalWithoutAnswers(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {hang: true}})
	trace, err := run(t, Options{Operation: event.Operation{Timeout: 10 * time.Second}}, removal("a: a"), fake, func(b *rig) {
		b.at(15 * time.Second)
		if s := b.feed.Events(); s[len(s)-1].Status == event.Failed {
			b.t.Error("the group failed before windDownTime had passed")
		}
		b.at(21 * time.Second)
		if b.fake.inFlight() > 0 {
			b.t.Error("the request that is never answered was not cancelled")
		}
	})
	if err == nil || !strings.Contains(strings.Join(trace, "\n"), "20.0s c:a failed") {
		t.Errorf("error %v of %q", err, trace)
	}
}

// TestBlockedByItsOwnName: an object is applied again once the older one of the same name is
// gone. Until then its wave does not end (R30).
func TestBlockedByItsOwnName(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {blocked: 3 * time.Second}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: a, b")}, ObjectTimeout: 10 * time.Second}, fake, nil)
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s c:a running", "3.0s c:a ready")
	if got := strings.Join(fake.order, " "); got != "Pod/a Pod/a Pod/b" {
		t.Errorf("requests %s", got)
	}
}

// TestBlockedTimeDoesNotCountForReadiness: the readiness timeout of a blocked object starts again
// once it is applied (R25).
func TestBlockedTimeDoesNotCountForReadiness(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {blocked: 8 * time.Second, ready: 5 * time.Second}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: a")}, ObjectTimeout: 10 * time.Second}, fake, nil)
	if err != nil {
		t.Error(err)
	}
	want(t, trace, "0.0s c:a running", "13.0s c:a ready")
}

// TestBlockedForGood: if the older object does not disappear, the group times out, and the groups
// that started with it continue.
func TestBlockedForGood(t *testing.T) {
	fake := newFake(map[string]behaviour{"a": {blocked: -1}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: ConfigMap/a, b", "c: ConfigMap/c, d")}, ObjectTimeout: 10 * time.Second}, fake, nil)
	if err == nil {
		t.Error("the stage succeeded")
	}
	want(t, trace, "0.0s c:a running", "0.0s c:c running",
		"10.0s c:a failed (ConfigMap/a: an object of this name is still being deleted: waiting for finalizer example.com/held; gave up after 10s (--readiness-timeout))", "10.0s c:c ready")
}
