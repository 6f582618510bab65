package upgrade

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestReplicasOfAnotherManager: replicas set by an autoscaler do not change. If the chart sets
// them too, the error names their manager and what to do.
func TestReplicasOfAnotherManager(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("app", rig.Group("a"), "0s"), rig.ConfigMap("after", rig.Group("b", "a"))), nil))
	if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "app", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
	replicas := func() int32 {
		d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "app", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *d.Spec.Replicas
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("app", rig.Group("a"), "10ms"), rig.ConfigMap("after", rig.Group("b", "a"))), nil)))
	if n := replicas(); n != 3 {
		t.Errorf("%d replicas after an upgrade without replicas, want the autoscaler's 3", n)
	}
	fixed := rig.UseChart(rig.ChartOf(t, rig.Deployment("app", rig.Group("a"), "20ms", "  replicas: 2"), rig.ConfigMap("after", rig.Group("b", "a"))), nil)
	says, start := []string{"Deployment/app", `"autoscaler"`, ".spec.replicas", "--force-conflicts"}, time.Now()
	_, err := r.Upgrade("plain", fixed)
	r.MustRefuse(start, err, says...)
	op, err := r.Upgrade("plain", func(u *kube.Deploy) { fixed(u); u.SkipPreflight = true })
	r.MustFail(op, err, append(says, "never started: edge:b")...)
	r.MustRun(r.Upgrade("plain", func(u *kube.Deploy) { fixed(u); u.ForceConflicts = true }))
	if n := replicas(); n != 2 {
		t.Errorf("%d replicas after --force-conflicts, want 2", n)
	}
}

// TestFieldConflict: the error of a conflict names the manager and the field, also for an
// install that takes over an object. --force-conflicts resolves both.
func TestFieldConflict(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.TakesOver = []string{"configmaps/a"}
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "a", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"is":"mine"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil))
	says := []string{"ConfigMap/a", `"somebody"`, ".data.is", "--force-conflicts"}
	start := time.Now()
	_, err := r.Install("plain", rig.UseChart(chart, nil)) // who owns the object, and who its fields
	r.MustRefuse(start, err, append(says, "--take-ownership")...)
	_, err = r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.TakeOwnership = true }))
	r.MustRefuse(start, err, says...)
	op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.TakeOwnership, i.SkipPreflight = true, true }))
	r.MustFail(op, err, says...)
	r.Deploy("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.TakeOwnership, i.ForceConflicts, i.Replace = true, true, true }))
	r.PatchConfigMap("a", `{"data":{"is":"theirs"}}`)
	op, err = r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.SkipPreflight = true }))
	r.MustFail(op, err, says...)
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.ForceConflicts = true })))
	a, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || a.Data["is"] != "a" {
		t.Errorf("data %v, %v", a.Data, err)
	}
}

// TestImmutableField: the error names the object and the field, and what to do.
func TestImmutableField(t *testing.T) {
	service := func(ip string) string {
		return rig.Object("v1/Service/front", nil, "spec: {clusterIP: "+ip+", ports: [{port: 80}]}")
	}
	selector := func(label string) string {
		return strings.ReplaceAll(rig.Deployment("app", nil, "0s"), "{app: app}", "{app: "+label+"}")
	}
	claim := func(size string) string {
		return rig.Object("apps/v1/StatefulSet/state", nil, "spec:", "  serviceName: state", "  selector: {matchLabels: {app: state}}",
			"  template: {metadata: {labels: {app: state}}, spec: {containers: [{name: main, image: example/app:1.0}]}}",
			"  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}}]")
	}
	tests := map[string]struct {
		old, new, object, field string
	}{
		"job":         {rig.Job("work", nil, "0s"), strings.ReplaceAll(rig.Job("work", nil, "0s"), "app:1.0", "app:2.0"), "Job/work", "spec.template"},
		"service":     {service(`""`), service("None"), "Service/front", "spec.clusterIPs"},
		"deployment":  {selector("one"), selector("two"), "Deployment/app", "spec.selector"},
		"statefulset": {claim("1Gi"), claim("2Gi"), "StatefulSet/state", "spec"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, tt.old), nil))
			start := time.Now()
			_, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, tt.new), nil))
			r.MustRefuse(start, err, tt.object, tt.field, "replace it with --replace "+tt.object)
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, tt.new), func(u *kube.Deploy) { u.SkipPreflight = true }))
			out := r.MustFail(op, err, tt.object, tt.field, "replace it with --replace "+tt.object)
			if n := len(out.State.Message); n > 700 {
				t.Errorf("the message is %d characters long: %s", n, out.State.Message)
			}
		})
	}
}

// TestCreatedAgainSinceThePlan: an object of the deployed revision that has lost its marks is the release's as long as nobody creates
// it again, also while the run has not started: a plan may wait for an approval for hours (R31a).
func TestCreatedAgainSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, absent := range map[string]bool{"unmarked": false, "deleted before": true} {
		for _, serverSide := range []string{"true", "false"} {
			t.Run(name+" "+serverSide, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
				chart := func(v string) func(*kube.Deploy) {
					return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("x", nil, "v: "+v)), func(d *kube.Deploy) { d.ServerSide = serverSide })
				}
				r.Deploy("plain", chart("one"))
				r.PatchConfigMap("x", `{"metadata":{"labels":null,"annotations":null}}`)
				remove := func() {
					if err := maps.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if absent {
					remove()
				}
				op, err := r.Upgrade("plain", chart("two"))
				if !absent {
					remove()
				}
				r.Create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {mine: mine}\n")
				r.MustFail(op, err, "ConfigMap/x already exists", "not managed by Helm")
				if x, err := maps.Get(t.Context(), "x", metav1.GetOptions{}); err != nil || len(x.Data) != 1 || x.Labels != nil {
					t.Errorf("x is %v, %v", x, err)
				}
			})
		}
	}
}
