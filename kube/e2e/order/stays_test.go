package order

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// crashing returns a Deployment without a probe whose container runs for a while and then crashes, each time.
func crashing(runs string, annotations map[string]string) string {
	return strings.Replace(rig.Deployment("web", annotations, "0s"), "sandbox/ready-delay: 0s",
		`sandbox/run-duration: `+runs+`, sandbox/exit-code: "3", sandbox/log: "FATAL: relation users does not exist"`, 1)
}

// TestCrashAfterReady: a Deployment without a probe is ready as soon as its container starts, and what needs it starts at once.
// The outcome waits until it has settled, so a crash soon afterwards is never a success (R22c).
func TestCrashAfterReady(t *testing.T) {
	t.Parallel()
	healthy := rig.Deployment("web", rig.Group("a"), "0s")
	controller := crashing("3s", rig.Group("a"))
	controller = strings.NewReplacer("apps/v1", "v1", "kind: Deployment", "kind: ReplicationController", "selector: {matchLabels: {app: web}}", "replicas: 1").Replace(controller)
	cases := []struct {
		name, web string
		settle    time.Duration
		exit      int
	}{
		{"after 1s", crashing("1s", rig.Group("a")), 5 * time.Second, 1},
		{"after 3s", crashing("3s", rig.Group("a")), 5 * time.Second, 1},
		{"of a ReplicationController", controller, 5 * time.Second, 1},
		{"after 8s", crashing("8s", rig.Group("a")), 10 * time.Second, 1},
		{"healthy", healthy, 2 * time.Second, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, c.web, rig.ConfigMap("last", rig.Group("b", "a"))), func(i *kube.Deploy) {
				i.Settle, i.ReadinessTimeout = c.settle, 20*time.Second
			}))
			if err != nil {
				t.Fatal(err)
			}
			out := r.Run(op, nil)
			settling := slices.IndexFunc(out.Events, func(e event.Event) bool { return e.Kind == event.KindWaiting && e.ReadyBy == event.BySettling })
			gate := slices.IndexFunc(out.Events, func(e event.Event) bool {
				return e.Kind == event.KindGroup && e.Group == "edge:b" && e.Status == event.Ready
			})
			if settling >= 0 && gate > settling { // on a slow machine, it may have crashed or settled before
				t.Errorf("the gate opened with event %d, the run settled with event %d", gate, settling)
			}
			if s := out.State; s.Exit != c.exit || c.exit == 1 && (r.Status() != "failed" || !strings.Contains(phrase.Reason(&s), "FATAL: relation users does not exist")) {
				t.Errorf("exit %d, the release is %s: %s", s.Exit, r.Status(), phrase.Reason(&s))
			}
			if c.exit != 0 {
				return
			}
			pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(pods.Items) != 1 {
				t.Fatal(err, len(pods.Items))
			}
			if ran := out.State.Ended.Sub(pods.Items[0].Status.ContainerStatuses[0].State.Running.StartedAt.Time); ran < c.settle {
				t.Errorf("it ended when the container had run for %s", ran)
			}
			if by := out.State.Find("apply", "edge:a").Objects[0].ReadyBy; settling >= 0 && by != event.BySettling {
				t.Errorf("ready by %q, want settled", by)
			}
			// The containers of an unchanged workload started long ago, and nothing else is waited for.
			out = r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, c.web, rig.ConfigMap("last", rig.Group("b", "a"), "version: two")), func(u *kube.Deploy) { u.Settle = c.settle })))
			if slices.ContainsFunc(out.Events, func(e event.Event) bool { return e.ReadyBy == event.BySettling }) {
				t.Error("the upgrade waited for a workload that it did not change")
			}
		})
	}
}

// TestCrashWithoutAWatch: if the watch of pods delivers nothing, as behind a proxy that buffers or under load, a crash is no
// success either: the pods are looked at before the outcome (R22c).
func TestCrashWithoutAWatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		web  string
		exit int
	}{"crashes": {crashing("1s", nil), 1}, "healthy": {rig.Deployment("web", nil, "0s"), 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, req *http.Request) bool {
				silent := strings.HasSuffix(req.URL.Path, "/pods") && req.URL.Query().Get("watch") != ""
				if silent {
					<-req.Context().Done()
				}
				return silent
			}}, "")
			op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, c.web), func(i *kube.Deploy) { i.Settle, i.ReadinessTimeout = 5*time.Second, 20*time.Second })))
			if s := r.Run(op, nil).State; s.Exit != c.exit {
				t.Errorf("exit %d, want %d: %s", s.Exit, c.exit, phrase.Reason(&s))
			}
		})
	}
}

// stallable is the body of a response that delivers nothing more once stalled is closed.
type stallable struct {
	io.ReadCloser
	ctx     context.Context
	stalled chan struct{}
}

func (b stallable) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.stalled:
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	default:
		return n, err
	}
}

// stallDeployments connects the rig so that its watches of Deployments deliver nothing more once stall is called.
func stallDeployments(r *rig.Rig) (stall func()) {
	stalled := make(chan struct{})
	r.Client = r.ConnectThrough(rig.Interceptor{ModifyResponse: func(resp *http.Response) error {
		if q := resp.Request.URL; q.Query().Has("watch") && strings.HasSuffix(q.Path, "/deployments") {
			resp.Body = stallable{resp.Body, resp.Request.Context(), stalled}
		}
		return nil
	}}, "")
	return sync.OnceFunc(func() { close(stalled) })
}

// TestUnreadyBehindItsStatus: a pod is no longer ready, but the status of its Deployment, as far as the run has seen it, still
// says that all are. The pods themselves are asked before the outcome, also without a time to settle (R22c).
func TestUnreadyBehindItsStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		web    string
		settle time.Duration
		exit   int
	}{
		"settles": {strings.Replace(rig.Deployment("web", nil, "0s"), "sandbox/ready-delay: 0s", "sandbox/unready-after: 3s", 1), 5 * time.Second, 1},
		"no time": {strings.Replace(rig.Deployment("web", nil, "0s"), "sandbox/ready-delay: 0s", "sandbox/unready-after: 3s", 1), 0, 1},
		"healthy": {rig.Deployment("web", nil, "0s"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			stall := stallDeployments(r)
			hook := rig.Job("last", map[string]string{"helm.sh/hook": "post-install"}, "5s")
			op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, c.web, hook), func(i *kube.Deploy) { i.Settle, i.ReadinessTimeout = c.settle, 20*time.Second })))
			s := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Object.Kind == "Deployment" && e.Status == event.Ready {
					stall()
				}
			}).State
			if s.Exit != c.exit || c.exit == 1 && !strings.Contains(phrase.Reason(&s), "Deployment/web") {
				t.Errorf("exit %d, want %d: %s", s.Exit, c.exit, phrase.Reason(&s))
			}
		})
	}
}

// TestPodGoneBehindItsStatus: the pod of a Deployment is deleted before the outcome and cannot be created again, but the status of
// the Deployment, as far as the run has seen it, still says that it is ready. A pod that is missing is not ready (R22c).
func TestPodGoneBehindItsStatus(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	stall := stallDeployments(r)
	hook := rig.ConfigMap("last", map[string]string{"helm.sh/hook": "post-install"})
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("web", nil, "0s"), hook), func(i *kube.Deploy) {
		i.ReadinessTimeout, i.BreakOn = 20*time.Second, []string{"last"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	pods, none := r.Cluster.CoreV1().Pods(r.Namespace), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	var once sync.Once
	s := r.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Paused {
			return
		}
		once.Do(func() {
			stall()
			policy := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
			if _, err := r.Cluster.CoreV1().Namespaces().Patch(t.Context(), r.Namespace, types.MergePatchType, policy, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			r.Eventually("the pod is gone", func() bool {
				list, err := pods.List(t.Context(), metav1.ListOptions{})
				return err == nil && len(list.Items) == 0 || pods.DeleteCollection(t.Context(), none, metav1.ListOptions{}) != nil
			})
			op.Command(event.Command{Name: event.Resume})
		})
	}).State
	if s.Exit != 1 || !strings.Contains(phrase.Reason(&s), "Deployment/web: no pods can be created") {
		t.Errorf("exit %d: %s", s.Exit, phrase.Reason(&s))
	}
}

// TestPodDeletedWhileSettling: the pod of a Deployment is deleted while the run waits until it has settled. The outcome waits
// for the next pod, and until that has settled (R22c).
func TestPodDeletedWhileSettling(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const settle = 5 * time.Second
	web := strings.Replace(rig.Deployment("web", nil, "0s"), "sandbox/ready-delay: 0s", "sandbox/start-delay: 1s", 1)
	op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, web), func(i *kube.Deploy) { i.Settle = settle })))
	var once sync.Once
	out := r.Run(op, func(e event.Event) {
		if e.ReadyBy == event.BySettling {
			once.Do(func() {
				if err := r.Cluster.CoreV1().Pods(r.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 || pods.Items[0].Status.ContainerStatuses[0].State.Running == nil {
		t.Fatalf("%v: the pods do not run: %v", err, pods)
	}
	if ran := out.State.Ended.Sub(pods.Items[0].Status.ContainerStatuses[0].State.Running.StartedAt.Time); ran < settle {
		t.Errorf("it ended when the container had run for %s", ran)
	}
}
