package lease

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// TestBesideHelm runs lockstep and Helm on one release at the same time. One runs; the other one changes nothing and
// reports why (R51).
func TestBesideHelm(t *testing.T) {
	t.Parallel()
	dir := rig.DirOf(t, rig.Deployment("slow", nil, "{{ .Values.delay }}"), rig.ConfigMap("helms", nil))
	t.Run("helm comes second", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op, err := r.Install("plain", slowChart(t, "1h"))
		out := runUntilApplied(r, op, err, "slow", func() {
			if said, err := r.RunHelm("upgrade", "--install", "t", dir, "--set", "delay=1s"); err == nil {
				t.Errorf("helm succeeded: %s", said)
			}
			op.Command(event.Command{Name: event.Abort})
		})
		if out.State.Exit != 3 {
			t.Errorf("exit %d: %v", out.State.Exit, out.Err)
		}
		r.AssertHistory("1 failed")
		if got := r.ConfigMaps(r.Namespace); len(got) > 0 {
			t.Errorf("helm created %v", got)
		}
	})
	t.Run("helm comes first", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.MustHelm("install", "t", dir, "--set", "delay=1s")
		ops := map[string]*kube.Operation{}
		for name, prepare := range map[string]func() (*kube.Operation, error){
			"upgrade": func() (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("ours", nil)), nil))
			},
			"uninstall": r.Uninstall,
		} {
			var err error
			if ops[name], err = prepare(); err != nil {
				t.Fatal(err)
			}
		}
		over := make(chan error, 1)
		go func() {
			_, err := r.RunHelm("upgrade", "t", dir, "--set", "delay=2s", "--wait")
			over <- err
		}()
		for len(r.History()) < 2 && len(over) == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		for name, op := range ops {
			out := r.Run(op, nil)
			if out.State.Exit != 2 || !strings.Contains(out.State.Message, "revision 2, ") || !strings.Contains(out.State.Message, "in the meantime") && !strings.Contains(out.State.Message, "changed since planning") {
				t.Errorf("%s: exit %d: %s", name, out.State.Exit, out.State.Message)
			}
		}
		if err := <-over; err != nil {
			t.Errorf("helm: %v", err)
		}
		r.AssertHistory("1 superseded", "2 deployed")
	})
}

// TestHelmRollsBackMeanwhile: helm rollback does not check whether the release is pending, so it succeeds during an upgrade.
// The upgrade then overwrites none of its records, not even with a rollback on failure (R51a).
func TestHelmRollsBackMeanwhile(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("before", nil)), nil))
	chart := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1h"), rig.ConfigMap("after", rig.Group("b", "a")))
	op, err := r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.ReadinessTimeout, u.RollbackOnFailure = 8*time.Second, true }))
	out := runUntilApplied(r, op, err, "slow", func() { r.MustHelm("rollback", "t", "1") })
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "another run or Helm changed release t in namespace "+r.Namespace+": revision ") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.AssertHistory("1 superseded", "2 pending-upgrade", "3 deployed")
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"before"}) {
		t.Errorf("remaining: %v, want those of revision 1", got)
	}
}

// TestHelmUninstallsMeanwhile: Helm uninstalls the release while a run waits for an object. The run ends at once and says so, instead of
// waiting for the object (R51b).
func TestHelmUninstallsMeanwhile(t *testing.T) {
	t.Parallel()
	slow := rig.Deployment("slow", nil, "1h")
	for name, prepare := range map[string]func(r *rig.Rig) (*kube.Operation, error){
		"upgrade": func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, slow, rig.ConfigMap("more", nil)), nil))
		},
		"repair": func(r *rig.Rig) (*kube.Operation, error) {
			if err := r.Cluster.AppsV1().Deployments(r.Namespace).Delete(r.T.Context(), "slow", metav1.DeleteOptions{}); err != nil {
				r.T.Fatal(err)
			}
			return r.Client.PrepareRepair(r.T.Context(), kube.Repair{Common: r.Common()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.MustHelm("install", "t", rig.DirOf(t, slow))
			op, err := prepare(r)
			out := runUntilApplied(r, op, err, "slow", func() {
				go func() {
					time.Sleep(90 * time.Second) // much longer than an uninstall takes
					op.Command(event.Command{Name: event.Abort})
				}()
				r.MustHelm("uninstall", "t")
			})
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, "another run or Helm changed release t in namespace "+r.Namespace) {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			if left := r.Labelled(); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestHelmWritesFirst has Helm create a revision after a run has checked the release, before the run's first write. The
// run writes nothing and exits with code 2 (R51, R51a).
func TestHelmWritesFirst(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dir := rig.DirOf(t, rig.ConfigMap("helms", nil))
	r.MustHelm("install", "t", dir)
	var locked atomic.Bool
	var once sync.Once
	front, err := faultproxy.New(faultproxy.Options{Kubeconfig: rig.Sandbox.Kubeconfig, Intercept: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if strings.HasSuffix(q.URL.Path, "/leases") && q.Method == http.MethodPost {
			locked.Store(true)
		}
		if !locked.Load() || q.Method != http.MethodGet || !strings.Contains(q.URL.Path, "/secrets") {
			next.ServeHTTP(w, q)
			return
		}
		response := httptest.NewRecorder()
		next.ServeHTTP(response, q)
		once.Do(func() { r.MustHelm("upgrade", "t", dir) })
		maps.Copy(w.Header(), response.Header())
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes()) // a failed write fails the client's request
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := front.WriteKubeconfig(kubeconfig, r.Namespace); err != nil {
		t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = kubeconfig
	settings.SetNamespace(r.Namespace)
	if r.Client, err = kube.Connect(settings, nil, nil); err != nil {
		t.Fatal(err)
	}
	out := r.Run(r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("ours", nil)), nil))), nil)
	if m := out.State.Message; out.State.Exit != 2 || !strings.HasPrefix(m, "nothing was written: ") || !strings.Contains(m, "revision 2 ") { // which may still have been pending
		t.Errorf("exit %d: %s", out.State.Exit, m)
	}
	r.AssertHistory("1 superseded", "2 deployed")
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"helms"}) {
		t.Errorf("ConfigMaps %v", got)
	}
}

// TestHelmTakesTheRelease: Helm creates a revision while a run waits, which Helm does even if the release is pending or
// uninstalling. Whatever the run would do next, it writes nothing more to the release: it applies no further group, removes
// nothing, marks nothing, rolls nothing back and uninstalls nothing, and it names Helm's revision (R51b).
func TestHelmTakesTheRelease(t *testing.T) {
	t.Parallel()
	before := rig.ConfigMap("before", nil)
	gated := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1s"), rig.ConfigMap("after", rig.Group("b", "a")))
	never := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1h"), rig.ConfigMap("after", rig.Group("b", "a")))
	upgrade := func(c *charts.Chart, rollback bool) func(*rig.Rig) (*kube.Operation, error) {
		return func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(c, func(u *kube.Deploy) { u.RollbackOnFailure = rollback }))
		}
	}
	tests := map[string]struct {
		chart   []string // of revision 1, which is Helm's
		prepare func(*rig.Rig) (*kube.Operation, error)
		then    event.CommandName // after Helm has created its revision
		history []string
	}{
		"next group":        {[]string{before}, upgrade(gated, false), event.Resume, []string{"1 superseded", "2 pending-upgrade", "3 deployed"}},
		"removal":           {[]string{before}, upgrade(rig.ChartOf(t, rig.Deployment("slow", nil, "1s")), false), event.Resume, []string{"1 superseded", "2 pending-upgrade", "3 deployed"}},
		"mark failed":       {[]string{before}, upgrade(never, false), event.Abort, []string{"1 superseded", "2 pending-upgrade", "3 deployed"}},
		"abort by rollback": {[]string{before}, upgrade(never, false), event.Rollback, []string{"1 superseded", "2 pending-upgrade", "3 deployed"}},
		"uninstall": {[]string{before, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slow, finalizers: [example.com/hold]}"}, (*rig.Rig).Uninstall, event.Resume,
			[]string{"1 uninstalling", "2 deployed"}},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.MustHelm("install", "t", rig.DirOf(t, x.chart...))
			op := r.Must(x.prepare(r))
			start, once := time.Now(), sync.Once{}
			out := r.Run(op, func(e event.Event) {
				if e.Kind != event.KindObject || e.Object.Name != "slow" || e.Change == "" {
					return
				}
				once.Do(func() {
					op.Command(event.Command{Name: event.Pause})
					r.MustHelm("rollback", "t", "1")
					op.Command(event.Command{Name: x.then})
					if name == "uninstall" {
						r.PatchConfigMap("slow", `{"metadata":{"finalizers":null}}`)
					}
				})
			})
			newer := out.State.Newer
			if out.State.Exit != 1 || newer == nil || newer.Author != "helm" || !strings.Contains(out.State.Message, " by helm") {
				t.Errorf("exit %d, newer %v: %s", out.State.Exit, newer, out.State.Message)
			}
			r.AssertHistory(x.history...)
			if got := r.ConfigMaps(r.Namespace); !slices.Contains(got, "before") || slices.Contains(got, "after") {
				t.Errorf("ConfigMaps %v", got)
			}
			taken := time.Time{}
			for _, e := range r.Audit() {
				ours := e.UserAgent == "lockstep"
				switch {
				case !e.Received.After(start) || e.Object.Namespace != r.Namespace || e.Object.Resource == "leases" || !e.Succeeded():
				case !ours && e.Verb == "create" && strings.HasPrefix(e.Object.Name, "sh.helm.release.v1.t."):
					taken = e.At
				case ours && !taken.IsZero() && e.Received.After(taken):
					t.Errorf("after Helm's revision the run wrote %s %s/%s", e.Verb, e.Object.Resource, e.Object.Name)
				}
			}
		})
	}
}
