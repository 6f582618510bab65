package recovery

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestUnreadableReleaseName: without permission to list Secrets, an install is refused, because the name may be in use (R28).
func TestUnreadableReleaseName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
	r.MustRun(r.Install("plain", rig.UseChart(chart, nil)))
	for range 2 {
		r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.HistoryMax = 2 })))
	}
	r.AssertHistory("2 superseded", "3 deployed") // revision 1, which an install would create, was pruned
	blind := r.WithClient(r.ConnectAs("blind", rig.Rule("", "configmaps", "*"), rig.Rule("", "secrets", "get", "create", "update", "delete", "watch")))
	op, err := blind.Install("plain", rig.UseChart(chart, nil))
	if err == nil {
		out := r.Run(op, nil)
		t.Errorf("the install was not refused: exit %d", out.State.Exit)
	} else if !strings.Contains(err.Error(), "secrets [list]") {
		t.Errorf("error %v", err)
	}
	r.AssertHistory("2 superseded", "3 deployed")
}

// TestRecordWriteFails fails each write of a release record once: the write itself, or only its response. The record is
// stored in the end, and there are never two deployed revisions (R32a, R34, R53).
func TestRecordWriteFails(t *testing.T) {
	t.Parallel()
	for i, operation := range []string{"install", "upgrade", "rollback", "uninstall", "uninstall --keep-history"} {
		for _, lost := range []bool{false, true} {
			if !rig.Long && lost != (i%2 == 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s-%v", strings.ReplaceAll(operation, " --", "-"), lost), func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				for n := int32(1); ; n++ {
					if n > 12 {
						t.Fatal("more than 12 writes")
					}
					if !failWrite(r, operation, n, lost) {
						if n < 2 {
							t.Error("no write was seen")
						}
						return
					}
				}
			})
		}
	}
}

// failWrite runs an operation whose n-th write to a release Secret fails, and reports whether
// there was one. The release is uninstalled afterwards.
func failWrite(r *rig.Rig, operation string, n int32, lost bool) bool {
	t := r.T
	t.Helper()
	var seen atomic.Int32
	var failed atomic.Bool
	hit := func(req *http.Request) bool {
		if req.Method == http.MethodGet || !strings.Contains(req.URL.Path, "/secrets") || seen.Add(1) != n {
			return false
		}
		failed.Store(true)
		return true
	}
	m := rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool { return hit(req) && rig.InternalError(w) }}
	if lost {
		m = rig.Interceptor{ModifyResponse: func(response *http.Response) error {
			if hit(response.Request) {
				return errors.New("the response is lost")
			}
			return nil
		}}
	}
	one, two := rig.ChartOf(t, rig.ConfigMap("a", nil, "v: one")), rig.ChartOf(t, rig.ConfigMap("a", nil, "v: two"))
	if operation != "install" {
		r.MustRun(r.Install("plain", rig.UseChart(one, nil)))
	}
	if operation == "rollback" {
		r.MustRun(r.Upgrade("plain", rig.UseChart(two, nil)))
	}
	by := &rig.Rig{T: t, Namespace: r.Namespace, Client: r.ConnectThrough(m, ""), Cluster: r.Cluster}
	var op *kube.Operation
	var err error
	switch operation {
	case "install":
		op, err = by.Install("plain", rig.UseChart(one, nil))
	case "upgrade":
		op, err = by.Upgrade("plain", rig.UseChart(two, nil))
	case "rollback":
		op, err = by.Rollback(1)
	default:
		op, err = by.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace}, KeepHistory: operation != "uninstall"})
	}
	if err != nil {
		t.Fatal(err)
	}
	out := by.Run(op, nil)
	var history []string
	if r.Status() != "" {
		history = r.History()
	}
	what := fmt.Sprintf("%s, write %d: exit %d (%s), history %v", operation, n, out.State.Exit, out.State.Message, history)
	deployed := 0
	for _, line := range history {
		if strings.Contains(line, "pending-") || strings.HasSuffix(line, "uninstalling") {
			t.Errorf("%s: not a final state", what)
		}
		if strings.HasSuffix(line, " deployed") {
			deployed++
		}
	}
	last := ""
	if len(history) > 0 {
		_, last, _ = strings.Cut(history[len(history)-1], " ")
	}
	want := map[string]string{"uninstall": "", "uninstall --keep-history": "uninstalled"}
	final, ok := want[operation]
	if !ok {
		final = "deployed"
	}
	if deployed > 1 || out.State.Exit != 0 || last != final {
		t.Errorf("%s: want exit 0 and the final status %q", what, final)
	}
	if reported := out.State.Release; reported != last && !(last == "" && reported == event.NoRelease) && out.State.Exit != 2 {
		t.Errorf("%s: the run reports the release status %q", what, reported)
	}
	for range 2 {
		if r.Status() != "" {
			r.MustRun(r.Uninstall())
		}
	}
	if got := r.ConfigMaps(r.Namespace); slices.Contains(got, "a") {
		t.Errorf("%s: remaining: %v", what, got)
		_ = r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{})
	}
	return failed.Load()
}
