package install

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRelabelledByPolicy: an admission policy replaces the value of Helm's label, as seen by the API server. As with Helm, the
// release can be installed, upgraded and uninstalled, and its objects are its own, because their annotations name it (R31a).
func TestRelabelledByPolicy(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Body == nil || req.Method == http.MethodGet {
			return false
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		body = bytes.ReplaceAll(body, []byte(`"app.kubernetes.io/managed-by":"Helm"`), []byte(`"app.kubernetes.io/managed-by":"acme"`))
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return false
	}}, "")
	chart := func(version string) func(*kube.Deploy) {
		return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("config", rig.Group("a"), "version: "+version), rig.Deployment("web", rig.Group("b", "a"), "0s")), func(d *kube.Deploy) { d.ReadinessTimeout = 30 * time.Second })
	}
	r.MustRun(r.Install("plain", chart("one")))
	if cm, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "config", metav1.GetOptions{}); err != nil || cm.Labels["app.kubernetes.io/managed-by"] != "acme" {
		t.Fatalf("%v: the label is %v", err, cm.Labels)
	}
	r.MustRun(r.Upgrade("plain", chart("two")))
	r.OpenView(0).Await("both groups are ready", func(s *event.State) bool {
		a, b := s.Find("apply", "edge:a"), s.Find("apply", "edge:b")
		return a != nil && b != nil && a.Status == event.Ready && b.Status == event.Ready
	})
	r.MustRun(r.Uninstall())
	if left := r.ConfigMaps(r.Namespace); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestRelabelledMeanwhile: somebody changes Helm's label of an object while the run waits for it. It is not deleted, and becomes
// ready as if nothing had happened; what is deleted is still said to be.
func TestRelabelledMeanwhile(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	slow := rig.Deployment("web", rig.Group("a"), "3s")
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, slow, rig.ConfigMap("last", rig.Group("b", "a"))), func(d *kube.Deploy) { d.ReadinessTimeout = 30 * time.Second }))
	var once sync.Once
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "web" && e.Status == event.InProgress {
			once.Do(func() {
				_, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"acme"}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
			})
		}
	})
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	v := r.OpenView(0)
	is := func(want event.Status) func(*event.State) bool {
		return func(s *event.State) bool {
			g := s.Find("apply", "edge:a")
			return g != nil && g.Status == want
		}
	}
	v.Await("a is ready", is(event.Ready))
	if err := r.Cluster.AppsV1().Deployments(r.Namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	v.Await("a is not ready", is(event.Failed))
}
