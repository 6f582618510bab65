package kube

import (
	"errors"
	"slices"
	"strings"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/kube/lease"
)

// TestRecover kills an upgrade half way: recover marks its revision failed, shows
// which objects are as in which revision, and changes nothing else, nor anything
// at all the second time (R52).
func TestRecover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := []string{configMap("a", group("one")), configMap("b", group("two", "one")), configMap("c", group("three", "two"))}
	r.deploy("plain", use(one(t, before...), nil))
	after := makeDir(t, files{"templates/all.yaml": strings.Join([]string{configMap("a", group("one"), "v: new"), configMap("b", group("two", "one"), "v: new"), configMap("d", group("three", "two"))}, "\n---\n")})
	if !r.kill(errand{Operation: "upgrade", Chart: after, Namespace: r.namespace, Locks: lockDir()}, 3) { // the Lease, the record, a
		t.Fatal("the upgrade was not killed")
	}
	r.assertHistory("1 deployed", "2 pending-upgrade")
	found, err := r.client.Recover(t.Context(), r.common())
	if err != nil {
		t.Fatal(err)
	}
	r.assertHistory("1 deployed", "2 failed")
	if len(found.Marked) != 1 || found.Marked[0].From != rcommon.StatusPendingUpgrade || found.Dead == nil || found.Dead.Operation != "upgrade" || found.Cut != "upgrade" || found.Good != 1 {
		t.Errorf("it found %+v", found)
	}
	var is []string
	for _, c := range found.Changes {
		text := c.Object.Name + " " + string(c.Action)
		if found.Like[c.Object] > 0 {
			text += " as in 1"
		}
		is = append(is, text)
	}
	if want := []string{"a unchanged", "b change as in 1", "d create", "c delete as in 1"}; !slices.Equal(is, want) {
		t.Errorf("objects are %v, want %v", is, want)
	}
	if !r.released() {
		t.Error("the Lease is still there")
	}
	if found, err = r.client.Recover(t.Context(), r.common()); err != nil || len(found.Marked) > 0 || found.Dead != nil {
		t.Errorf("the second time: %v, %+v", err, found)
	}
	r.mustRun(r.rollback(1))
	if found, err = r.client.Recover(t.Context(), r.common()); err != nil || found.Cut != "" || len(found.Changes) > 0 {
		t.Errorf("of a release that is well: %v, %+v", err, found)
	}
}

// TestLeftPendingByHelm has a revision that Helm has left pending, or is still at
// work on: all refuse, until recover is told (R52).
func TestLeftPendingByHelm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := one(t, configMap("a", nil))
	r.deploy("plain", use(chart, nil))
	left := &rel1.Release{Name: "t", Namespace: r.namespace, Version: 2, Chart: mustHelm(t, chart), Info: &rel1.Info{Status: rcommon.StatusPendingUpgrade}}
	if err := r.helm().Releases.Create(left); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func() (*Operation, error){
		"install":   func() (*Operation, error) { return r.install("plain", use(chart, nil)) },
		"upgrade":   func() (*Operation, error) { return r.upgrade("plain", useUp(chart, nil)) },
		"rollback":  func() (*Operation, error) { return r.rollback(1) },
		"uninstall": r.uninstall,
	} {
		if _, err := prepare(); err == nil || !strings.Contains(err.Error(), "pending-upgrade") || !strings.Contains(err.Error(), "lockstep recover t") {
			t.Errorf("%s says %v", name, err)
		}
	}
	if _, err := r.client.Recover(t.Context(), r.common()); err != nil {
		t.Fatal(err)
	}
	r.mustRun(r.upgrade("plain", useUp(chart, nil)))
	r.assertHistory("1 superseded", "2 failed", "3 deployed")
}

// TestRecoverWhileAnotherRunWorks refuses (R52).
func TestRecoverWhileAnotherRunWorks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(one(t, deployment("slow", group("a"), "1s"), configMap("after", group("b", "a"))), nil))
	if err != nil {
		t.Fatal(err)
	}
	var held *lease.HeldError
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change == event.Created {
			if _, err := r.client.Recover(t.Context(), r.common()); !errors.As(err, &held) {
				t.Errorf("recover says %v", err)
			}
		}
	})
	if out.err != nil || held == nil || held.Holder.Operation != "install" {
		t.Errorf("%v; held by %+v", out.err, held)
	}
	r.assertHistory("1 deployed")
}
