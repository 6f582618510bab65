package kube

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
)

// TestNameThatCannotBeLookedUp takes a release name for free only where the
// cluster says so: without the right to list Secrets nobody knows (R51).
func TestNameThatCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := one(t, configMap("a", nil))
	r.mustRun(r.install("plain", use(chart, nil)))
	for range 2 {
		r.mustRun(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.HistoryMax = 2 })))
	}
	r.assertHistory("2 superseded", "3 deployed") // the first revision, which an installation would make, is pruned
	blind := r.acting(r.as("blind", rule("", "configmaps", "*"), rule("", "secrets", "get", "create", "update", "delete", "watch")))
	op, err := blind.install("plain", use(chart, nil))
	if err == nil {
		out := r.run(op, nil)
		t.Errorf("it was installed: exit %d", out.state.Exit)
	} else if !strings.Contains(err.Error(), "secrets [list]") {
		t.Errorf("error %v", err)
	}
	r.assertHistory("2 superseded", "3 deployed")
}

// TestRecordThatCannotBeWritten makes each write of an operation to the
// release's record fail once, as if it had not come through and as if only the
// answer was lost: it is written all the same, and never are two revisions
// deployed (R32a, R34, R53).
func TestRecordThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"install", "upgrade", "rollback", "uninstall", "uninstall --keep-history"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-%v", strings.ReplaceAll(operation, " --", "-"), lost), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				for n := int32(1); ; n++ {
					if n > 12 {
						t.Fatal("it does not end")
					}
					if !r.failWrite(operation, n, lost) {
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

// failWrite runs an operation whose n-th write to a release Secret fails, and
// reports whether there was one. The release is gone afterwards.
func (r *rig) failWrite(operation string, n int32, lost bool) bool {
	t := r.t
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
	m := middle{meddle: func(w http.ResponseWriter, req *http.Request) bool { return hit(req) && broken(w) }}
	if lost {
		m = middle{amend: func(answer *http.Response) error {
			if hit(answer.Request) {
				return fmt.Errorf("the answer is lost")
			}
			return nil
		}}
	}
	one, two := one(t, configMap("a", nil, "v: one")), one(t, configMap("a", nil, "v: two"))
	if operation != "install" {
		r.mustRun(r.install("plain", use(one, nil)))
	}
	if operation == "rollback" {
		r.mustRun(r.upgrade("plain", useUp(two, nil)))
	}
	by := &rig{t: t, namespace: r.namespace, client: r.through(m, ""), cluster: r.cluster}
	var op *Operation
	var err error
	switch operation {
	case "install":
		op, err = by.install("plain", use(one, nil))
	case "upgrade":
		op, err = by.upgrade("plain", useUp(two, nil))
	case "rollback":
		op, err = by.rollback(1)
	default:
		op, err = by.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace}, KeepHistory: operation != "uninstall"})
	}
	if err != nil {
		t.Fatal(err)
	}
	out := by.run(op, nil)
	var history []string
	if r.status() != "" {
		history = r.history()
	}
	what := fmt.Sprintf("%s, write %d: exit %d (%s), history %v", operation, n, out.state.Exit, out.state.Message, history)
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
	if deployed > 1 || out.state.Exit != 0 || last != final {
		t.Errorf("%s: the record should say %q", what, final)
	}
	if said := out.state.Release; said != last && !(last == "" && said == event.NoRelease) && out.state.Exit != 2 {
		t.Errorf("%s: it says %q of the release", what, said)
	}
	for range 2 {
		if r.status() != "" {
			r.mustRun(r.uninstall())
		}
	}
	if got := r.configMaps(r.namespace); slices.Contains(got, "a") {
		t.Errorf("%s: left are %v", what, got)
		_ = r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{})
	}
	return failed.Load()
}
