package recovery

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/e2e/rig"
)

// TestReportedReleaseStatus compares the release's status in the closing event of a failed
// operation with the one in Helm's record (R34).
func TestReportedReleaseStatus(t *testing.T) {
	t.Parallel()
	fails := func(event string) string {
		text := rig.Job("hook", map[string]string{"helm.sh/hook": event}, "100ms", "  backoffLimit: 0")
		return strings.Replace(text, "{sandbox/run-duration: 100ms}", `{sandbox/run-duration: 100ms, sandbox/exit-code: "1"}`, 1)
	}
	tests := map[string]struct{ says, release string }{
		"pre-install": {"the release is marked failed", "failed"}, "post-upgrade": {"the release is marked failed", "failed"},
		"pre-delete": {"the release is marked failed", "failed"}, "post-delete": {"the release no longer exists", event.NoRelease},
	}
	for when, tt := range tests {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := rig.ChartOf(t, rig.ConfigMap("a", nil), fails(when))
			op, err := r.Install("plain", rig.UseChart(chart, nil))
			if when != "pre-install" {
				r.MustRun(op, err)
				if op, err = r.Upgrade("plain", rig.UseChart(chart, nil)); strings.HasSuffix(when, "-delete") {
					op, err = r.Uninstall()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			out := r.Run(op, nil)
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, tt.says+":") || out.State.Release != tt.release {
				t.Errorf("exit %d, release %q: %s", out.State.Exit, out.State.Release, out.State.Message)
			}
			if got := r.Status(); string(got) != strings.Replace(tt.release, event.NoRelease, "", 1) {
				t.Errorf("the record says %q, want %q", got, tt.release)
			}
			// Helm's default delete policy keeps a failed hook, for its log.
			if _, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), "hook", metav1.GetOptions{}); err != nil {
				t.Errorf("the failed hook was deleted: %v", err)
			}
		})
	}
}
