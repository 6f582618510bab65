package cluster

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
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

// TestDeletedBySomebody: only an object that was there, by a watch or by the answer to its apply, can have been deleted by somebody. A
// watch that begins before a new object is applied first says that it does not exist, which is no reason to read the records again.
func TestDeletedBySomebody(t *testing.T) {
	o := plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "a"}
	for name, tt := range map[string]struct {
		answered bool
		observed []event.Status
		want     int // looks
	}{
		"not yet applied":        {false, []event.Status{event.Gone, event.Ready}, 0},
		"deleted once applied":   {true, []event.Status{event.Gone, event.Ready, event.Gone}, 1},
		"deleted before a watch": {true, []event.Status{event.Gone}, 1},
		"before the answer":      {false, []event.Status{event.Ready, event.Gone}, 1},
	} {
		looks := 0
		target := &Target{
			session:  Session{Applied: NewApplied(), Gone: func() { looks++ }},
			attempts: map[plan.Object]*attempts{o: {}},
			send:     func(*resource.Info) error { return nil },
		}
		target.attempts[o].count.Add(1)
		for i, status := range tt.observed {
			if tt.answered && (i > 0 || len(tt.observed) == 1) {
				target.session.Applied.answered(o, &metav1.ObjectMeta{UID: "1"}, false)
			}
			target.report(t.Context(), run.Observation{Object: o, Status: status}, func(run.Observation) {})
		}
		if looks != tt.want {
			t.Errorf("%s: %d looks at the records, want %d", name, looks, tt.want)
		}
	}
}
