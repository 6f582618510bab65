package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestWaitStrategies deploys with every strategy of R27: watcher waits for all objects, with
// --wait-for-jobs also for complete Jobs, and hookOnly for none.
func TestWaitStrategies(t *testing.T) {
	tests := []struct {
		wait  string
		jobs  bool
		waits bool
	}{
		{"watcher", false, true}, {"true", false, true}, {"watcher", true, true}, {"legacy", false, true}, {"legacy", true, true},
		{"hookOnly", false, false}, {"none", true, false}, {"false", false, false}, {"ordered", false, true},
	}
	for _, tt := range tests {
		jobs := kube.AwaitedJobs
		if tt.jobs {
			jobs = kube.AllJobs
		}
		t.Run(fmt.Sprintf("%s jobs %v", tt.wait, tt.jobs), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			takes := "1h" // if the run waited, it would time out
			if tt.waits {
				takes = "1500ms"
			}
			workload, duration := rig.Deployment("slow", nil, takes), "1h"
			if tt.jobs {
				workload, duration = rig.Deployment("slow", nil, "0s"), takes
			}
			op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, workload, rig.Deployment("paused", nil, "0s", "  paused: true"), rig.Job("work", nil, duration), rig.ConfigMap("a", nil)),
				func(i *kube.Deploy) { i.Wait, i.WaitForJobs = tt.wait, jobs }))
			out := r.MustRun(op, err)
			if tt.waits {
				assertWaited(r, tt.jobs)
			}
			if n := len(out.State.Phases[0].Groups); n != 1 {
				t.Errorf("%d groups, want one", n)
			}
			if got := r.Status(); got != rcommon.StatusDeployed {
				t.Errorf("the release is %s", got)
			}
		})
	}
}

// assertWaited checks that the Deployment is available and, if job is set, the Job complete.
func assertWaited(r *rig.Rig, job bool) {
	r.T.Helper()
	d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(r.T.Context(), "slow", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas == 0 {
		r.T.Errorf("the run did not wait for the Deployment: %v, %v", d.Status, err)
	}
	if j, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(r.T.Context(), "work", metav1.GetOptions{}); err != nil || job && j.Status.Succeeded == 0 {
		r.T.Errorf("the run did not wait for the Job: %v, %v", j.Status, err)
	}
}

// TestHookOnlyWithRollback: with --rollback-on-failure the run waits in spite of
// --wait=hookOnly, as in Helm, because otherwise no failure would be detected (R27, R33).
func TestHookOnlyWithRollback(t *testing.T) {
	t.Parallel()
	broken := strings.ReplaceAll(rig.Deployment("broken", rig.Group("a"), "0s"), "example/app:1.0", "example/no-such-image:1")
	after := rig.ConfigMap("after", rig.Group("b", "a"))
	fail := func(c *kube.Common) {
		c.Wait, c.RollbackOnFailure, c.Timeout = "hookOnly", true, 15*time.Second
	}
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, broken, after), func(i *kube.Deploy) { fail(&i.Common) })))
		if out := r.Run(op, nil); out.State.Exit != 1 || !strings.Contains(out.State.Message, "Deployment/broken") {
			t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
		}
		if got := r.Remaining(); len(got) > 0 || r.Status() != "" {
			t.Errorf("remaining: %v, the release is %q", got, r.Status())
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, after), func(i *kube.Deploy) { i.Wait = "hookOnly" }))
		op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, broken, after), func(u *kube.Deploy) { fail(&u.Common) })))
		if out := r.Run(op, nil); out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") {
			t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
		}
		r.AssertHistory("1 superseded", "2 failed", "3 deployed")
		if got := r.Remaining(); !slices.Equal(got, []string{"ConfigMap/after"}) {
			t.Errorf("not removed: %v", got)
		}
	})
}
