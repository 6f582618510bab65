package order

import (
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// createCRD creates the CRD like an operator.
func createCRD(r *rig.Rig, k rig.LateKind) {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(k.CRD(nil)), crd); err != nil {
		r.T.Error(err)
	}
	if _, err := r.Client.Dynamic.Resource(rig.CRDResource).Create(r.T.Context(), crd, metav1.CreateOptions{}); err != nil {
		r.T.Error(err)
	}
}

// lateGone reports whether the object of the kind has been deleted.
func lateGone(r *rig.Rig, k rig.LateKind) bool {
	client := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: k.API, Version: "v1", Resource: k.Plural})
	var err error
	if k.Scope == "Cluster" {
		_, err = client.Get(r.T.Context(), "late", metav1.GetOptions{})
	} else {
		_, err = client.Namespace(r.Namespace).Get(r.T.Context(), "late", metav1.GetOptions{})
	}
	return apierrors.IsNotFound(err)
}

// TestLateKinds has an object whose kind is defined during the run by a hook, an operator or an earlier group. The run
// finds its resource and waits for it, the next group starts after it, and an uninstall deletes it (R22, R29).
func TestLateKinds(t *testing.T) {
	t.Parallel()
	for i, definedBy := range []string{"hook", "operator", "group"} {
		for j, k := range rig.LateKinds("") {
			if !rig.Long && i != j {
				continue
			}
			t.Run(definedBy+"-"+k.Kind, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				k.API = r.Namespace + ".example"
				docs := []string{k.Object(rig.Group("late", "first")), rig.ConfigMap("after", rig.Group("after", "late"))}
				switch definedBy {
				case "hook":
					docs = append(docs, k.CRD(map[string]string{"helm.sh/hook": "pre-install"}), rig.ConfigMap("first", rig.Group("first")))
				case "operator":
					docs = append(docs, rig.Deployment("operator", rig.Group("first"), "0s"))
				case "group":
					docs = append(docs, k.CRD(rig.Group("first")))
				}
				op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, docs...), func(i *kube.Deploy) { i.ReadinessTimeout = 15 * time.Second })))
				var once sync.Once
				out := r.Run(op, func(e event.Event) {
					if definedBy == "operator" && e.Kind == event.KindGroup && e.Group == "edge:first" && e.Status == event.Ready {
						once.Do(func() { createCRD(r, k) })
					}
				})
				if out.Err != nil || out.State.Exit != 0 {
					t.Fatalf("exit %d: %v", out.State.Exit, out.Err)
				}
				if got := statuses(out, "late"); got[len(got)-1] != event.Ready {
					t.Errorf("late had the statuses %v", got)
				}
				if !slices.ContainsFunc(out.Events, func(e event.Event) bool {
					return e.Object != nil && e.Object.Name == "late" && e.Change == event.Created
				}) {
					t.Error("no event says that late was created")
				}
				ready := lateReady(r, k)
				if after, _ := r.Timeline("lockstep").FirstWrite(t, []string{"ConfigMap/after"}); ready.IsZero() || after.Before(ready) {
					t.Errorf("the next group was applied at %s, and the object was ready at %s", rig.Clock(after), rig.Clock(ready))
				}
				r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs...), nil)))
				r.MustRun(r.Uninstall())
				if !lateGone(r, k) {
					t.Error("the object was not deleted")
				}
			})
		}
	}
}

// lateReady returns when the sandbox made the object of the kind ready, by the audit log.
func lateReady(r *rig.Rig, k rig.LateKind) (at time.Time) {
	for _, e := range r.Audit() {
		if e.Object.APIGroup == k.API && e.Object.Subresource == "status" && e.Succeeded() && at.IsZero() {
			at = e.Received
		}
	}
	return at
}

// statuses returns the statuses of the objects with a name, in order.
func statuses(out rig.Outcome, name string) (all []event.Status) {
	for _, e := range out.Events {
		if e.Kind == event.KindObject && e.Object.Name == name {
			all = append(all, e.Status)
		}
	}
	return all
}

// TestViewOfALateKind: an open view shows an object whose kind is defined later (R29).
func TestViewOfALateKind(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	k := rig.LateKinds(r.Namespace + ".example")[0]
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("operator", rig.Group("first"), "0s"), k.Object(rig.Group("late", "first"))), func(i *kube.Deploy) {
		i.BreakOn, i.ReadinessTimeout = []string{"edge:late"}, 5*time.Second
	}))
	if err != nil {
		t.Fatal(err)
	}
	paused := make(chan struct{})
	done := make(chan rig.Outcome, 1)
	var once sync.Once
	go func() {
		done <- r.Run(op, func(e event.Event) {
			if e.Kind == event.KindRun && e.Status == event.Paused {
				once.Do(func() { close(paused) })
			}
		})
	}()
	<-paused
	v := r.OpenView(0)
	v.Await("late is waiting", func(s *event.State) bool {
		g := s.Find("apply", "edge:late")
		return g != nil && g.Status == event.Waiting && s.Find("apply", "edge:first").Status == event.Ready
	})
	createCRD(r, k)
	op.Command(event.Command{Name: event.Resume})
	if out := <-done; out.Err != nil {
		t.Error(out.Err)
	}
	v.Await("late is ready", func(s *event.State) bool { return s.Message == "deployed" && rig.AllGroups(s, event.Ready) })
}
