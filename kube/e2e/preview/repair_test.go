package preview

import (
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/charts"
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
			op := r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
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
			op := r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
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

// TestRepairClearsTheWay (S18): what excludes a lost field goes with the same request, and nothing else of others does: another port
// with the name of a lost one, the other field of a pair of which only one may be set. The preview shows it, and the next upgrade owns
// the restored fields alone.
func TestRepairClearsTheWay(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			budget := rig.Object("policy/v1/PodDisruptionBudget/budget", nil, "spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}")
			chart := func(ports string) *charts.Chart {
				return rig.ChartOf(t, rig.ConfigMap("conf", nil, "v: '1'"), budget,
					rig.Object("v1/Service/web", nil, "spec: {selector: {app: web}, ports: ["+ports+"]}"),
					rig.Object("apps/v1/Deployment/web", nil, "spec:", "  replicas: 0", "  strategy: {type: Recreate}", "  selector: {matchLabels: {app: web}}", "  template:",
						"    metadata: {labels: {app: web}}", "    spec: {volumes: [{name: data, emptyDir: {}}], containers: [{name: main, image: example/app:1.0}]}"))
			}
			option := func(d *kube.Deploy) { d.ServerSide = serverSide }
			r.Deploy("plain", rig.UseChart(chart("{port: 80, name: p80}, {port: 81, name: p81}"), option))
			change(r, "configmaps", "conf", types.MergePatchType, `{"data":{"v":"hacked"}}`)
			change(r, "services", "web", types.JSONPatchType, `[{"op":"replace","path":"/spec/ports/1/port","value":99},{"op":"add","path":"/spec/ports/-","value":{"name":"theirs","port":100}}]`)
			change(r, "poddisruptionbudgets", "budget", types.JSONPatchType, `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":0},{"op":"add","path":"/spec/unhealthyPodEvictionPolicy","value":"AlwaysAllow"}]`)
			change(r, "deployments", "web", types.JSONPatchType, `[{"op":"replace","path":"/spec/strategy","value":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3}}},
				{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":"data","hostPath":{"path":"/theirs"}}}]`)
			op := r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
			changes, err := op.Changes(t.Context())
			if err != nil || len(changes) != 4 {
				t.Fatal(changes, err)
			}
			for _, c := range changes {
				removed := map[string]string{"PodDisruptionBudget/budget": "-  maxUnavailable: 0", "Service/web": "port: 99", "Deployment/web": "-    rollingUpdate:"}[c.Object.String()]
				if c.Action != inspect.Modify || !strings.Contains(c.Diff, removed) {
					t.Errorf("the preview of %s does not show %q: %s %s\n%s", c.Object, removed, c.Action, c.Message, c.Diff)
				}
			}
			r.MustRun(op, nil)
			if d := drift(r); len(d.Objects) > 0 {
				t.Errorf("after the repair: %q", driftLines(d))
			}
			ports := func() (all []string) {
				svc, err := r.Cluster.CoreV1().Services(r.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range svc.Spec.Ports {
					all = append(all, p.Name)
				}
				slices.Sort(all)
				return all
			}
			if got := ports(); !slices.Equal(got, []string{"p80", "p81", "theirs"}) {
				t.Errorf("ports after the repair: %q", got)
			}
			pdb, err := r.Cluster.PolicyV1().PodDisruptionBudgets(r.Namespace).Get(t.Context(), "budget", metav1.GetOptions{})
			if err != nil || pdb.Spec.MaxUnavailable != nil || pdb.Spec.UnhealthyPodEvictionPolicy == nil {
				t.Errorf("budget: %+v, %v", pdb.Spec, err)
			}
			r.MustRun(r.Upgrade("plain", rig.UseChart(chart("{port: 80, name: p80}"), option)))
			if got := ports(); !slices.Equal(got, []string{"p80", "theirs"}) {
				t.Errorf("ports after an upgrade that drops one: %q", got)
			}
		})
	}
}

// TestRepairOfTheRest (S18): an object that cannot be repaired does not keep the others of its release from it, and the end names it.
func TestRepairOfTheRest(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			first := rig.Group("first")
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("fixed", first, "v: '1'"), rig.ConfigMap("other", rig.Group("then", "first"), "v: '1'")), func(d *kube.Deploy) { d.ServerSide = serverSide }))
			change(r, "configmaps", "fixed", types.MergePatchType, `{"immutable":true,"data":{"v":"hacked"}}`)
			change(r, "configmaps", "other", types.MergePatchType, `{"data":{"v":"hacked"}}`)
			out := r.Run(r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()})), nil)
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, "ConfigMap/fixed is not repaired: ") || !strings.Contains(out.State.Message, "immutable") {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			if got := r.ConfigMapData("other"); got["v"] != "1" {
				t.Errorf("the other object has %v", got)
			}
			r.AssertHistory("1 deployed")
			if _, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}); err == nil || !strings.Contains(err.Error(), "immutable") {
				t.Errorf("a repair of nothing else: %v", err)
			}
		})
	}
}

// TestRepairGoesOn (S18): an object that is refused only when it is written keeps those groups from their repair that wait for it, and no
// others.
func TestRepairGoesOn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	slow := rig.Object("apps/v1/Deployment/slow", rig.Group("slow"), "spec:", "  selector: {matchLabels: {app: slow}}", "  template:",
		"    metadata: {labels: {app: slow}, annotations: {sandbox/ready-delay: 1s}}", "    spec: {containers: [{name: main, image: example/app:1.0}]}")
	chart := rig.ChartOf(t, rig.ConfigMap("fixed", rig.Group("first"), "v: '1'"), rig.ConfigMap("behind", rig.Group("behind", "first"), "v: '1'"),
		slow, rig.ConfigMap("other", rig.Group("other", "slow"), "v: '1'"))
	r.Deploy("plain", rig.UseChart(chart, func(*kube.Deploy) {}))
	for _, name := range []string{"fixed", "behind", "other"} {
		change(r, "configmaps", name, types.MergePatchType, `{"data":{"v":"hacked"}}`)
	}
	change(r, "deployments", "slow", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/app:2.0"}]}}}}`)
	op := r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
	change(r, "configmaps", "fixed", types.MergePatchType, `{"immutable":true}`)
	out := r.Run(op, nil)
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "ConfigMap/fixed") || !strings.Contains(out.State.Message, "immutable") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	if behind, other := r.ConfigMapData("behind")["v"], r.ConfigMapData("other")["v"]; behind != "hacked" || other != "1" {
		t.Errorf("the group behind the refused object has %s, the other one %s", behind, other)
	}
}
