package cluster

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/event"
	"lockstep/kube/connect"
)

// TestResultOfUnreadableEvents expects that a Job without readable Events counts as complete only if the API server
// responded (R22).
func TestResultOfUnreadableEvents(t *testing.T) {
	for err, want := range map[error]event.Status{
		apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil): event.Ready,
		errors.New("connection refused"):                                          event.InProgress,
	} {
		clients := fake.NewClientset()
		clients.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		end, known := resultOf(t.Context(), &connect.Client{Clientset: clients}, "ns", "job", "uid")
		if end.Status != want || known {
			t.Errorf("%v: %s, known: %v; want %s", err, end.Status, known, want)
		}
	}
}
