package kube

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestUnknownKind refuses an object of a kind that nothing can bring before it
// is applied, and warns where something that comes before may: a controller of
// an earlier group, here the test (R29).
func TestUnknownKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	api := r.namespace + ".example"
	gear := func(annotations map[string]string) string {
		return object(api+"/v1/Gear/g", annotations, "spec: {size: x}")
	}
	for _, wait := range []string{"ordered", "watcher"} {
		_, err := r.install("plain", use(one(t, configMap("a", nil), gear(nil)), func(i *Install) { i.Wait = wait }))
		if err == nil || !strings.Contains(err.Error(), "edge: Gear/g: the cluster does not know the kind Gear ("+api+"/v1), and no CRD of the chart brings it") {
			t.Errorf("error %v", err)
		}
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}

	op, err := r.install("plain", use(one(t, configMap("operator", group("a")), gear(group("b", "a"))), nil))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Rule == "R29" && strings.Contains(w.Message, "Gear/g") }) {
		t.Errorf("warnings %v", op.Warnings())
	}
	out := r.run(op, func(e event.Event) {
		if e.Kind != event.KindGroup || e.Group != "edge:a" || e.Status != event.Ready {
			return
		}
		crd := &unstructured.Unstructured{}
		text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gears." + api + "}\nspec:\n  group: " + api +
			"\n  scope: Namespaced\n  names: {kind: Gear, listKind: GearList, plural: gears, singular: gear}\n  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"
		if err := yaml.Unmarshal([]byte(text), crd); err != nil {
			t.Error(err)
		}
		if _, err := r.client.Dynamic.Resource(crdResource).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	if out.err != nil {
		t.Error(out.err)
	}
}
