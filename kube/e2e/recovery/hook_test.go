package recovery

import (
	"cmp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestHookLeftByAKilledRun: what a hook without before-hook-creation has left in a run that was killed is treated like that of a run
// that failed (R52, R22): the same command continues with it, unless it has failed, the hook is another one, or client-side apply
// would create it again, which the API server refuses. So does an uninstall, but only if an uninstall was killed.
func TestHookLeftByAKilledRun(t *testing.T) {
	t.Parallel()
	const exists = "Job/h already exists"
	hook := func(policy string) map[string]string {
		return map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,pre-delete", "helm.sh/hook-delete-policy": policy}
	}
	good, deletesGood := rig.Job("h", hook("hook-failed"), "10ms"), rig.Job("h", hook("hook-failed,hook-succeeded"), "10ms")
	fails := strings.Replace(rig.FailingJob(hook("hook-succeeded")), "name: fails", "name: h", 1)
	for name, c := range map[string]struct {
		hook       string
		killed     string // the operation
		next       string // the operation after it
		nextHook   string
		clientSide bool
		continues  bool
	}{
		"install":           {hook: good, killed: "install", next: "install", continues: true},
		"upgrade --install": {hook: good, killed: "upgrade --install", next: "install", continues: true},
		"changed hook":      {hook: good, killed: "install", next: "install", nextHook: rig.Job("h", hook("hook-failed"), "20ms")},
		"failed Job":        {hook: fails, killed: "install", next: "install"},
		"client-side":       {hook: good, killed: "install", next: "install", clientSide: true},
		"uninstall":         {hook: deletesGood, killed: "uninstall", next: "uninstall", continues: true},
		"other operation":   {hook: good, killed: "install", next: "uninstall"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			use := func(hook string) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), hook), func(d *kube.Deploy) {
					if c.clientSide {
						d.ServerSide = "false"
					}
				})
			}
			writes := int64(4) // of the Lease, the record twice, and the hook
			if c.killed == "uninstall" {
				r.Deploy("plain", use(c.hook))
				writes = 3 // of the record only once
			}
			child := childOperation{Operation: c.killed, Chart: rig.DirOf(t, rig.ConfigMap("a", nil), c.hook), Namespace: r.Namespace, Locks: rig.LockDir(), ClientSide: c.clientSide}
			if !kill(r, child, writes) {
				t.Fatal("not killed")
			}
			r.Eventually("the Job ends", func() bool {
				job, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), "h", metav1.GetOptions{})
				return err == nil && job.Status.Succeeded+job.Status.Failed > 0
			})
			start := time.Now()
			op, err := r.Prepare(c.next, use(cmp.Or(c.nextHook, c.hook)))
			if !c.continues {
				r.MustRefuse(start, err, exists)
				return
			}
			if out := r.MustRun(op, err); !out.HasWarning("", exists, "does not run it again") {
				t.Errorf("warnings %v", out.State.Warnings)
			}
		})
	}
}
