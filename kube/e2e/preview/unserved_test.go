package preview

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	kind := r.CreateThings()
	api := kind.API
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Object(api+"/v1/Thing/it", nil, "spec: {size: 3}"), rig.ConfigMap("config", nil),
		rig.Object("policy/v1/PodDisruptionBudget/budget", nil, "spec: {maxUnavailable: 1, selector: {matchLabels: {app: none}}}")), nil))

	kind.StopServing()
	records := r.Helm().Releases
	rel, err := release.MustExist(release.Last(records, "t"))
	if err != nil {
		t.Fatal(err)
	}
	rel.Manifest = strings.Replace(rel.Manifest, "policy/v1\n", "policy/v1beta1\n", 1) // as an older cluster would have it
	if err := records.Update(rel); err != nil {
		t.Fatal(err)
	}
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
	r.PatchConfigMap("config", `{"data":{"is":"changed"}}`)
	op, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()})
	if err != nil {
		t.Fatal(err)
	}
	if out := r.Run(op, nil); out.State.Exit != 0 || r.ConfigMapData("config")["is"] != "config" {
		t.Errorf("a repair of another object: exit %d, %s, config has %v", out.State.Exit, out.State.Message, r.ConfigMapData("config"))
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

	if err := r.Client.Dynamic.Resource(rig.CRDResource).Delete(t.Context(), "things."+api, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the kind is gone", func() bool { return !kind.Served("v2") })
	r.Client = rig.Connect(t, r.Namespace)
	want[1] = "Thing/it gone=true the cluster does not have its kind"
	if got := driftLines(drift(r)); !slices.Equal(got, want) {
		t.Errorf("drift without the kind:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
