package install

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
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// TestCustomResourceWithoutStatus: a custom resource without a status is ready once it exists (R22), and its CRD may be in
// the same group (R17).
func TestCustomResourceWithoutStatus(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	api := r.Namespace + ".example"
	crd := rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, rig.Group("a"), "spec:", "  group: "+api, "  scope: Namespaced",
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]")
	out := r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Object(api+"/v1/Thing/mute", rig.Group("a"), "spec: {size: 1}"), crd, rig.ConfigMap("after", rig.Group("b", "a"))), nil))
	g := out.State.Find(helmclient.PhaseApply, "edge:a")
	if g.Status != event.Ready || g.Done != 2 {
		t.Errorf("%s, %d of 2 done", g.Status, g.Done)
	}
	r.MustRun(r.Uninstall())
}

// TestStaleStatus upgrades workloads whose old status says ready. The next group starts only
// after the status of the new rollout (R22).
func TestStaleStatus(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(version, delay string) func(*kube.Deploy) {
		set := rig.Object("apps/v1/StatefulSet/state", rig.Group("a"), "spec:", "  serviceName: state", "  selector: {matchLabels: {app: state}}",
			"  template: {metadata: {labels: {app: state}, annotations: {sandbox/ready-delay: "+delay+"}}, spec: {containers: [{name: main, image: example/app:"+version+"}]}}")
		return rig.UseChart(rig.ChartOf(t, rig.Deployment("app", rig.Group("a"), delay), set, rig.ConfigMap("after", rig.Group("b", "a"), "version: v"+version)), func(u *kube.Deploy) { u.Install = true })
	}
	r.MustRun(r.Upgrade("plain", chart("1", "0s")))
	start := time.Now()
	out := r.MustRun(r.Upgrade("plain", chart("2", "1500ms")))
	tl := r.Timeline("lockstep").Since(start)
	for _, workload := range []string{"Deployment/app", "StatefulSet/state"} {
		ready, _ := tl.Ready(t, []string{workload})
		applied, _ := tl.FirstWrite(t, []string{workload})
		after, _ := tl.FirstWrite(t, []string{"ConfigMap/after"})
		if after.Before(ready) || after.Sub(applied) < 1500*time.Millisecond {
			t.Errorf("%s was applied at %s and ready at %s, ConfigMap/after was written at %s", workload, rig.Clock(applied), rig.Clock(ready), rig.Clock(after))
		}
	}
	if t.Failed() {
		tl.Dump(t)
		t.Log(out.StatusTime("edge:a", event.Ready))
	}
}

// customResourceChart returns a chart with a custom resource, its CRD, and a group that waits for it.
func customResourceChart(t *testing.T, api, size string, readiness map[string]string) *charts.Chart {
	annotations := rig.Group("a")
	maps.Copy(annotations, readiness)
	return rig.MakeChart(t, rig.Files{
		"crds/things.yaml": rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
			"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
			"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]"),
		"templates/all.yaml": rig.Object(api+"/v1/Thing/it", annotations, "spec: {size: "+size+"}") + "\n---\n" + rig.ConfigMap("after", rig.Group("b", "a"), "size: s"+size),
	})
}

// TestOldStatusOfACustomResource upgrades a custom resource whose old status says ready. With an observedGeneration, the old
// status does not count. Without one, its conditions, or the expressions of R23, count once its controller has had the time
// to write it again, which one with nothing to change does not (R22a).
func TestOldStatusOfACustomResource(t *testing.T) {
	t.Parallel()
	custom := map[string]string{plan.AnnotationReadinessSuccess: `["{.phase} == \"Done\""]`, plan.AnnotationReadinessFailure: `["{.phase} == \"Lost\""]`}
	for name, readiness := range map[string]map[string]string{"conditions": nil, "expressions": custom} {
		for _, observed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s observed %v", name, observed), func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				api := r.Namespace + ".example"
				status := func(generation int) {
					text := `"phase":"Done","conditions":[{"type":"Ready","status":"True"}]`
					if observed {
						text += fmt.Sprintf(`,"observedGeneration":%d`, generation)
					}
					patchStatus(r, api, "it", `{"status":{`+text+`}}`)
				}
				op, err := r.Install("plain", rig.UseChart(customResourceChart(t, api, "1", nil), func(i *kube.Deploy) { i.FirstStatusTimeout = -1 }))
				r.MustRun(op, err)
				status(1)

				start, reported := time.Now(), false
				op, err = r.Upgrade("plain", rig.UseChart(customResourceChart(t, api, "2", readiness), func(u *kube.Deploy) {
					u.ReadinessTimeout, u.FirstStatusTimeout = 20*time.Second, time.Second
				}))
				if err != nil {
					t.Fatal(err)
				}
				out := r.Run(op, func(e event.Event) {
					if !reported && e.Kind == event.KindObject && strings.Contains(e.Message, "has not observed the change yet") {
						reported = true
						status(2)
					}
				})
				if out.Err != nil || reported != observed || (out.State.NoStatus == 1) == observed {
					t.Errorf("%v; reported that the change was not observed: %v, want %v; %d objects without a status", out.Err, reported, observed, out.State.NoStatus)
				}
				tl := r.Timeline("lockstep").Since(start)
				after, _ := tl.FirstWrite(t, []string{"ConfigMap/after"})
				if applied, _ := tl.FirstWrite(t, []string{"Thing/it"}); after.Before(applied) || after.Before(tl.LastStatus(t, "Thing/it")) {
					t.Errorf("after was written at %s, before Thing/it at %s or its status at %s", rig.Clock(after), rig.Clock(applied), rig.Clock(tl.LastStatus(t, "Thing/it")))
				}
			})
		}
	}
}

// patchStatus writes the status of a Thing like its controller.
func patchStatus(r *rig.Rig, api, name, patch string) {
	r.T.Helper()
	things := schema.GroupVersionResource{Group: api, Version: "v1", Resource: "things"}
	if _, err := r.Client.Dynamic.Resource(things).Namespace(r.Namespace).Patch(r.T.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		r.T.Error(err)
	}
}
