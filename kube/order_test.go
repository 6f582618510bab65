package kube

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

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

// notInstallable are the charts that are made to fail.
var notInstallable = []string{"fail-hook", "fail-image", "fail-readiness"}

// installable names the charts of testdata that install.
func installable(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(chartsDir, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no charts", err)
	}
	var names []string
	for _, dir := range dirs {
		if name := filepath.Base(dir); !slices.Contains(notInstallable, name) {
			names = append(names, name)
		}
	}
	return names
}

// TestOrderOfEveryChart installs every chart and proves the order from the API
// server's audit log: no write of a group before the last status update that
// made its gates ready (R7, R10, R11, R14, R18, R19, R21 to R23).
func TestOrderOfEveryChart(t *testing.T) {
	t.Parallel()
	for _, chart := range installable(t) {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			timeline := r.timeline("lockstep")
			groups := oracle(t, chart, r.namespace)
			for id, g := range groups {
				first, firstName := timeline.firstWrite(t, g.objects)
				for _, gate := range g.gates {
					ready, name := timeline.ready(t, groups[gate].objects)
					if first.Before(ready) {
						t.Errorf("%s: %s was written at %s, before %s of %s was ready at %s",
							id, firstName, clock(first), name, gate, clock(ready))
					}
				}
			}
			r.assertDeployed("t")
			if t.Failed() {
				timeline.dump(t)
			}
		})
	}
}

// TestIndependentGroupsOverlap proves R14 from the audit log: groups without a
// path between them are under way at the same time.
func TestIndependentGroupsOverlap(t *testing.T) {
	t.Parallel()
	for chart, pair := range map[string][2]string{
		"fanout": independentGroups(t, "fanout"),
		"shop":   {"shop/db:database", "shop/queue:broker"},
	} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			timeline, groups := r.timeline("lockstep"), oracle(t, chart, r.namespace)
			a, b := groups[pair[0]], groups[pair[1]]
			aFirst, _ := timeline.firstWrite(t, a.objects)
			bFirst, _ := timeline.firstWrite(t, b.objects)
			aReady, _ := timeline.ready(t, a.objects)
			bReady, _ := timeline.ready(t, b.objects)
			if !aFirst.Before(bReady) || !bFirst.Before(aReady) {
				t.Errorf("%s (%s to %s) and %s (%s to %s) did not overlap", pair[0], clock(aFirst), clock(aReady), pair[1], clock(bFirst), clock(bReady))
			}
		})
	}
}

// independentGroups finds two groups of the oracle that do not wait for each
// other, directly or not.
func independentGroups(t *testing.T, chart string) [2]string {
	groups := oracle(t, chart, "default")
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(groups[from].gates, func(g string) bool { return g == to || reaches(g, to) })
	}
	var ids []string
	for id, g := range groups {
		if slices.ContainsFunc(g.objects, func(o string) bool { return strings.HasPrefix(o, "Deployment/") }) {
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
