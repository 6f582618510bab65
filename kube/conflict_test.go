package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReplicasOfAnotherManager leaves alone the replicas that an autoscaler
// sets; where the chart sets them too, it says who owns them and how to go on.
func TestReplicasOfAnotherManager(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, deployment("app", group("a"), "0s"), configMap("after", group("b", "a"))), nil))
	if _, err := r.cluster.AppsV1().Deployments(r.namespace).Patch(t.Context(), "app", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
	replicas := func() int32 {
		d, err := r.cluster.AppsV1().Deployments(r.namespace).Get(t.Context(), "app", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *d.Spec.Replicas
	}
	r.mustRun(r.upgrade("plain", useUp(one(t, deployment("app", group("a"), "10ms"), configMap("after", group("b", "a"))), nil)))
	if n := replicas(); n != 3 {
		t.Errorf("%d replicas after an upgrade that says nothing of them, want the autoscaler's 3", n)
	}
	fixed := useUp(one(t, deployment("app", group("a"), "20ms", "  replicas: 2"), configMap("after", group("b", "a"))), nil)
	op, err := r.upgrade("plain", fixed)
	r.mustFail(op, err, "Deployment/app", `"autoscaler"`, ".spec.replicas", "--force-conflicts", "never started: edge:b")
	op, err = r.upgrade("plain", func(u *Upgrade) { fixed(u); u.ForceConflicts = true })
	r.mustRun(op, err)
	if n := replicas(); n != 2 {
		t.Errorf("%d replicas after --force-conflicts, want 2", n)
	}
}

// TestFieldConflict is told with the owner and the field, also by an install
// that takes an object over; --force-conflicts goes on in both.
func TestFieldConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "a", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"is":"mine"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	chart := one(t, configMap("a", nil))
	says := []string{"ConfigMap/a", `"somebody"`, ".data.is", "--force-conflicts"}
	op, err := r.install("plain", use(chart, func(i *Install) { i.TakeOwnership = true }))
	r.mustFail(op, err, says...)
	r.deploy("plain", use(chart, func(i *Install) { i.TakeOwnership, i.ForceConflicts, i.Replace = true, true, true }))
	r.patchConfigMap("a", `{"data":{"is":"theirs"}}`)
	op, err = r.upgrade("plain", useUp(chart, nil))
	r.mustFail(op, err, says...)
	op, err = r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.ForceConflicts = true }))
	r.mustRun(op, err)
	a, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || a.Data["is"] != "a" {
		t.Errorf("data %v, %v", a.Data, err)
	}
}

// TestImmutableField names the object and the field, and says what can be done.
func TestImmutableField(t *testing.T) {
	service := func(ip string) string {
		return object("v1/Service/front", nil, "spec: {clusterIP: "+ip+", ports: [{port: 80}]}")
	}
	selector := func(label string) string {
		return strings.ReplaceAll(deployment("app", nil, "0s"), "{app: app}", "{app: "+label+"}")
	}
	claim := func(size string) string {
		return object("apps/v1/StatefulSet/state", nil, "spec:", "  serviceName: state", "  selector: {matchLabels: {app: state}}",
			"  template: {metadata: {labels: {app: state}}, spec: {containers: [{name: main, image: example/app:1.0}]}}",
			"  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}}]")
	}
	tests := map[string]struct {
		old, new, object, field string
	}{
		"job":         {job("work", nil, "0s"), strings.ReplaceAll(job("work", nil, "0s"), "app:1.0", "app:2.0"), "Job/work", "spec.template"},
		"service":     {service(`""`), service("None"), "Service/front", "spec.clusterIPs"},
		"deployment":  {selector("one"), selector("two"), "Deployment/app", "spec.selector"},
		"statefulset": {claim("1Gi"), claim("2Gi"), "StatefulSet/state", "spec"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, tt.old), nil))
			op, err := r.upgrade("plain", useUp(one(t, tt.new), nil))
			out := r.mustFail(op, err, tt.object, tt.field, "delete the object")
			if n := len(out.state.Message); n > 700 {
				t.Errorf("the message is %d characters long: %s", n, out.state.Message)
			}
		})
	}
}
