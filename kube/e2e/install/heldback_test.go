package install

import (
	"maps"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/e2e/rig"
)

// notes returns the notes of the objects at the end of a run, by name.
func notes(out rig.Outcome) map[string]string {
	got := map[string]string{}
	for g := range out.State.GroupStates() {
		for _, o := range g.Objects {
			if o.Note != "" {
				got[o.Object.Kind+"/"+o.Object.Name] = o.Note
			}
		}
	}
	return got
}

func assertNotes(t *testing.T, out rig.Outcome, want map[string]string) {
	t.Helper()
	got := notes(out)
	for name, note := range want {
		if got[name] != note {
			t.Errorf("the note of %s is %q, want %q", name, got[name], note)
		}
	}
	if len(got) != len(want) {
		t.Errorf("notes %v, want %v", got, want)
	}
}

// podsOf returns a workload whose pods run one version of an image.
func podsOf(kind, name, version, spec string) string {
	return rig.Object("apps/v1/"+kind+"/"+name, nil, "spec:\n  "+spec, "  selector: {matchLabels: {app: "+name+"}}",
		"  template:", "    metadata: {labels: {app: "+name+"}}", "    spec: {containers: [{name: c, image: 'registry.test/c:"+version+"'}]}")
}

// TestUpdateLeftToPeople: an update that OnDelete leaves to people is ready once the pods are, with a note; so is a workload
// that runs no pods, and one whose pods nothing replaces (R22).
func TestUpdateLeftToPeople(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	version := func(v string) []string {
		return []string{
			podsOf("StatefulSet", "keep", v, "replicas: 2\n  serviceName: keep\n  updateStrategy: {type: OnDelete}"),
			podsOf("DaemonSet", "agent", v, "updateStrategy: {type: OnDelete}"),
			podsOf("Deployment", "idle", v, "replicas: 0"),
			podsOf("ReplicaSet", "bare", v, "replicas: 2"),
			rig.Object("v1/ReplicationController/old", nil, "spec:", "  replicas: 1", "  selector: {app: old}", "  template:", "    metadata: {labels: {app: old}}",
				"    spec: {containers: [{name: c, image: 'registry.test/c:"+v+"'}]}"),
		}
	}
	out := r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, version("1")...), nil)))
	want := map[string]string{"Deployment/idle": "0 replicas: no pod runs"}
	assertNotes(t, out, want)
	want["StatefulSet/keep"] = "2 pods still run the old version: OnDelete"
	want["DaemonSet/agent"] = "2 pods still run the old version: OnDelete" // on two nodes
	want["ReplicaSet/bare"] = "2 pods still run the old version: a ReplicaSet does not replace its pods"
	want["ReplicationController/old"] = "1 pod still runs the old version: a ReplicationController does not replace its pods"
	out = r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, version("2")...), nil)))
	assertNotes(t, out, want)
	if !out.HasWarning("R22", "ReplicaSet/bare: its pod template changes, but a ReplicaSet does not replace its pods") || !out.HasWarning("R22", "ReplicationController/old: ") {
		t.Errorf("warnings %+v", out.State.Warnings)
	}
	v := r.OpenView(0)
	<-v.View.Seen()
	v.View.Explain(t.Context())
	v.Await("the notes of the view", func(s *event.State) bool { return maps.Equal(notes(rig.Outcome{State: *s}), want) })
	v.Stop()
	assertNotes(t, r.MustRun(r.Rollback(1)), map[string]string{"Deployment/idle": "0 replicas: no pod runs"}) // their pods are those of revision 1
}

// TestClaimWithoutConsumer: a claim of a class that waits for the first pod is ready, with a note, so that the group of that
// pod starts; the note is gone once the claim is bound (R22).
func TestClaimWithoutConsumer(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Provisioner: "sandbox/volumes",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
	if _, err := r.Cluster.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Cluster.StorageV1().StorageClasses().Delete(t.Context(), r.Namespace, metav1.DeleteOptions{}) // the cluster ends, too
	})
	claim := func(name string, annotations map[string]string) string {
		return rig.Object("v1/PersistentVolumeClaim/"+name, annotations,
			"spec: {storageClassName: "+r.Namespace+", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}")
	}
	db := rig.Object("apps/v1/Deployment/db", rig.Group("db", "storage"), "spec:", "  selector: {matchLabels: {app: db}}",
		"  template:", "    metadata: {labels: {app: db}}", "    spec:",
		"      containers: [{name: db, image: 'registry.test/db:1', volumeMounts: [{name: d, mountPath: /d}]}]",
		"      volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]")
	chart := rig.ChartOf(t, claim("data", rig.Group("storage")), claim("unused", rig.Group("storage")), db)
	out := r.MustRun(r.Install("plain", rig.UseChart(chart, nil)))
	const note = "no volume until a pod uses it: StorageClass "
	assertNotes(t, out, map[string]string{"PersistentVolumeClaim/unused": note + r.Namespace + " has WaitForFirstConsumer"})
	if bound, err := r.Cluster.CoreV1().PersistentVolumeClaims(r.Namespace).Get(t.Context(), "data", metav1.GetOptions{}); err != nil || bound.Status.Phase != "Bound" {
		t.Errorf("the claim that is used: %v, %v", bound.Status.Phase, err)
	}
}
