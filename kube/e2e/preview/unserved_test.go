package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
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
	ageRecord(r)
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
	op := r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
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

// ageRecord makes the last record what an older cluster would have, in versions and an API group that Kubernetes has removed.
func ageRecord(r *rig.Rig) {
	r.T.Helper()
	records := r.Helm().Releases
	rel, err := release.MustExist(release.Last(records, "t"))
	if err != nil {
		r.T.Fatal(err)
	}
	rel.Manifest = strings.NewReplacer("policy/v1\n", "policy/v1beta1\n", "networking.k8s.io/v1\n", "extensions/v1beta1\n").Replace(rel.Manifest)
	if err := records.Update(rel); err != nil {
		r.T.Fatal(err)
	}
}

// TestReleaseInUnservedVersions (R28, S18): the advice of drift works. A release with a record in versions that the cluster no longer
// serves is upgraded without deleting what stays, rolled back to that record in the versions that the cluster serves, and uninstalled.
func TestReleaseInUnservedVersions(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	kind := r.CreateThings()
	budget := func(name string, most int) string {
		return rig.Object("policy/v1/PodDisruptionBudget/"+name, nil, fmt.Sprintf("spec: {maxUnavailable: %d, selector: {matchLabels: {app: none}}}", most))
	}
	walls := rig.Object("networking.k8s.io/v1/NetworkPolicy/walls", nil, "spec: {podSelector: {matchLabels: {app: none}}}")
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Object(kind.API+"/v1/Thing/it", nil, "spec: {size: 3}"), budget("kept", 1), budget("left", 1), walls), nil))
	kind.StopServing()
	ageRecord(r)
	live := func() map[string]string {
		all := map[string]string{}
		budgets, err := r.Client.Clientset.PolicyV1().PodDisruptionBudgets(r.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range budgets.Items {
			all[b.Name] = string(b.UID) + " " + b.Spec.MaxUnavailable.String()
		}
		policies, err := r.Client.Clientset.NetworkingV1().NetworkPolicies(r.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range policies.Items {
			all[p.Name] = string(p.UID)
		}
		return all
	}
	before := live()

	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Object(kind.API+"/v2/Thing/it", nil, "spec: {size: 4}"), budget("kept", 2), walls), nil)))
	want := map[string]string{"kept": strings.Replace(before["kept"], " 1", " 2", 1), "walls": before["walls"]}
	if got := live(); !maps.Equal(got, want) {
		t.Errorf("after the upgrade: %v, want %v", got, want)
	}

	op := r.Must(r.Rollback(1))
	for _, moved := range []string{
		"PodDisruptionBudget/left is recorded in policy/v1beta1, which the cluster no longer serves: it is sent in policy/v1",
		"NetworkPolicy/walls is recorded in extensions/v1beta1, which the cluster no longer serves: it is sent in networking.k8s.io/v1",
		"Thing/it is recorded in " + kind.API + "/v1, which the cluster no longer serves: it is sent in " + kind.API + "/v2",
	} {
		if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Message == moved }) {
			t.Errorf("no warning %q among %v", moved, op.Warnings())
		}
	}
	r.Meddles = "the record that is rolled back to has versions that the cluster does not serve"
	r.MustRun(op, nil)
	r.Meddles = ""
	if got := live(); got["kept"] != before["kept"] || got["walls"] != before["walls"] || !strings.HasSuffix(got["left"], " 1") {
		t.Errorf("after the rollback: %v, want %v", got, before)
	}
	r.MustRun(r.Uninstall())
	if got := live(); len(got) > 0 {
		t.Errorf("after the uninstall: %v", got)
	}
}
