package preview

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
)

// TestCreatedNamespace: the namespace that a run has created is not to create, nor gone.
func TestCreatedNamespace(t *testing.T) {
	s := &objects{client: &connect.Client{Clientset: fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})}}
	for name, want := range map[string]inspect.Action{"shop": inspect.Unchanged, "other": inspect.Create} {
		c := change{Change: inspect.Change{Object: plan.Object{Kind: "Namespace", Name: name}}, kind: event.PhaseNamespace}
		if err := s.preview(t.Context(), &c, &Previewer{}); err != nil || c.Action != want {
			t.Errorf("namespace %s: %s, %v; want %s", name, c.Action, err, want)
		}
	}
}
