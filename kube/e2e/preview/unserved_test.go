package preview

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/release"
)

// TestDriftOfUnservedVersion: the cluster no longer serves the versions in which a release has applied its objects, but has the
// objects in others: they cannot be compared and are not repaired, and a view shows them as they are (S18). Only an object whose
// kind the cluster does not have is gone.
func TestDriftOfUnservedVersion(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	api := r.Namespace + ".example.com"
	schemaOf := "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
	r.Create(rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}", "  versions:",
		"  - {name: v1, served: true, storage: false, "+schemaOf+"}", "  - {name: v2, served: true, storage: true, "+schemaOf+"}"))
	crds := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	served := func(version string) bool {
		list, err := r.Cluster.Discovery().ServerResourcesForGroupVersion(api + "/" + version)
		return err == nil && len(list.APIResources) > 0
	}
	r.Eventually("both versions are served", func() bool { return served("v1") && served("v2") })
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Object(api+"/v1/Thing/it", nil, "spec: {size: 3}"),
		rig.Object("policy/v1/PodDisruptionBudget/budget", nil, "spec: {maxUnavailable: 1, selector: {matchLabels: {app: none}}}")), nil))

	if _, err := crds.Patch(t.Context(), "things."+api, types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("v1 is not served", func() bool { return !served("v1") })
	records := r.Helm().Releases
	rel, err := release.MustExist(release.Last(records, "t"))
	if err != nil {
		t.Fatal(err)
	}
	rel.Manifest = strings.Replace(rel.Manifest, "policy/v1\n", "policy/v1beta1\n", 1) // as an older cluster would have it
	if err := records.Update(rel); err != nil {
		t.Fatal(err)
	}
	r.Client = rig.Connect(t, r.Namespace)
	want := []string{
		"PodDisruptionBudget/budget gone=false version v1beta1 of PodDisruptionBudget is no longer served; upgrade the release to a chart that uses v1",
		"Thing/it gone=false version v1 of Thing is no longer served; upgrade the release to a chart that uses v2",
	}
	if got := driftLines(drift(r)); !slices.Equal(got, want) {
		t.Errorf("drift:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if op, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}); op != nil || err != nil {
		t.Errorf("a repair: %v, %v", op, err)
	}
	r.OpenView(0).Await("all objects ready", func(s *event.State) bool {
		for g := range s.GroupStates() {
			for _, o := range g.Objects {
				if o.Status == event.Failed || o.Status == event.Gone {
					t.Errorf("%s: %s %s", o.Object, o.Status, o.Message)
				}
			}
		}
		return rig.AllGroups(s, event.Ready)
	})

	if err := crds.Delete(t.Context(), "things."+api, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the kind is gone", func() bool { return !served("v2") })
	r.Client = rig.Connect(t, r.Namespace)
	want[1] = "Thing/it gone=true the cluster does not have its kind"
	if got := driftLines(drift(r)); !slices.Equal(got, want) {
		t.Errorf("drift without the kind:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
