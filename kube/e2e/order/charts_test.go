package order

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestOrderOfEveryChart installs every chart and checks the order in the audit log: no write
// of a group precedes the status update that made its dependencies ready (R7, R10, R11, R14,
// R18, R19, R21 to R23).
func TestOrderOfEveryChart(t *testing.T) {
	t.Parallel()
	independent := map[string][2]string{"fanout": independentGroups(t, "fanout"), "shop": {"shop/db:database", "shop/queue:broker"}}
	for _, chart := range installable(t) {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy(chart, nil)
			timeline := r.Timeline("lockstep")
			groups := rig.ExpectedPlan(t, chart, r.Namespace)
			for id, g := range groups {
				first, firstName := timeline.FirstWrite(t, g.Objects)
				for _, dependency := range g.Dependencies {
					ready, name := timeline.Ready(t, groups[dependency].Objects)
					if first.Before(ready) {
						t.Errorf("%s: %s was written at %s, before %s of %s was ready at %s",
							id, firstName, rig.Clock(first), name, dependency, rig.Clock(ready))
					}
				}
			}
			r.AssertDeployed("t")
			if t.Failed() {
				timeline.Dump(t)
			}
			if pair, ok := independent[chart]; ok {
				assertOverlap(r, chart, pair)
			}
			if chart == "shop" || strings.HasPrefix(chart, "hip") {
				assertUpgradeAndRollbackInOrder(r, chart)
			}
			assertUninstalledInReverse(r, chart)
		})
	}
}

// assertOverlap checks in the audit log that two groups ran at the same time (R14).
func assertOverlap(r *rig.Rig, chart string, pair [2]string) {
	t := r.T
	t.Helper()
	timeline, groups := r.Timeline("lockstep"), rig.ExpectedPlan(t, chart, r.Namespace)
	a, b := groups[pair[0]], groups[pair[1]]
	aFirst, _ := timeline.FirstWrite(t, a.Objects)
	bFirst, _ := timeline.FirstWrite(t, b.Objects)
	aReady, _ := timeline.Ready(t, a.Objects)
	bReady, _ := timeline.Ready(t, b.Objects)
	if !aFirst.Before(bReady) || !bFirst.Before(aReady) {
		t.Errorf("%s (%s to %s) and %s (%s to %s) did not overlap", pair[0], rig.Clock(aFirst), rig.Clock(aReady), pair[1], rig.Clock(bFirst), rig.Clock(bReady))
	}
}

// assertUpgradeAndRollbackInOrder checks the order of writes of an upgrade and a rollback: no
// group is written before its dependencies (R30, R32).
func assertUpgradeAndRollbackInOrder(r *rig.Rig, chart string) {
	t := r.T
	t.Helper()
	start := time.Now()
	op, err := r.Upgrade(chart, func(u *kube.Deploy) {
		if chart == "shop" {
			u.Values = map[string]any{"global": map[string]any{"speed": 10, "topicGroup": r.Namespace + ".example", "version": "1.1.0"}}
		}
	})
	r.MustRun(op, err)
	assertWritesFollowDependencies(r, "upgrade", chart, start)
	start = time.Now()
	r.MustRun(r.Rollback(1))
	assertWritesFollowDependencies(r, "rollback", chart, start)
	if got, want := r.History(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// assertUninstalledInReverse checks that a group is deleted only after all groups that depend
// on it, and that no object is left (R31).
func assertUninstalledInReverse(r *rig.Rig, chart string) {
	t := r.T
	t.Helper()
	tl := r.Timeline("lockstep") // before the uninstall removes the chart's kinds
	start := time.Now()
	r.MustRun(r.Uninstall())
	tl.Events = r.Audit()
	tl = tl.Since(start)
	groups := rig.ExpectedPlan(t, chart, r.Namespace)
	for id, g := range groups {
		last, name := tl.LastDelete(t, g.Objects)
		for _, dependency := range g.Dependencies {
			first, by := tl.FirstDelete(t, groups[dependency].Objects)
			if !first.IsZero() && first.Before(last) {
				t.Errorf("%s of %s was deleted at %s, before %s of %s was at %s", by, dependency, rig.Clock(first), name, id, rig.Clock(last))
			}
		}
	}
	if st := r.Status(); st != "" {
		t.Errorf("the release still exists: %s", st)
	}
	if left := r.Labelled(); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
}

// independentGroups returns two groups with Deployments that do not wait for each other, directly or indirectly.
func independentGroups(t *testing.T, chart string) [2]string {
	groups := rig.ExpectedPlan(t, chart, "default")
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(groups[from].Dependencies, func(g string) bool { return g == to || reaches(g, to) })
	}
	var ids []string
	for id, g := range groups {
		if slices.ContainsFunc(g.Objects, func(o string) bool { return strings.HasPrefix(o, "Deployment/") }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, a := range ids {
		for _, b := range ids {
			if a != b && !reaches(a, b) && !reaches(b, a) {
				return [2]string{a, b}
			}
		}
	}
	t.Fatalf("no independent groups in %s", chart)
	return [2]string{}
}

// notInstallable are the charts that fail by design.
var notInstallable = []string{"fail-hook", "fail-image", "fail-readiness"}

// installable returns the charts of testdata that can be installed.
func installable(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(rig.ChartsDir, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no charts", err)
	}
	for i, dir := range dirs {
		dirs[i] = filepath.Base(dir)
	}
	return slices.DeleteFunc(dirs, func(name string) bool { return slices.Contains(notInstallable, name) })
}

// assertWritesFollowDependencies checks that since a time the first write of every group of a chart is
// after the last write of each of its dependencies.
func assertWritesFollowDependencies(r *rig.Rig, what, chart string, since time.Time) {
	t := r.T
	t.Helper()
	tl, groups := r.Timeline("lockstep").Since(since), rig.ExpectedPlan(t, chart, r.Namespace)
	compared, dependencies := 0, 0
	for id, g := range groups {
		first, name := tl.FirstWriteIfAny(t, g.Objects)
		dependencies += len(g.Dependencies)
		for _, dependency := range g.Dependencies {
			last, by := tl.LastWriteIfAny(t, groups[dependency].Objects)
			if first.IsZero() || last.IsZero() {
				continue
			}
			compared++
			if first.Before(last) {
				t.Errorf("%s: %s of %s was written at %s, before %s of %s at %s", what, name, id, rig.Clock(first), by, dependency, rig.Clock(last))
			}
		}
	}
	if compared == 0 && dependencies > 0 {
		t.Errorf("%s: no writes were compared", what)
	}
}
