package kube

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/helmclient"
)

// TestCustomResourceWithoutStatus is ready once the API server has it (R22),
// and its CRD may be in the same group (R17).
func TestCustomResourceWithoutStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	api := r.namespace + ".example"
	crd := object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, group("a"), "spec:", "  group: "+api, "  scope: Namespaced",
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]")
	out := r.deploy("plain", use(one(t, object(api+"/v1/Thing/mute", group("a"), "spec: {size: 1}"), crd, configMap("after", group("b", "a"))), nil))
	g := out.state.Find(helmclient.PhaseApply, "edge:a")
	if g.Status != event.Ready || g.Done != 2 {
		t.Errorf("%s, %d of 2 done", g.Status, g.Done)
	}
	r.mustRun(r.uninstall())
}

// TestStaleStatus upgrades workloads whose status still says ready: the next
// group is written only after the status that belongs to the new rollout (R22).
func TestStaleStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(version, delay string) func(*Upgrade) {
		set := object("apps/v1/StatefulSet/state", group("a"), "spec:", "  serviceName: state", "  selector: {matchLabels: {app: state}}",
			"  template: {metadata: {labels: {app: state}, annotations: {sandbox/ready-delay: "+delay+"}}, spec: {containers: [{name: main, image: example/app:"+version+"}]}}")
		return useUp(one(t, deployment("app", group("a"), delay), set, configMap("after", group("b", "a"), "version: v"+version)), func(u *Upgrade) { u.Install = true })
	}
	op, err := r.upgrade("plain", chart("1", "0s"))
	r.mustRun(op, err)
	start := time.Now()
	op, err = r.upgrade("plain", chart("2", "1500ms"))
	out := r.mustRun(op, err)
	tl := r.timeline("lockstep").since(start)
	for _, workload := range []string{"Deployment/app", "StatefulSet/state"} {
		ready, _ := tl.ready(t, []string{workload})
		applied, _ := tl.firstWrite(t, []string{workload})
		after, _ := tl.firstWrite(t, []string{"ConfigMap/after"})
		if after.Before(ready) || after.Sub(applied) < 1500*time.Millisecond {
			t.Errorf("%s was applied at %s and ready at %s, ConfigMap/after was written at %s", workload, clock(applied), clock(ready), clock(after))
		}
	}
	if t.Failed() {
		tl.dump(t)
		t.Log(out.at("edge:a", event.Ready))
	}
}

// thing is a chart of a custom resource, its CRD, and a group that waits for
// it.
func thing(t *testing.T, api, size string, readiness map[string]string) *charts.Chart {
	annotations := group("a")
	maps.Copy(annotations, readiness)
	return makeChart(t, files{
		"crds/things.yaml": object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
			"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
			"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]"),
		"templates/all.yaml": object(api+"/v1/Thing/it", annotations, "spec: {size: "+size+"}") + "\n---\n" + configMap("after", group("b", "a"), "size: s"+size),
	})
}

// TestOldStatusOfACustomResource upgrades a custom resource whose status says
// ready from before. Where the status has an observedGeneration, that status
// does not count, and the next group is written only after one that does. Where
// it has none, nothing in the resource tells how old it is: its conditions, or
// the expressions of R23, decide at once. A controller that has nothing to
// change would never write it again, so that to wait for a newer one could be
// to wait for ever (R22).
func TestOldStatusOfACustomResource(t *testing.T) {
	t.Parallel()
	custom := map[string]string{plan.AnnotationReadinessSuccess: `["{.phase} == \"Done\""]`, plan.AnnotationReadinessFailure: `["{.phase} == \"Lost\""]`}
	for name, readiness := range map[string]map[string]string{"conditions": nil, "expressions": custom} {
		for _, observed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s observed %v", name, observed), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				api := r.namespace + ".example"
				status := func(generation int) {
					text := `"phase":"Done","conditions":[{"type":"Ready","status":"True"}]`
					if observed {
						text += fmt.Sprintf(`,"observedGeneration":%d`, generation)
					}
					r.patchStatus(api, "it", `{"status":{`+text+`}}`)
				}
				op, err := r.install("plain", use(thing(t, api, "1", nil), nil))
				r.mustRun(op, err)
				status(1)

				start, told := time.Now(), false
				op, err = r.upgrade("plain", useUp(thing(t, api, "2", readiness), func(u *Upgrade) { u.ReadinessTimeout = 20 * time.Second }))
				if err != nil {
					t.Fatal(err)
				}
				out := r.run(op, func(e event.Event) {
					if !told && e.Kind == event.KindObject && strings.Contains(e.Message, "has not seen the change yet") {
						told = true
						status(2)
					}
				})
				if out.err != nil || told != observed {
					t.Errorf("%v; the old status was told to be old: %v", out.err, told)
				}
				tl := r.timeline("lockstep").since(start)
				after, _ := tl.firstWrite(t, []string{"ConfigMap/after"})
				if applied, _ := tl.firstWrite(t, []string{"Thing/it"}); after.Before(applied) || after.Before(tl.lastStatus(t, "Thing/it")) {
					t.Errorf("after was written at %s, before Thing/it at %s or its status at %s", clock(after), clock(applied), clock(tl.lastStatus(t, "Thing/it")))
				}
			})
		}
	}
}

// patchStatus writes the status of a Thing as its controller would.
func (r *rig) patchStatus(api, name, patch string) {
	r.t.Helper()
	things := schema.GroupVersionResource{Group: api, Version: "v1", Resource: "things"}
	if _, err := r.client.Dynamic.Resource(things).Namespace(r.namespace).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		r.t.Error(err)
	}
}
