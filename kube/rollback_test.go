package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// TestRollbackToUnsequenced goes back all at once to a revision that was not
// sequenced: by its wait strategy, or since Helm made it (R32).
func TestRollbackToUnsequenced(t *testing.T) {
	docs := []string{configMap("a", group("one")), configMap("b", group("two", "one"))}
	first := map[string]func(*rig){
		"hookOnly": func(r *rig) { r.deploy("plain", use(one(r.t, docs...), func(i *Install) { i.Wait = "hookOnly" })) },
		"helm": func(r *rig) {
			in := action.NewInstall(r.helm())
			in.ReleaseName, in.Namespace, in.WaitStrategy = "t", r.namespace, helmkube.HookOnlyStrategy
			plain := map[string]string{plan.AnnotationGroup: "one"}
			c, err := one(r.t, configMap("a", plain), configMap("b", map[string]string{plan.AnnotationGroup: "two"})).Helm()
			if err == nil {
				_, err = in.Run(c, nil)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		},
	}
	for name, install := range first {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			install(r)
			op, err := r.upgrade("plain", useUp(one(t, append(docs, configMap("c", group("three", "two")))...), nil))
			if out := r.mustRun(op, err); len(out.state.Phases[0].Groups) != 3 {
				t.Errorf("the upgrade has %d groups, want 3", len(out.state.Phases[0].Groups))
			}
			op, err = r.rollback(1)
			out := r.mustRun(op, err)
			if n, m := len(out.state.Phases[0].Groups), len(out.state.Phases[1].Groups); n != 1 || m != 1 {
				t.Errorf("the rollback applies %d groups and removes %d, want all at once, then c", n, m)
			}
			op, err = r.uninstall()
			if out := r.mustRun(op, err); len(out.state.Phases[0].Groups) != 1 {
				t.Errorf("what was not sequenced is removed in %d groups", len(out.state.Phases[0].Groups))
			}
		})
	}
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
				u.RollbackOnFailure, u.ReadinessTimeout = rollback, 8*time.Second
				u.Values = map[string]any{"image": "example/no-such-image:2"}
			})
			if err != nil {
				t.Fatal(err)
			}
			if op.Info().PreviousRevision != 1 {
				t.Errorf("it would go back to %d", op.Info().PreviousRevision)
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

// TestRollbackSendsTheSame rolls back to a revision that is the same as the
// current one: nothing changes, though a stored manifest spells annotations
// with one slash that an installation leaves out (R3).
func TestRollbackSendsTheSame(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hip0025-groups-complete", "hip9999-layers", "edge"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var c *charts.Chart
			if chart == "edge" { // the stored spelling in the chart itself
				c = one(t, configMap("a", group("a")), configMap("b", map[string]string{"helm.sh/resource-group": "b", "helm.sh/depends-on-resource-groups": `["a"]`}))
			} else {
				c = loadChart(t, chart)
			}
			r.deploy("plain", use(c, nil))
			r.mustRun(r.upgrade("plain", useUp(c, nil)))
			lines, diffs := r.changes(r.rollback(1))
			if len(lines) == 0 {
				t.Fatal("nothing is planned")
			}
			for _, l := range lines {
				if object := strings.Fields(l)[1]; !strings.HasSuffix(l, " unchanged") {
					t.Errorf("%s\n%s", l, diffs[object].Diff)
				}
			}
			r.mustRun(r.rollback(1))
		})
	}
}
