package diagnose

import (
	"fmt"
	"strings"
	"testing"
)

// TestClaims covers the reasons why a claim has no volume.
func TestClaims(t *testing.T) {
	claim := func(spec string) string {
		return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: ns}\nspec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}, " + spec + "}\nstatus: {phase: Pending}"
	}
	class := func(rest string) string {
		return "\n---\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, " + rest + "}"
	}
	ofClass := claim("storageClassName: fast")
	for _, tt := range []struct{ name, text, want string }{
		{"no such class", ofClass, "no volume: StorageClass fast does not exist, and no volume of that class fits 1Gi, ReadWriteMany"},
		{"no class", claim(`storageClassName: ""`), `no volume: it requests no StorageClass (storageClassName: ""), and no existing volume fits 1Gi, ReadWriteMany`},
		{"no default class", claim(""), "no volume: it names no StorageClass, and there is no default"},
		{"waits for a pod", ofClass + class("provisioner: x, volumeBindingMode: WaitForFirstConsumer"),
			"no volume: StorageClass fast provisions one only once a pod that uses it is scheduled (WaitForFirstConsumer); put the claim into that pod's group"},
		{"by hand, waits for a pod", ofClass + class("provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer"),
			"no volume: StorageClass fast binds one only once a pod that uses it is scheduled (WaitForFirstConsumer); put the claim into that pod's group"},
		{"by hand", ofClass + class("provisioner: kubernetes.io/no-provisioner"), "no volume: StorageClass fast does not provision volumes, and no existing volume fits 1Gi, ReadWriteMany"},
		{"provisioner does not run", ofClass + class("provisioner: csi.example.com"), "no volume: provisioner csi.example.com of StorageClass fast has not created one, and no CSIDriver with that name is installed"},
		{"provisioner is no CSI driver", ofClass + class("provisioner: rancher.io/local-path"), "no volume: provisioner rancher.io/local-path of StorageClass fast has not created one"},
		{"provisioning failed", ofClass + class("provisioner: csi.example.com") + incident("e", "c", "PersistentVolumeClaim", "ProvisioningFailed", "disk quota exceeded"), "no volume: disk quota exceeded"},
		{"volume does not fit", claim("volumeName: tiny") + incident("e", "c", "PersistentVolumeClaim", "VolumeMismatch", "requested PV is too small"), "no volume: requested PV is too small"},
		{"no such volume", claim("volumeName: none"), "no volume: volume none does not exist"},
		{"lost", strings.Replace(claim("volumeName: old"), "Pending", "Lost", 1), "lost its volume old: it was deleted or is bound to another claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := cluster(t, tt.text)
			r := d.Object(t.Context(), named("", "PersistentVolumeClaim", "c"))
			if r.Cause != tt.want {
				t.Errorf("%q\nwant %q", r.Cause, tt.want)
			}
			if evidence := strings.Join(r.Evidence, "; "); strings.Contains(evidence, "cannot be read") {
				t.Errorf("evidence %q", evidence)
			}
		})
	}
	unscheduled := `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available: 2 %s."}]`
	noneFits := fmt.Sprintf(unscheduled, "node(s) didn't find available persistent volumes to bind")
	byHand := class("provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer")
	onDemand := class("provisioner: x, volumeBindingMode: WaitForFirstConsumer")
	notFound := incident("e", "c", "PersistentVolumeClaim", "ProvisioningFailed", `storageclass.storage.k8s.io "fast" not found`)
	for _, tt := range []struct{ name, status, text, want, evidence string }{
		{"no such class", fmt.Sprintf(unscheduled, "pod has unbound immediate PersistentVolumeClaims"), notFound,
			"pod db-0 cannot be scheduled: claim c has no volume: StorageClass fast does not exist, and no volume of that class fits 1Gi, ReadWriteMany",
			`claim c: ProvisioningFailed: storageclass.storage.k8s.io "fast" not found`},
		{"no volume for the pod", noneFits, byHand,
			"pod db-0 cannot be scheduled: claim c has no volume: StorageClass fast does not provision volumes, and no existing volume fits 1Gi, ReadWriteMany", "claim c is pending"},
		{"waits for the pod", noneFits, onDemand, "cannot be scheduled: 2 of 2 nodes didn't find available persistent volumes to bind", ""},
		{"by hand, before the scheduler", "phase: Pending", byHand, "pod db-0: being created", ""},
		{"on demand, before the scheduler", "phase: Pending", onDemand, "pod db-0: being created", ""},
	} {
		t.Run("of a StatefulSet's pod: "+tt.name, func(t *testing.T) {
			p := strings.Replace(pod("db-0", "d", tt.status), "spec: {nodeName: n1, ", "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], ", 1)
			d, _ := cluster(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns, uid: d}, spec: {replicas: 1, selector: {matchLabels: {app: api}}}}\n---\n"+
				p+"\n---\n"+ofClass+tt.text)
			r := d.Object(t.Context(), named("apps", "StatefulSet", "db"))
			if r.Cause != tt.want {
				t.Errorf("%q\nwant %q", r.Cause, tt.want)
			}
			if tt.evidence != "" && !strings.HasPrefix(r.Evidence[0], tt.evidence) {
				t.Errorf("evidence %q, want first %q", r.Evidence, tt.evidence)
			}
		})
	}
}

// TestClaimOfEarlierTemplate: a claim without a volume that an earlier version of its StatefulSet has made keeps its class, so the
// cause says how to get rid of it.
func TestClaimOfEarlierTemplate(t *testing.T) {
	for template, want := range map[string]string{
		"storageClassName: fast": "",
		"storageClassName: slow": "; the StatefulSet asks for StorageClass slow now, but a claim keeps its class; this one holds no data, so delete it: kubectl delete pvc data-db-0 -n ns",
		"":                       "; the StatefulSet asks for StorageClass standard now, but a claim keeps its class; this one holds no data, so delete it: kubectl delete pvc data-db-0 -n ns",
	} {
		p := strings.Replace(pod("db-0", "d", "phase: Pending"), "spec: {nodeName: n1, ", "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data-db-0}}], ", 1)
		d, _ := cluster(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns, uid: d}, spec: {replicas: 1, selector: {matchLabels: {app: api}}, volumeClaimTemplates: [{metadata: {name: data}, spec: {"+template+"}}]}}\n---\n"+
			p+"\n---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-0, namespace: ns}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}\n---\n"+
			"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}, provisioner: x}")
		want = "pod db-0 cannot be scheduled: claim data-db-0 has no volume: StorageClass fast does not exist, and no volume of that class fits 1Gi, ReadWriteOnce" + want
		if r := d.Object(t.Context(), named("apps", "StatefulSet", "db")); r.Cause != want {
			t.Errorf("%q\nwant %q", r.Cause, want)
		}
	}
}
