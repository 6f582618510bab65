package recovery

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/e2e/rig"
)

// TestChangedMeanwhile: at the end of a run, what it has applied is still as it was and the release's (R21). What others have
// changed while the run waited for another group is a fact of the object; if an object is not the release's any more, or its namespace is
// being deleted, the run fails.
func TestChangedMeanwhile(t *testing.T) {
	patch := func(body string) func(*rig.Rig) {
		return func(r *rig.Rig) { r.PatchConfigMap("a", body) }
	}
	create := func(r *rig.Rig, name string, finalizers ...string) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, Data: map[string]string{"is": "other"}}
		if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Create(r.T.Context(), m, metav1.CreateOptions{}); err != nil {
			r.T.Error(err)
		}
	}
	tests := map[string]struct {
		do   func(*rig.Rig)
		want string // the changed field, or the reason of the failure
		exit int
	}{
		"nothing":       {do: func(*rig.Rig) {}},
		"added":         {do: patch(`{"data":{"more":"x"}}`)},
		"value changed": {patch(`{"data":{"is":"other"}}`), "data.is", 0},
		"taken over": {patch(`{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`),
			"ConfigMap/a belongs to release other in namespace ", event.ExitFailed},
		"taken over with the same spec": {func(r *rig.Rig) { // which its generation does not show
			other := []byte(`{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(r.T.Context(), "d", types.MergePatchType, other, metav1.PatchOptions{}); err != nil {
				r.T.Error(err)
			}
		}, "Deployment/d belongs to release other in namespace ", event.ExitFailed},
		"scaled": {func(r *rig.Rig) {
			scale := []byte(`{"spec":{"replicas":0}}`)
			if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(r.T.Context(), "d", types.MergePatchType, scale, metav1.PatchOptions{}, "scale"); err != nil {
				r.T.Error(err)
			}
		}, "spec.replicas", 0},
		"created again": {func(r *rig.Rig) {
			if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(r.T.Context(), "a", metav1.DeleteOptions{}); err != nil {
				r.T.Error(err)
			}
			create(r, "a")
		}, "deleted and created again by somebody else", event.ExitAborted},
		"created again with its marks": {do: func(r *rig.Rig) {
			maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
			m, err := maps.Get(r.T.Context(), "a", metav1.GetOptions{})
			if err == nil {
				err = maps.Delete(r.T.Context(), "a", metav1.DeleteOptions{})
			}
			if err == nil {
				m.ResourceVersion, m.UID = "", ""
				_, err = maps.Create(r.T.Context(), m, metav1.CreateOptions{})
			}
			if err != nil {
				r.T.Error(err)
			}
		}},
		"namespace deleted": {func(r *rig.Rig) {
			create(r, "stuck", "example.com/stuck")
			r.T.Cleanup(func() {
				none := []byte(`{"metadata":{"finalizers":null}}`)
				_, _ = r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(context.Background(), "stuck", types.MergePatchType, none, metav1.PatchOptions{})
			})
			if err := r.Cluster.CoreV1().Namespaces().Delete(r.T.Context(), r.Namespace, metav1.DeleteOptions{}); err != nil {
				r.T.Error(err)
			}
		}, "somebody deletes namespace ", event.ExitFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			docs := []string{rig.ConfigMap("a", rig.Group("a"))}
			if name == "scaled" || name == "taken over with the same spec" {
				docs = append(docs, rig.Deployment("d", rig.Group("a"), "0s", "  replicas: 1"))
			}
			// The last group is ready once the change is made. It has no pods: they would be the first to go with a namespace.
			last := rig.Group("z", "a")
			last["sandbox/ready-after"] = "1h"
			last[plan.AnnotationReadinessSuccess] = `["{.loadBalancer.ingress[0].ip} == \"10.0.0.1\""]`
			last[plan.AnnotationReadinessFailure] = `["{.loadBalancer.ingress[0].ip} == \"none\""]`
			docs = append(docs, rig.Object("v1/Service/last", last, "spec: {type: LoadBalancer, ports: [{port: 80}]}"))
			r.Meddles = "somebody else changes the release"
			op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, docs...), nil)))
			var once sync.Once
			out := r.Run(op, func(e event.Event) {
				if test.exit == event.ExitAborted && e.Kind == event.KindObject && e.Object.Name == "a" && e.Message == test.want { // it stays so
					op.Command(event.Command{Name: event.Abort})
				}
				if e.Kind == event.KindObject && e.Object.Name == "last" && e.Change == event.Created {
					once.Do(func() {
						test.do(r)
						ready := []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"}]}}}`)
						if _, err := r.Cluster.CoreV1().Services(r.Namespace).Patch(t.Context(), "last", types.MergePatchType, ready, metav1.PatchOptions{}, "status"); err != nil {
							t.Error(err)
						}
					})
				}
			})
			if out.State.Exit != test.exit {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			var drifted []string
			for _, o := range out.State.Drifted() {
				for _, d := range o.Drift {
					drifted = append(drifted, d.Field)
					if d.Gone || name == "value changed" && (d.Manager == "" || d.At.IsZero()) || o.Status != event.Ready {
						t.Errorf("%s is %s, %+v", o.Object, o.Status, d)
					}
				}
			}
			switch {
			case test.exit == event.ExitFailed:
				if !strings.Contains(out.State.Message, test.want) {
					t.Errorf("message %q", out.State.Message)
				}
			case test.exit == event.ExitAborted:
			case strings.Join(drifted, ",") != test.want:
				t.Errorf("changed by others: %q", drifted)
			}
		})
	}
}
