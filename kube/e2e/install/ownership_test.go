package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestTakenOver: another release takes over an object. An upgrade and a rollback adopt it again only with --take-ownership
// (R31a). A removal and an uninstall keep it, with a warning.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.TakesOver = []string{"configmaps/b"}
	a, b := rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a"))
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a, b), nil))
	take := func(release string) {
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, b), func(i *kube.Deploy) { i.Release, i.TakeOwnership = release, true }))
	}
	take("thief")
	writes := len(r.Writes())
	if _, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, b), nil)); err == nil || !strings.Contains(err.Error(), "ConfigMap/b") ||
		!strings.Contains(err.Error(), "release thief") || !strings.Contains(err.Error(), "--take-ownership") {
		t.Errorf("error %v", err)
	}
	if n := len(r.Writes()); n != writes {
		t.Errorf("%d writes by a refused upgrade", n-writes)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, b), func(u *kube.Deploy) { u.TakeOwnership = true })))
	take("thief2")
	writes = len(r.Writes())
	if _, err := r.Rollback(1); err == nil || !strings.Contains(err.Error(), "ConfigMap/b") || !strings.Contains(err.Error(), "release thief2") {
		t.Errorf("error %v", err)
	}
	if n := len(r.Writes()); n != writes {
		t.Errorf("%d writes by a refused rollback", n-writes)
	}
	rollback := kube.Rollback{Common: r.Common(), Revision: 1, TakeOwnership: true}
	r.MustRun(r.Client.PrepareRollback(t.Context(), rollback))
	take("thief3")
	out := r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if !slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Object != nil && e.Object.Name == "b" && e.Change == event.Kept && strings.Contains(e.Message, "thief3")
	}) {
		t.Errorf("no event says that the upgrade keeps b")
	}
	r.MustRun(r.Client.PrepareRollback(t.Context(), rollback))
	take("thief4")
	op, err := r.Uninstall()
	out = r.MustRun(op, err)
	if !out.HasWarning("R31", "ConfigMap/b", "thief4") {
		t.Errorf("no warning says that the uninstall keeps b: %v", out.State.Warnings)
	}
	if n := len(op.Phases()[0].Groups); n != 1 {
		t.Errorf("%d groups are planned to be removed, want 1", n)
	}
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"b"}) {
		t.Errorf("remaining: %v, want [b]", got)
	}
}

// TestTakenOverIsKept: a run takes over an object and fails. Its rollback keeps the object, because it existed before, and the
// outcome says so. An uninstall of the deployed release deletes it, as Helm does (R31a).
func TestTakenOverIsKept(t *testing.T) {
	t.Parallel()
	first, mine := rig.ConfigMap("first", rig.Group("first")), rig.ConfigMap("shared", rig.Group("shared", "first"), "v: mine")
	bad := rig.Deployment("bad", rig.Impatient(rig.Group("late", "shared")), "1h")
	for _, owner := range []string{"", "other"} {
		for _, operation := range []string{"install", "upgrade"} {
			t.Run(operation+map[string]string{"": "/nobody", "other": "/release"}[owner], func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				r.TakesOver = []string{"configmaps/shared"}
				marks, whose := map[string]string(nil), "of no release"
				if owner != "" {
					marks = map[string]string{"meta.helm.sh/release-name": owner, "meta.helm.sh/release-namespace": r.Namespace}
					whose = "release other in namespace " + r.Namespace
				}
				replaceShared(r, marks, map[string]string{"theirs": "1"})
				before := shared(r)
				var op *kube.Operation
				var err error
				if operation == "install" {
					op, err = r.Install("plain", rig.UseChart(rig.ChartOf(t, first, mine, bad), func(i *kube.Deploy) {
						i.TakeOwnership, i.ForceConflicts, i.RollbackOnFailure = true, true, true
					}))
				} else {
					r.Deploy("plain", rig.UseChart(rig.ChartOf(t, first), nil))
					op, err = r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, first, mine, bad), func(u *kube.Deploy) {
						u.TakeOwnership, u.ForceConflicts, u.RollbackOnFailure = true, true, true
					}))
				}
				if err != nil {
					t.Fatal(err)
				}
				out := r.Run(op, nil)
				want := "kept what existed before this release took it over: ConfigMap/shared (" + whose + ")"
				if now := shared(r); now == nil || now.UID != before.UID || now.Data["theirs"] != "1" ||
					now.Labels["app.kubernetes.io/managed-by"] != before.Labels["app.kubernetes.io/managed-by"] ||
					now.Annotations["meta.helm.sh/release-name"] != owner {
					t.Errorf("the object is now %v", now)
				}
				if out.State.Exit != 1 || strings.Count(out.State.Outcome, want) != 1 {
					t.Errorf("outcome %q, want %q", out.State.Outcome, want)
				}
				if left := r.ConfigMaps(r.Namespace); operation == "install" && slices.Contains(left, "first") || len(r.Revisions()) > 0 && operation == "install" {
					t.Errorf("left %v, revisions %v", left, r.Revisions())
				}
				if operation != "install" {
					return
				}
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, first, mine), func(i *kube.Deploy) { i.TakeOwnership = true }))
				r.MustRun(r.Uninstall())
				if now := shared(r); now != nil {
					t.Errorf("after an uninstall, %v", now)
				}
			})
		}
	}
}

// TestTakenOverAgain: an upgrade that has taken over an object of another release fails, and its rollback gives the object back. The
// same command then succeeds, however the other release was applied: a conflict is with somebody else's field manager (R31a, R50).
func TestTakenOverAgain(t *testing.T) {
	t.Parallel()
	first, shared := rig.ConfigMap("first", rig.Group("first")), rig.ConfigMap("shared", rig.Group("shared", "first"), "v: mine")
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.TakesOver = []string{"configmaps/shared"}
			other := rig.DirOf(t, rig.ConfigMap("shared", nil, "v: theirs"))
			r.MustHelm("install", "other", other, "--server-side="+serverSide)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, first), nil))
			upgrade := func(docs ...string) (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs...), func(u *kube.Deploy) {
					u.TakeOwnership, u.RollbackOnFailure = true, true
				}))
			}
			op := r.Must(upgrade(first, shared, rig.Deployment("bad", rig.Impatient(rig.Group("late", "shared")), "1h")))
			if out := r.Run(op, nil); out.State.Exit != 1 || !strings.Contains(out.State.Outcome, "kept what existed before this release took it over: ConfigMap/shared") {
				t.Errorf("exit %d, outcome %q", out.State.Exit, out.State.Outcome)
			}
			r.MustRun(upgrade(first, shared))
			if now := r.ConfigMapData("shared"); now["v"] != "mine" {
				t.Errorf("the object has %v", now)
			}
		})
	}
}

// TestTakenOverIsRecorded: a run takes over an object and ends before it is done. The next command that removes it keeps it, and
// gives it back, and says so: a rollback, an uninstall (R31a).
func TestTakenOverIsRecorded(t *testing.T) {
	t.Parallel()
	first, mine := rig.ConfigMap("first", rig.Group("first")), rig.ConfigMap("shared", rig.Group("shared", "first"), "v: mine")
	bad := rig.Deployment("bad", rig.Impatient(rig.Group("late", "shared")), "1h")
	for _, operation := range []string{"install", "upgrade"} {
		r := rig.NewNamed(t, "taken-recorded-"+operation)
		r.TakesOver = []string{"configmaps/shared"}
		replaceShared(r, nil, map[string]string{"theirs": "1"})
		var op *kube.Operation
		var err error
		if operation == "install" {
			op, err = r.Install("plain", rig.UseChart(rig.ChartOf(t, first, mine, bad), func(i *kube.Deploy) {
				i.TakeOwnership = true
			}))
		} else {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, first), nil))
			op, err = r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, first, mine, bad), func(u *kube.Deploy) {
				u.TakeOwnership = true
			}))
		}
		if err != nil {
			t.Fatal(err)
		}
		if out := r.Run(op, nil); out.Err == nil {
			t.Errorf("%s did not fail", operation)
		}
		next, err := r.Uninstall()
		if operation == "upgrade" {
			next, err = r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: r.Common()})
		}
		lines, _ := r.Changes(next, err)
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "ConfigMap/shared delete") }) {
			t.Errorf("after the %s, the plan is %v", operation, lines)
		}
		if out := r.MustRun(next, err); !strings.Contains(out.State.Message, "kept what existed before this release took it over: ConfigMap/shared (of no release)") {
			t.Errorf("after the %s, message %q", operation, out.State.Message)
		}
		if now := shared(r); now == nil || now.Data["theirs"] != "1" || len(now.Labels)+len(now.Annotations) > 0 && now.Annotations["meta.helm.sh/release-name"] != "" {
			t.Errorf("after the %s, the object is %v", operation, now)
		}
	}
}

// TestOwnMarksBefore: an object with the marks of the release that no revision has brought, or that the deployed one has left behind
// with helm.sh/resource-policy: keep, existed before the run, and a rollback keeps it, also that of the next run, and an upgrade
// without it. A revision that was deployed with it makes it the release's. One that a failed revision has brought is deleted (R31a, R32a).
func TestOwnMarksBefore(t *testing.T) {
	t.Parallel()
	first, mine := rig.ConfigMap("first", rig.Group("first")), rig.ConfigMap("shared", rig.Group("shared", "first"), "v: mine")
	bad := rig.Deployment("bad", rig.Impatient(rig.Group("late", "shared")), "1h")
	keep := rig.Group("shared", "first")
	keep["helm.sh/resource-policy"] = "keep"
	kept := rig.ConfigMap("shared", keep, "theirs: \"1\"")
	mark := func(r *rig.Rig) {
		replaceShared(r, map[string]string{"meta.helm.sh/release-name": "t", "meta.helm.sh/release-namespace": r.Namespace}, map[string]string{"theirs": "1"})
	}
	deploy := func(r *rig.Rig, objects ...string) {
		r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, objects...), func(u *kube.Deploy) { u.Install = true })))
	}
	fail := func(r *rig.Rig, rollBack bool, objects ...string) rig.Outcome {
		op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, append(objects, bad)...), func(u *kube.Deploy) {
			u.Install, u.RollbackOnFailure, u.ForceConflicts = true, rollBack, true
		}))
		if err != nil {
			r.T.Fatal(err)
		}
		return r.Run(op, nil)
	}
	for name, tt := range map[string]struct {
		before func(r *rig.Rig)
		keeps  bool // it is annotated with keep
		gone   bool
	}{
		"no-record":   {before: mark},
		"deployed":    {before: func(r *rig.Rig) { deploy(r, first); mark(r) }},
		"failed":      {before: func(r *rig.Rig) { fail(r, false, first); mark(r) }},
		"left-behind": {before: func(r *rig.Rig) { deploy(r, first, kept); deploy(r, first) }, keeps: true},
		"uninstalled": {before: func(r *rig.Rig) { deploy(r, first, kept); uninstallKeepingHistory(r) }, keeps: true},
		"restored": {before: func(r *rig.Rig) { // after an upgrade that removed it
			deploy(r, first, mine)
			deploy(r, first)
			mark(r)
			deploy(r, first)
		}},
		"restored-after-uninstall": {before: func(r *rig.Rig) {
			deploy(r, first, mine)
			uninstallKeepingHistory(r)
			mark(r)
		}},
		"failed-has-it": {before: func(r *rig.Rig) { deploy(r, first); fail(r, false, first, mine) }, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewNamed(t, "own-marks-"+name)
			tt.before(r)
			out := fail(r, true, first, mine)
			if out.State.Exit != 1 || strings.Contains(out.State.Outcome, "existed before this release took it over: ConfigMap/shared") == tt.gone {
				t.Errorf("outcome %q", out.State.Outcome)
			}
			if now := shared(r); tt.gone != (now == nil) {
				t.Errorf("the object is %v", now)
			}
			if tt.gone {
				return
			}
			fail(r, true, first, mine)
			if now := shared(r); now == nil {
				t.Fatal("the rollback of the same upgrade again deleted the object")
			}
			deploy(r, first)
			fail(r, false, first, mine)
			deploy(r, first)
			deploy(r, first)
			now := shared(r)
			if now == nil {
				t.Fatal("an upgrade without the object deleted it, although no revision has brought it")
			}
			if keeps := now.Annotations["helm.sh/resource-policy"] == "keep"; keeps != tt.keeps {
				t.Errorf("it is annotated with keep: %t, want %t as before", keeps, tt.keeps)
			}
			deploy(r, first, mine)
			r.MustRun(r.Uninstall())
			if now := shared(r); now != nil {
				t.Errorf("after it was deployed, the uninstall left %v", now)
			}
		})
	}
}

func uninstallKeepingHistory(r *rig.Rig) {
	r.MustRun(r.Client.PrepareUninstall(r.T.Context(), kube.Uninstall{Common: r.Common(), KeepHistory: true}))
}

// TestAdoptedHookIsKept: an upgrade adopts an object that a hook of the release has created, and fails. Its rollback keeps the object,
// which is that of a hook again: the earlier revision needs it, and its hook does not run again (R31a).
func TestAdoptedHookIsKept(t *testing.T) {
	t.Parallel()
	for _, onFailure := range []bool{true, false} {
		r := rig.NewNamed(t, fmt.Sprint("adopted-hook-", onFailure))
		first := rig.ConfigMap("first", rig.Group("first"))
		hook := rig.ConfigMap("shared", map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-failed"})
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, first, hook), nil))
		op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, first, rig.ConfigMap("shared", rig.Group("shared", "first")), rig.Deployment("bad", rig.Impatient(rig.Group("late", "shared")), "1h")),
			func(u *kube.Deploy) { u.RollbackOnFailure = onFailure }))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.Run(op, nil); out.State.Exit != 1 {
			t.Errorf("exit %d", out.State.Exit)
		}
		if !onFailure {
			r.MustRun(r.Rollback(1))
		}
		if now := shared(r); now == nil || now.Annotations["helm.sh/hook"] != "pre-install" || now.Annotations["meta.helm.sh/release-name"] != "" {
			t.Errorf("on failure %t: the object is %v", onFailure, now)
		}
	}
}

// TestMadeAgainAfterAFailedInstall: somebody makes an object again that only a failed install has. The next one is refused, and takes
// it over with --take-ownership; an uninstall before that keeps it (R31a).
func TestMadeAgainAfterAFailedInstall(t *testing.T) {
	t.Parallel()
	for _, take := range []bool{true, false} {
		r := rig.NewNamed(t, fmt.Sprint("made-again-", take))
		r.TakesOver = []string{"configmaps/shared"}
		mine := rig.ConfigMap("shared", rig.Group("shared"), "v: mine")
		op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, mine, rig.Deployment("bad", rig.Impatient(rig.Group("late", "shared")), "1h")), nil))
		r.MustFail(op, err, "Deployment/bad")
		replaceShared(r, nil, map[string]string{"theirs": "1"})
		upgrade := func(take bool) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, mine), func(u *kube.Deploy) { u.Install, u.TakeOwnership = true, take }))
		}
		start := time.Now()
		_, err = upgrade(false)
		r.MustRefuse(start, err, "ConfigMap/shared already exists", "is not managed by Helm: delete it, or take it over with --take-ownership")
		if take {
			r.MustRun(upgrade(true))
		} else {
			r.MustRun(r.Uninstall())
		}
		if now := shared(r); now == nil || (now.Data["v"] == "mine") != take {
			t.Errorf("take %t: the object is %v", take, now)
		}
	}
}
