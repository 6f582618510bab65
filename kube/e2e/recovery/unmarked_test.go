package recovery

import (
	"net/http"
	"strings"
	"testing"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// TestRevisionThatCouldNotBeMarked (R34): the API server refuses to mark a failed revision until the rollback has started. It is marked
// after the rollback, so no revision stays pending; if that fails, too, the outcome names it.
func TestRevisionThatCouldNotBeMarked(t *testing.T) {
	for name, always := range map[string]bool{"until the rollback": false, "always": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "v: one")), nil)))
			started := false
			r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
				started = started || req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/secrets") && len(r.Revisions()) == 2
				if req.Method == http.MethodGet || !strings.HasSuffix(req.URL.Path, "/sh.helm.release.v1.t.v2") || started && !always {
					return false
				}
				faultproxy.Refuse(w, http.StatusForbidden, "Forbidden", "not now")
				return true
			}}, "")
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "v: two"),
				rig.Job("broken", rig.Group("b", "a"), "10ms, sandbox/exit-code: \"1\"", "  backoffLimit: 0")), func(u *kube.Deploy) { u.RollbackOnFailure, u.WaitForJobs = true, kube.AllJobs }))
			if err != nil {
				t.Fatal(err)
			}
			out := r.Run(op, nil)
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") || r.ConfigMapData("a")["v"] != "one" {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			if always {
				if !strings.Contains(out.State.Message, "revision 2 ") || !strings.Contains(out.State.Message, "not now") {
					t.Errorf("the message does not name revision 2: %s", out.State.Message)
				}
				return
			}
			r.AssertHistory("1 superseded", "2 failed", "3 deployed")
		})
	}
}
