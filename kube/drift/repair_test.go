package drift

import (
	"context"
	"fmt"
	"sync"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/fake"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
)

// TestRepairReadsAutoscalersOnce (S18): the objects that a repair sends at about the same time share what it reads for all of them.
func TestRepairReadsAutoscalersOnce(t *testing.T) {
	deployment := func(name string, replicas int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": "ns"}, "spec": map[string]any{"replicas": replicas},
		}}
	}
	const many = 5
	scaled := &autoscalingv2.HorizontalPodAutoscalerList{}
	r := Repair{Release: &Release{secrets: &mask.Mask{}, targets: map[plan.Object]*target{}}}
	for n := range many {
		o := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: fmt.Sprint("web", n)}
		r.targets[o] = &target{info: &resource.Info{Object: deployment(o.Name, 1)}, object: o}
		scaled.Items = append(scaled.Items, autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: "ns"},
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: o.Name}},
		})
	}
	kube := fake.NewClientset(scaled)
	r.Client = &connect.Client{Clientset: kube}
	send := func(ctx context.Context) {
		var all sync.WaitGroup
		for o := range r.targets {
			all.Go(func() {
				sent := deployment(o.Name, 1)
				r.Adapt(ctx, o, deployment(o.Name, 3), deployment(o.Name, 1), sent)
				if got, _, _ := unstructured.NestedInt64(sent.Object, "spec", "replicas"); got != 3 {
					t.Errorf("%s is sent with %d replicas", o, got)
				}
			})
		}
		all.Wait()
	}
	send(t.Context())
	if n := len(kube.Actions()); n != 1 {
		t.Errorf("%d requests for %d objects", n, many)
	}
	later, cancel := context.WithCancel(t.Context())
	defer cancel()
	send(later)
	if n := len(kube.Actions()); n != 2 {
		t.Errorf("%d requests, also for another request of the repair", n)
	}
}

// TestRenumberedPort (S18): a port with another number is a changed number, not a lost port, and the chart may ignore the number.
func TestRenumberedPort(t *testing.T) {
	service := func(port int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web", "namespace": "ns"},
			"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": port, "protocol": "TCP"}}},
		}}
	}
	live := service(81)
	live.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: connect.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:selector":{}}}`)},
		{Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}}}}`)},
	})
	for _, ignored := range [][]string{nil, {"/spec/ports/0/port"}, {"/spec/ports"}} {
		found := &Release{}
		x := &target{release: found, info: &resource.Info{Object: service(80)}, object: plan.Object{Kind: "Service", Namespace: "ns", Name: "web"}, live: live, ignored: ignored}
		x.changed = manifest.Differences(manifest.AsStored(service(80)), live)
		newReader(t.Context(), nil).compare(x, &mask.Mask{})
		switch {
		case ignored != nil && len(found.Objects) == 0:
		case ignored == nil && len(found.Objects) == 1 && len(found.Objects[0].Fields) == 1:
			f := found.Objects[0].Fields[0]
			if f.Field != "spec.ports[http].port" || f.Pointer != "/spec/ports/0/port" || f.From != int64(80) || f.To != int64(81) || f.Gone || f.Manager != "kubectl-edit" {
				t.Errorf("%+v", f)
			}
		default:
			t.Errorf("ignored %q: %+v", ignored, found.Objects)
		}
	}
}
