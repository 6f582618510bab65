package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaitStrategies deploys by every strategy of R27: watcher waits for all of
// it, with --wait-for-jobs for the end of Jobs too, hookOnly for nothing.
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
		t.Run(fmt.Sprintf("%s jobs %v", tt.wait, tt.jobs), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			takes := "1h" // what is waited for would not come to an end
			if tt.waits {
				takes = "1500ms"
			}
			workload, duration := deployment("slow", nil, takes), "1h"
			if tt.jobs {
				workload, duration = deployment("slow", nil, "0s"), takes
			}
			op, err := r.install("plain", use(one(t, workload, deployment("paused", nil, "0s", "  paused: true"), job("work", nil, duration), configMap("a", nil)),
				func(i *Install) { i.Wait, i.WaitForJobs = tt.wait, tt.jobs }))
			out := r.mustRun(op, err)
			if tt.waits {
				r.assertOver(tt.jobs)
			}
			if n := len(out.state.Phases[0].Groups); n != 1 {
				t.Errorf("%d groups, want one", n)
			}
			if got := r.status(); got != rcommon.StatusDeployed {
				t.Errorf("the release is %s", got)
			}
		})
	}
}

// assertOver looks whether the Deployment is there in full, and the Job complete.
func (r *rig) assertOver(job bool) {
	r.t.Helper()
	d, err := r.cluster.AppsV1().Deployments(r.namespace).Get(r.t.Context(), "slow", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas == 0 {
		r.t.Errorf("it did not wait for the Deployment: %v, %v", d.Status, err)
	}
	if j, err := r.cluster.BatchV1().Jobs(r.namespace).Get(r.t.Context(), "work", metav1.GetOptions{}); err != nil || job && j.Status.Succeeded == 0 {
		r.t.Errorf("it did not wait for the Job: %v, %v", j.Status, err)
	}
}

// TestHookOnlyWithRollback waits for what is deployed although --wait=hookOnly
// would not: otherwise no failure would be seen to roll back from. Helm does
// the same (R27, R33).
func TestHookOnlyWithRollback(t *testing.T) {
	t.Parallel()
	broken := strings.ReplaceAll(deployment("broken", group("a"), "0s"), "example/app:1.0", "example/no-such-image:1")
	after := configMap("after", group("b", "a"))
	fail := func(c *Common) { c.Wait, c.RollbackOnFailure, c.Timeout = "hookOnly", true, 8*time.Second }
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		op, err := r.install("plain", use(one(t, broken, after), func(i *Install) { fail(&i.Common) }))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.run(op, nil); out.state.Exit != 1 || !strings.Contains(out.state.Message, "Deployment/broken") {
			t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
		}
		if got := r.left(); len(got) > 0 || r.status() != "" {
			t.Errorf("left are %v, the release is %q", got, r.status())
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.deploy("plain", use(one(t, after), func(i *Install) { i.Wait = "hookOnly" }))
		op, err := r.upgrade("plain", useUp(one(t, broken, after), func(u *Upgrade) { fail(&u.Common) }))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.run(op, nil); out.state.Exit != 1 || !strings.Contains(out.state.Message, "back at revision 1") {
			t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
		}
		r.assertHistory("1 superseded", "2 failed", "3 deployed")
		if got := r.left(); !slices.Equal(got, []string{"ConfigMap/after"}) {
			t.Errorf("left are %v", got)
		}
	})
}
