package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/kube/throwaway/auditlog"
)

// mustRun runs a prepared operation that must succeed.
func (r *rig) mustRun(op *Operation, err error) outcome {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.run(op, nil)
	if out.err != nil || out.state.Exit != 0 {
		r.t.Fatalf("%s: %v, exit %d", op.info.Name, out.err, out.state.Exit)
	}
	return out
}

func (r *rig) upgrade(chart string, change func(*Upgrade)) (*Operation, error) {
	up := Upgrade{Common: Common{Release: "t", Namespace: r.namespace}, Rendering: Rendering{Chart: loadChart(r.t, chart), Values: r.values(chart)}}
	if change != nil {
		change(&up)
	}
	return r.client.PrepareUpgrade(r.t.Context(), up)
}

func (r *rig) rollback(to int) (*Operation, error) {
	return r.client.PrepareRollback(r.t.Context(), Rollback{Common: Common{Release: "t", Namespace: r.namespace}, Revision: to})
}

func (r *rig) uninstall() (*Operation, error) {
	return r.client.PrepareUninstall(r.t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace}})
}

// history is "revision status" of each revision, in order, by Helm's own SDK.
func (r *rig) history() []string {
	r.t.Helper()
	list, err := r.helm().Releases.History("t")
	if err != nil {
		r.t.Fatal(err)
	}
	var revisions []*rel1.Release
	for _, x := range list {
		rel, err := asV1(x)
		if err != nil {
			r.t.Fatal(err)
		}
		revisions = append(revisions, rel)
	}
	slices.SortFunc(revisions, func(a, b *rel1.Release) int { return a.Version - b.Version })
	var out []string
	for _, rel := range revisions {
		out = append(out, fmt.Sprintf("%d %s", rel.Version, rel.Info.Status))
	}
	return out
}

// TestUpgradeAndRollbackInOrder proves the order of the writes of an upgrade
// and a rollback of shop and of the charts of the proposals (R30, R32): no
// group is written before its gates were written.
func TestUpgradeAndRollbackInOrder(t *testing.T) {
	t.Parallel()
	for _, chart := range installable(t) {
		if chart != "shop" && !strings.HasPrefix(chart, "hip") {
			continue
		}
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			groups := oracle(t, chart, r.namespace)
			start := time.Now()
			op, err := r.upgrade(chart, func(u *Upgrade) {
				if chart == "shop" {
					u.Values = map[string]any{"global": map[string]any{"speed": 10, "topicGroup": r.namespace + ".example", "version": "1.1.0"}}
				}
			})
			r.mustRun(op, err)
			r.timeline("lockstep").since(start).assertWritesFollowGates(t, "upgrade", groups)
			start = time.Now()
			op, err = r.rollback(1)
			r.mustRun(op, err)
			r.timeline("lockstep").since(start).assertWritesFollowGates(t, "rollback", groups)
			if got, want := r.history(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
		})
	}
}

// assertWritesFollowGates compares the first write of every group with the
// last write of each of its gates.
func (tl *timeline) assertWritesFollowGates(t *testing.T, what string, groups map[string]oracleGroup) {
	t.Helper()
	compared := 0
	for id, g := range groups {
		first, name := tl.firstWriteIfAny(t, g.objects)
		for _, gate := range g.gates {
			last, by := tl.lastWriteIfAny(t, groups[gate].objects)
			if first.IsZero() || last.IsZero() {
				continue
			}
			compared++
			if first.Before(last) {
				t.Errorf("%s: %s of %s was written at %s, before %s of %s at %s", what, name, id, clock(first), by, gate, clock(last))
			}
		}
	}
	if compared == 0 && len(groups) > 1 && slices.ContainsFunc(slices.Collect(maps.Values(groups)), func(g oracleGroup) bool { return len(g.gates) > 0 }) {
		t.Errorf("%s: nothing was compared", what)
	}
}

// since leaves out what came before.
func (tl *timeline) since(at time.Time) *timeline {
	out := *tl
	i := slices.IndexFunc(tl.events, func(e auditlog.Event) bool { return e.Received.After(at) })
	if i < 0 {
		i = len(tl.events)
	}
	out.events = tl.events[i:]
	return &out
}

// firstWriteIfAny and lastWriteIfAny are about our own writes only; objects
// that were not written, since they did not change their name or version, are
// left out.
func (tl *timeline) firstWriteIfAny(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		for _, e := range tl.of(t, o) {
			if e.UserAgent == tl.agent && e.Verb != "delete" && e.Object.Subresource == "" && (at.IsZero() || e.Received.Before(at)) {
				at, which = e.Received, o
			}
		}
	}
	return at, which
}

func (tl *timeline) lastWriteIfAny(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		for _, e := range tl.of(t, o) {
			if e.UserAgent == tl.agent && e.Verb != "delete" && e.Object.Subresource == "" && e.Received.After(at) {
				at, which = e.Received, o
			}
		}
	}
	return at, which
}

// TestUninstallInReverse proves for every chart that a group is deleted only
// after all that waited for it (R31), and that nothing is left.
func TestUninstallInReverse(t *testing.T) {
	t.Parallel()
	for _, chart := range installable(t) {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			tl := r.timeline("lockstep") // while the chart's kinds are known
			start := time.Now()
			r.mustRun(r.uninstall())
			tl.events = r.audit()
			tl = tl.since(start)
			groups := oracle(t, chart, r.namespace)
			for id, g := range groups {
				last, name := tl.deleted(t, g.objects)
				for _, gate := range g.gates {
					first, by := tl.firstDelete(t, groups[gate].objects)
					if !first.IsZero() && first.Before(last) {
						t.Errorf("%s of %s was deleted at %s, before %s of %s was at %s", by, gate, clock(first), name, id, clock(last))
					}
				}
			}
			if st := r.status(); st != "" {
				t.Errorf("the release is still there: %s", st)
			}
			if left := r.labelled(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// labelled lists what of a release is left, hooks not counted.
func (r *rig) labelled() []string {
	var out []string
	for _, o := range r.left() {
		if !strings.HasPrefix(o, "Job/") {
			out = append(out, o)
		}
	}
	return out
}

// deleted is when the last of the objects was asked to be deleted by us.
func (tl *timeline) deleted(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		for _, e := range tl.of(t, o) {
			if e.Verb == "delete" && e.UserAgent == tl.agent && e.Received.After(at) {
				at, which = e.Received, o
			}
		}
	}
	return at, which
}

func (tl *timeline) firstDelete(t *testing.T, objects []string) (at time.Time, which string) {
	t.Helper()
	for _, o := range objects {
		for _, e := range tl.of(t, o) {
			if e.Verb == "delete" && e.UserAgent == tl.agent && (at.IsZero() || e.Received.Before(at)) {
				at, which = e.Received, o
			}
		}
	}
	return at, which
}

// TestFailedUpgradeRollsBack goes back to the last good revision, in order, and
// names it (R33).
func TestFailedUpgradeRollsBack(t *testing.T) {
	t.Parallel()
	for _, rollback := range []bool{false, true} {
		t.Run(fmt.Sprint(rollback), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("fail-image", func(i *Install) { i.Values = map[string]any{"image": "example/app:1.0"} })
			op, err := r.upgrade("fail-image", func(u *Upgrade) {
				u.RollbackOnFailure, u.ReadinessTimeout = rollback, 3*time.Second
				u.Values = map[string]any{"image": "example/no-such-image:2"}
			})
			if err != nil {
				t.Fatal(err)
			}
			if op.info.PreviousRevision != 1 {
				t.Errorf("it would go back to %d", op.info.PreviousRevision)
			}
			out := r.run(op, nil)
			if out.state.Exit != 1 || !strings.Contains(out.state.Message, "Deployment/broken") {
				t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
			}
			want := []string{"1 deployed", "2 failed"}
			if rollback {
				want = []string{"1 superseded", "2 failed", "3 deployed"}
				if !strings.Contains(out.state.Message, "back at revision 1") {
					t.Errorf("message %s", out.state.Message)
				}
			}
			if got := r.history(); !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
		})
	}
}

// TestUpgradeRemovesInReverse upgrades to a chart that lacks groups: what is
// gone from it is deleted after the new plan, in reverse of the old one (R30).
func TestUpgradeRemovesInReverse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("fanout", nil)
	op, err := r.upgrade("plain", nil)
	out := r.mustRun(op, err)
	var order []string
	for _, e := range out.events {
		if e.Kind == event.KindGroup && e.Status == event.Running {
			order = append(order, e.Phase+" "+e.Group)
		}
	}
	groups := oracle(t, "fanout", r.namespace)
	if len(order) != 1+len(groups) || order[0] != "apply plain:(unsequenced)" {
		t.Fatalf("ran %v", order)
	}
	at := map[string]int{}
	for i, o := range order {
		at[strings.TrimPrefix(o, "remove ")] = i
	}
	for id, g := range groups {
		for _, gate := range g.gates {
			if at[gate] < at[id] {
				t.Errorf("%s was removed before %s, which waited for it: %v", gate, id, order)
			}
		}
	}
}

// TestUpgradeOfAFailedFirstInstall takes over what is there.
func TestUpgradeOfAFailedFirstInstall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fail-image", func(i *Install) { i.ReadinessTimeout = 2 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	r.run(op, nil)
	op, err = r.upgrade("fail-image", func(u *Upgrade) { u.Values = map[string]any{"image": "example/app:1.0"} })
	r.mustRun(op, err)
	if got, want := r.history(), []string{"1 superseded", "2 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// TestUpgradeInstalls installs where there is nothing to upgrade.
func TestUpgradeInstalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.upgrade("plain", nil); err == nil || !strings.Contains(err.Error(), "--install") {
		t.Errorf("error %v", err)
	}
	op, err := r.upgrade("plain", func(u *Upgrade) { u.Install = true })
	r.mustRun(op, err)
	r.assertDeployed("t")
}

// TestReplace takes the name of what was uninstalled with its history kept, by
// install --replace and by upgrade --install, as the next revision.
func TestReplace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", nil)
	for n, prepare := range []func() (*Operation, error){
		func() (*Operation, error) { return r.install("plain", func(i *Install) { i.Replace = true }) },
		func() (*Operation, error) { return r.upgrade("plain", func(u *Upgrade) { u.Install = true }) },
	} {
		r.mustRun(r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace}, KeepHistory: true}))
		if _, err := r.install("plain", nil); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("error %v", err)
		}
		op, err := prepare()
		if out := r.mustRun(op, err); out.state.Operation.Revision != n+2 {
			t.Errorf("revision %d, want %d", out.state.Operation.Revision, n+2)
		}
	}
	if got, want := r.history(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// TestReleaseTests runs the test hooks of a release.
func TestReleaseTests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("shop", nil)
	op, err := r.client.PrepareTest(t.Context(), ReleaseTest{Common: Common{Release: "t", Namespace: r.namespace}})
	out := r.mustRun(op, err)
	if len(out.state.Phases) != 1 || out.state.Phases[0].Kind != event.PhaseHooks || out.state.Phases[0].Groups[0].Status != event.Ready {
		t.Errorf("phases %+v", out.state.Phases)
	}
	if got := r.status(); got != rcommon.StatusDeployed {
		t.Errorf("the release is %s after a test", got)
	}
}
