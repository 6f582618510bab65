package preview

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRepairKeepsWhatThereIsWhenItWrites (S18): what the chart ignores and what an autoscaler sets stays as it is when the repair writes,
// however long after its comparison that is, and its preview shows exactly what it writes.
func TestRepairKeepsWhatThereIsWhenItWrites(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := rig.ChartOf(t,
				rig.ConfigMap("state", map[string]string{"lockstep/ignore-drift": `["/data/counter", "/data/later"]`}, "counter: '0'", "later: '0'", "v: '1'"),
				rig.Object("apps/v1/Deployment/web", nil, "spec:", "  replicas: 0", "  selector: {matchLabels: {app: web}}", "  template:",
					"    metadata: {labels: {app: web}}", "    spec: {containers: [{name: main, image: example/app:1.0}]}"))
			r.Deploy("plain", rig.UseChart(chart, func(d *kube.Deploy) { d.ServerSide = serverSide }))
			change(r, "configmaps", "state", types.MergePatchType, `{"data":{"v":"hacked","counter":"5"}}`)
			change(r, "deployments", "web", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/app:2.0"}]}}}}`)
			op, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()})
			if err != nil {
				t.Fatal(err)
			}
			change(r, "configmaps", "state", types.MergePatchType, `{"data":{"counter":"9","later":"1"}}`)
			change(r, "deployments", "web", types.MergePatchType, `{"spec":{"replicas":1}}`, "scale")
			scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			}}
			if _, err := r.Cluster.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Create(t.Context(), scaler, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			changes, err := op.Changes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if strings.Contains(c.Diff, "counter: \"0\"") || strings.Contains(c.Diff, "later: \"0\"") || strings.Contains(c.Diff, "+  replicas") || !c.Modifies() {
					t.Errorf("the preview of %s does not show what the repair writes: %s\n%s", c.Object, c.Action, c.Diff)
				}
			}
			unit := op.Phases()[0]
			sent, err := op.Sent(t.Context(), inspect.Item{Unit: event.Unit{Phase: unit.Name, Group: unit.Groups[0].ID}, Kind: unit.Kind, Object: changes[0].Object})
			if err != nil || strings.Contains(sent, "replicas: 0") || strings.Contains(sent, `counter: "0"`) {
				t.Errorf("what is sent: %v\n%s", err, sent)
			}
			r.MustRun(op, nil)
			if got := r.ConfigMapData("state"); got["counter"] != "9" || got["later"] != "1" || got["v"] != "1" {
				t.Errorf("state has %v", got)
			}
			web, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || *web.Spec.Replicas != 1 || web.Spec.Template.Spec.Containers[0].Image != "example/app:1.0" {
				t.Errorf("web: %v, %v", web.Spec, err)
			}
		})
	}
}

// TestRepairRefusesWhatOthersHaveCreated (R31a): an object that was gone when the repair was planned, and that somebody else has created
// since, is not the release's.
func TestRepairRefusesWhatOthersHaveCreated(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("state", nil, "v: '1'")), func(d *kube.Deploy) { d.ServerSide = serverSide }))
			maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
			if err := maps.Delete(t.Context(), "state", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			op, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "state"}, Data: map[string]string{"theirs": "x"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if out := r.Run(op, nil); out.State.Exit != 2 || !strings.Contains(out.State.Message, "ConfigMap/state already exists") {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			if got := r.ConfigMapData("state"); len(got) != 1 || got["theirs"] != "x" {
				t.Errorf("the repair changed an object of somebody else: %v", got)
			}
		})
	}
}
