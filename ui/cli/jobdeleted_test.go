package cli

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestAJobIsDeleted: deleting the Job of a run ends the run. The pod, which nothing replaces, aborts it (S13): the release is
// failed, its lock is gone, and everybody who is attached reads why. If it cannot, because it is killed at once, those who are
// attached are told what to do, and so are those who list the runs.
func TestAJobIsDeleted(t *testing.T) {
	limitedParallel(t)
	for name, killed := range map[string]bool{"job-deleted": false, "job-and-pod-deleted": true} {
		t.Run(name, func(t *testing.T) {
			client := inNamespace(t, name)
			m := newMachine(t)
			out, ends := m.startInCluster(name, "install", "s", filepath.Join(data, "charts", "fanout"), "--step")
			m.runUntil("ctl s status -n "+name, "paused")
			m.run(0, "ctl", "s", "step", "-n", name)
			out.await(t, "ready")
			deleteJob(t, client, name, killed)
			code, text := ends(), out.String()
			want, exit, outcome := "aborted: Job "+name+"/lockstep-s-", 3, "aborted"
			if killed {
				want, exit, outcome = "was deleted before the run ended, so release s may be pending: see what it left with: lockstep recover s -n "+name+"; then run the command again", 1, "failed"
			}
			if code != exit || !strings.Contains(text, want) || !strings.Contains(text, "was deleted") {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, exit, want, text)
			}
			if s := m.run(0, "runs", "-n", name); !strings.Contains(s, outcome) {
				t.Errorf("the runs are %s, want %s", s, outcome)
			}
			status := m.run(0, "status", "s", "-n", name)
			leases, err := client.CoordinationV1().Leases(name).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !killed && (len(leases.Items) > 0 || !strings.Contains(status, "failed: aborted")) {
				t.Errorf("left %v; status:\n%s", leases.Items, status)
			}
			if killed && !strings.Contains(status, "lockstep recover s") {
				t.Errorf("status does not say what to do:\n%s", status)
			}
		})
	}
}

// deleteJob deletes the only Job of a namespace. If killed is set, its pod has no time to notice.
func deleteJob(t *testing.T, client kubernetes.Interface, ns string, killed bool) {
	t.Helper()
	jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("Jobs %v, %v", jobs, err)
	}
	how := metav1.DeletePropagationBackground
	if killed {
		how = metav1.DeletePropagationOrphan
	}
	if err := client.BatchV1().Jobs(ns).Delete(t.Context(), jobs.Items[0].Name, metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		t.Fatal(err)
	}
	if !killed {
		return
	}
	pods := metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + jobs.Items[0].Name}
	if err := client.CoreV1().Pods(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, pods); err != nil {
		t.Fatal(err)
	}
}
