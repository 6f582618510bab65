package kube

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// lateKind is a kind whose plural or scope nobody can guess.
type lateKind struct {
	kind, plural, scope string
	api                 string // group, the test's own
}

func (k lateKind) crd(annotations map[string]string) string {
	return object("apiextensions.k8s.io/v1/CustomResourceDefinition/"+k.plural+"."+k.api, annotations,
		fmt.Sprintf("spec:\n  group: %s\n  scope: %s\n  names: {kind: %s, listKind: %sList, plural: %s, singular: %s}", k.api, k.scope, k.kind, k.kind, k.plural, strings.ToLower(k.kind)),
		"  versions:\n  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}")
}

// object is an object of the kind, which becomes ready after a while.
func (k lateKind) object(annotations map[string]string) string {
	annotations["sandbox/ready-after"], annotations["sandbox/status"] = "500ms", `{"phase":"Ready"}`
	annotations[plan.AnnotationReadinessSuccess], annotations[plan.AnnotationReadinessFailure] = `["{.phase} == Ready"]`, `["{.phase} == Broken"]`
	return object(k.api+"/v1/"+k.kind+"/late", annotations, "spec: {size: x}")
}

// bring installs the CRD as an operator would.
func (r *rig) bring(k lateKind) {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(k.crd(nil)), crd); err != nil {
		r.t.Error(err)
	}
	if _, err := r.client.Dynamic.Resource(crdResource).Create(r.t.Context(), crd, metav1.CreateOptions{}); err != nil {
		r.t.Error(err)
	}
}

// lateGone reports whether the object of the kind is not in the cluster.
func (r *rig) lateGone(k lateKind) bool {
	client := r.client.Dynamic.Resource(schema.GroupVersionResource{Group: k.api, Version: "v1", Resource: k.plural})
	var err error
	if k.scope == "Cluster" {
		_, err = client.Get(r.t.Context(), "late", metav1.GetOptions{})
	} else {
		_, err = client.Namespace(r.namespace).Get(r.t.Context(), "late", metav1.GetOptions{})
	}
	return apierrors.IsNotFound(err)
}

func lateKinds(api string) []lateKind {
	return []lateKind{
		{"Gateway", "gateways", "Namespaced", api}, // a guess has "gatewaies"
		{"Data", "data", "Namespaced", api},        // a guess has "datas"
		{"Zone", "zones", "Cluster", api},          // a guess has a namespace
	}
}

// TestLateKinds waits for an object whose kind the cluster learns only on the
// way, from a hook, an operator or an earlier group: it is watched where it
// really is, the next group comes after it, and an uninstallation takes it away
// (R22, R29).
func TestLateKinds(t *testing.T) {
	t.Parallel()
	for _, brought := range []string{"hook", "operator", "group"} {
		for _, k := range lateKinds("") {
			t.Run(brought+"-"+k.kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				k.api = r.namespace + ".example"
				docs := []string{k.object(group("late", "first")), configMap("after", group("after", "late"))}
				switch brought {
				case "hook":
					docs = append(docs, k.crd(map[string]string{"helm.sh/hook": "pre-install"}), configMap("first", group("first")))
				case "operator":
					docs = append(docs, deployment("operator", group("first"), "0s"))
				case "group":
					docs = append(docs, k.crd(group("first")))
				}
				op, err := r.install("plain", use(one(t, docs...), func(i *Install) { i.ReadinessTimeout = 15 * time.Second }))
				if err != nil {
					t.Fatal(err)
				}
				var once sync.Once
				out := r.run(op, func(e event.Event) {
					if brought == "operator" && e.Kind == event.KindGroup && e.Group == "edge:first" && e.Status == event.Ready {
						once.Do(func() { r.bring(k) })
					}
				})
				if out.err != nil || out.state.Exit != 0 {
					t.Fatalf("exit %d: %v", out.state.Exit, out.err)
				}
				if got := out.statuses("late"); !slices.Contains(got, event.InProgress) || got[len(got)-1] != event.Ready {
					t.Errorf("late went through %v", got)
				}
				if !out.at("edge:after", event.Running).After(out.at("edge:late", event.Ready)) {
					t.Error("the next group did not wait")
				}
				r.mustRun(r.upgrade("plain", useUp(one(t, docs...), nil)))
				r.mustRun(r.uninstall())
				if !r.lateGone(k) {
					t.Error("the object is still there")
				}
			})
		}
	}
}

// statuses are those that the objects of a name went through.
func (out outcome) statuses(name string) (all []event.Status) {
	for _, e := range out.events {
		if e.Kind == event.KindObject && e.Object.Name == name {
			all = append(all, e.Status)
		}
	}
	return all
}

// TestViewOfALateKind sees an object whose kind the cluster learns only while a
// view of its release is open (R29).
func TestViewOfALateKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := lateKinds(r.namespace + ".example")[0]
	op, err := r.install("plain", use(one(t, deployment("operator", group("first"), "0s"), k.object(group("late", "first"))), func(i *Install) {
		i.BreakOn, i.ReadinessTimeout = []string{"edge:late"}, 5*time.Second
	}))
	if err != nil {
		t.Fatal(err)
	}
	stands := make(chan struct{})
	done := make(chan outcome, 1)
	var once sync.Once
	go func() {
		done <- r.run(op, func(e event.Event) {
			if e.Kind == event.KindRun && e.Status == event.Paused {
				once.Do(func() { close(stands) })
			}
		})
	}()
	<-stands
	v := r.look(0)
	v.await("late is waiting", func(s *event.State) bool {
		g := s.Find("apply", "edge:late")
		return g != nil && g.Status == event.Waiting && s.Find("apply", "edge:first").Status == event.Ready
	})
	r.bring(k)
	op.Command(event.Command{Name: event.Resume})
	if out := <-done; out.err != nil {
		t.Error(out.err)
	}
	v.await("late is ready", func(s *event.State) bool { return s.Message == "deployed" && all(s, event.Ready) })
}
