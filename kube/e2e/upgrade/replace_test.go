package upgrade

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// pods is the end of an object with a pod template whose pods have labels.
func pods(labels string) string {
	return "  template:\n    metadata: {labels: {" + labels + "}}\n    spec: {containers: [{name: main, image: example/app:1.0}]}"
}

// statefulSet returns a StatefulSet with two pods, each with a claim.
func statefulSet(selector, labels, size string, more ...string) string {
	lines := []string{"spec:", "  replicas: 2", "  selector: {matchLabels: {" + selector + "}}",
		"  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}}}]"}
	return rig.Object("apps/v1/StatefulSet/set", nil, append(append(lines, more...), pods(labels))...)
}

// transition is a change of an object that Kubernetes refuses. $ in it is the namespace of the test.
type transition struct {
	object, kind string // KIND/NAME and the resource
	old, next    string
	field        string // that the API server names
	says         string // what is deleted with it
	byName       bool   // the kind alone does not replace it
	keepsPods    bool   // the pods and claims of the StatefulSet stay as they are
}

func transitions() map[string]transition {
	set := func(old, next, field, says string, keeps bool) transition {
		return transition{"StatefulSet/set", "statefulsets.v1.apps", old, next, field, says, false, keeps}
	}
	workload := func(kind, resource string) transition {
		text := func(labels string) string {
			return rig.Object("apps/v1/"+kind+"/it", nil, "spec:", "  selector: {matchLabels: {"+labels+"}}", pods(labels))
		}
		return transition{kind + "/it", resource + ".v1.apps", text("app: it"), text("app: it, tier: web"), "spec.selector", "its pods are deleted with it", false, false}
	}
	simple := func(what, resource, old, next, field string) transition {
		parts := strings.Split(what, "/")
		return transition{parts[len(parts)-2] + "/" + parts[len(parts)-1], resource, rig.Object(what, nil, old), rig.Object(what, nil, next), field, "", false, false}
	}
	job := func(old, next, field string) transition {
		text := func(more string) string { return rig.Job("it", nil, "0s", more) }
		return transition{"Job/it", "jobs.v1.batch", text(old), text(next), field, "its pods are deleted with it", false, false}
	}
	claim := func(old, next, field string) transition {
		x := simple("v1/PersistentVolumeClaim/it", "persistentvolumeclaims.v1.", old, next, field)
		x.says, x.byName = "its data is deleted with it", true
		return x
	}
	service := simple("v1/Service/it", "services.v1.", "spec: {ports: [{port: 80}]}", "spec: {clusterIP: None, ports: [{port: 80}]}", "spec.clusterIPs[0]: may not change once set")
	service.says = "its cluster IP"
	crd := func(scope string) string {
		return rig.LateKind{Kind: "Gear", Plural: "gears", Scope: scope, API: "$.example"}.CRD(nil)
	}
	const class, rbac = "storage.k8s.io/v1/StorageClass/$", "rbac.authorization.k8s.io"
	role := func(kind, name, resource string) transition {
		text := func(role string) string {
			return "roleRef: {apiGroup: " + rbac + ", kind: ClusterRole, name: " + role + "}"
		}
		return simple(rbac+"/v1/"+kind+"/"+name, resource+".v1."+rbac, text("view"), text("edit"), "roleRef")
	}
	image := transition{"Job/it", "jobs.v1.batch", rig.Job("it", nil, "0s"), strings.ReplaceAll(rig.Job("it", nil, "0s"), "app:1.0", "app:2.0"), "spec.template", "its pods are deleted with it", false, false}
	return map[string]transition{
		"Deployment, selector":                workload("Deployment", "deployments"),
		"DaemonSet, selector":                 workload("DaemonSet", "daemonsets"),
		"ReplicaSet, selector":                workload("ReplicaSet", "replicasets"),
		"StatefulSet, selector":               set(statefulSet("app: set", "app: set", "1Gi"), statefulSet("app: set, tier: db", "app: set, tier: db", "1Gi"), "spec.selector", "its pods are deleted with it; its claims stay", false),
		"StatefulSet, smaller selector":       set(statefulSet("app: set, tier: db", "app: set, tier: db", "1Gi"), statefulSet("app: set", "app: set, tier: db", "1Gi"), "spec.selector", "its pods and claims stay", true),
		"StatefulSet, volumeClaimTemplates":   set(statefulSet("app: set", "app: set", "1Gi"), statefulSet("app: set", "app: set", "2Gi"), "spec.volumeClaimTemplates", "its pods and claims stay", true),
		"StatefulSet, serviceName":            set(statefulSet("app: set", "app: set", "1Gi", "  serviceName: a"), statefulSet("app: set", "app: set", "1Gi", "  serviceName: b"), "spec.serviceName", "its pods and claims stay", true),
		"StatefulSet, podManagementPolicy":    set(statefulSet("app: set", "app: set", "1Gi"), statefulSet("app: set", "app: set", "1Gi", "  podManagementPolicy: Parallel"), "spec.podManagementPolicy", "its pods and claims stay", true),
		"StatefulSet, fewer replicas":         set(statefulSet("app: set", "app: set", "1Gi"), strings.Replace(statefulSet("app: set", "app: set", "2Gi"), "replicas: 2", "replicas: 1", 1), "spec.volumeClaimTemplates", "it is scaled down to 1 replica; its claims stay", false),
		"Service, clusterIP":                  service,
		"Job, template":                       image,
		"Job, completionMode":                 job("", "  completionMode: Indexed\n  completions: 1", "spec.completionMode"),
		"Job, completions":                    job("  completions: 1", "  completions: 2", "spec.completions"),
		"StorageClass, parameters":            simple(class, "storageclasses.v1.storage.k8s.io", "provisioner: a.example/b\nparameters: {a: b}", "provisioner: a.example/b\nparameters: {a: c}", "parameters"),
		"StorageClass, provisioner":           simple(class, "storageclasses.v1.storage.k8s.io", "provisioner: a.example/b", "provisioner: a.example/c", "provisioner"),
		"PersistentVolumeClaim, shrink":       claim("spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}", "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", "spec.resources.requests.storage: field can not be less than status.capacity"),
		"PersistentVolumeClaim, accessModes":  claim("spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", "spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}", "spec.accessModes"),
		"PersistentVolumeClaim, storageClass": claim("spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", "spec: {storageClassName: standard, volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", "spec.storageClassName"),
		"IngressClass, controller":            simple("networking.k8s.io/v1/IngressClass/$", "ingressclasses.v1.networking.k8s.io", "spec: {controller: a.example/b}", "spec: {controller: a.example/c}", "spec.controller"),
		"Secret, type":                        simple("v1/Secret/it", "secrets.v1.", "type: a.example/b\nstringData: {a: b}", "type: a.example/c\nstringData: {a: b}", "type"),
		"Secret, immutable":                   simple("v1/Secret/it", "secrets.v1.", "immutable: true\nstringData: {a: b}", "immutable: true\nstringData: {a: c}", "data: field is immutable when `immutable` is set"),
		"ConfigMap, immutable":                simple("v1/ConfigMap/it", "configmaps.v1.", "immutable: true\ndata: {a: b}", "immutable: true\ndata: {a: c}", "data: field is immutable when `immutable` is set"),
		"ConfigMap, mutable again":            simple("v1/ConfigMap/it", "configmaps.v1.", "immutable: true\ndata: {a: b}", "data: {a: b}", "immutable: field is immutable when `immutable` is set"),
		"RoleBinding, roleRef":                role("RoleBinding", "it", "rolebindings"),
		"ClusterRoleBinding, roleRef":         role("ClusterRoleBinding", "$", "clusterrolebindings"),
		"PriorityClass, value":                simple("scheduling.k8s.io/v1/PriorityClass/$", "priorityclasses.v1.scheduling.k8s.io", "value: 10", "value: 11", "value: may not be changed in an update"),
		"RuntimeClass, handler":               simple("node.k8s.io/v1/RuntimeClass/$", "runtimeclasses.v1.node.k8s.io", "handler: a", "handler: b", "handler"),
		"CSIDriver, attachRequired":           simple("storage.k8s.io/v1/CSIDriver/$", "csidrivers.v1.storage.k8s.io", "spec: {attachRequired: true}", "spec: {attachRequired: false}", "spec.attachedRequired"),
		"CustomResourceDefinition, scope":     {"CustomResourceDefinition/gears.$.example", "customresourcedefinitions.v1.apiextensions.k8s.io", crd("Namespaced"), crd("Cluster"), "spec.scope", "", true, false},
	}
}

// uids returns the UID of an object, and those of the pods and claims of the namespace.
func uids(r *rig.Rig, resource, name string) (object types.UID, others map[string]types.UID) {
	r.T.Helper()
	gvr, _ := schema.ParseResourceArg(resource)
	others = map[string]types.UID{}
	list := func(gvr schema.GroupVersionResource, namespace string) map[string]types.UID {
		l, err := r.Client.Metadata.Resource(gvr).Namespace(namespace).List(r.T.Context(), metav1.ListOptions{})
		if err != nil {
			r.T.Fatal(err)
		}
		out := map[string]types.UID{}
		for _, o := range l.Items {
			out[o.Name] = o.UID
		}
		return out
	}
	namespace := r.Namespace
	if strings.Contains(name, r.Namespace) { // cluster-scoped
		namespace = ""
	}
	object = list(*gvr, namespace)[name]
	for _, resource := range []string{"pods", "persistentvolumeclaims"} {
		for name, uid := range list(schema.GroupVersionResource{Version: "v1", Resource: resource}, r.Namespace) {
			others[resource+"/"+name] = uid
		}
	}
	return object, others
}

// TestReplacement: what Kubernetes refuses to update is in the plan with the field, and --replace deletes it and creates it
// again, in an upgrade and in a rollback; otherwise it is refused before the first write. Pods and claims of StatefulSets stay
// (R30b).
func TestReplacement(t *testing.T) {
	t.Parallel()
	for name, tt := range transitions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			for _, text := range []*string{&tt.object, &tt.old, &tt.next} {
				*text = strings.ReplaceAll(*text, "$", r.Namespace)
			}
			kind, objectName, _ := strings.Cut(tt.object, "/")
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, tt.old), nil))
			before, others := uids(r, tt.kind, objectName)
			to := func(replace ...string) (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, tt.next), func(u *kube.Deploy) { u.ReplaceObjects = replace }))
			}
			start := time.Now()
			_, err := to()
			r.MustRefuse(start, err, tt.object, tt.field, "--replace "+tt.object)
			if tt.byName {
				if _, err := to(kind); err == nil || !strings.Contains(err.Error(), kind+"/NAME") {
					t.Errorf("--replace %s: %v", kind, err)
				}
				kind = tt.object
			}
			op, err := to(kind)
			_, changes := r.Changes(op, err)
			if c := changes[tt.object]; c.Action != inspect.Replace || !strings.Contains(c.Message, tt.field) || !strings.Contains(c.Message, tt.says) || c.Diff == "" {
				t.Errorf("the plan says %s %q\n%s", c.Action, c.Message, c.Diff)
			}
			out := r.MustRun(op, nil)
			if c := out.State.Changes(); c.Replaced != 1 || c.Created+c.Deleted > 0 {
				t.Errorf("the outcome counts %s", c)
			}
			after, othersAfter := uids(r, tt.kind, objectName)
			if after == before || after == "" {
				t.Errorf("the object had UID %q, and has %q", before, after)
			}
			for name, uid := range others {
				if isClaim := strings.HasPrefix(name, "persistentvolumeclaims/"); othersAfter[name] != uid && (tt.keepsPods || isClaim && !tt.byName) {
					t.Errorf("%s was %s, and is %q", name, uid, othersAfter[name])
				}
			}
			rb := kube.Rollback{Common: r.Common(), Revision: 1}
			start = time.Now()
			_, err = r.Client.PrepareRollback(t.Context(), rb)
			if err != nil {
				r.MustRefuse(start, err, tt.object, "--replace "+tt.object)
			}
			rb.ReplaceObjects = []string{kind}
			out = r.MustRun(r.Client.PrepareRollback(t.Context(), rb))
			if uid, _ := uids(r, tt.kind, objectName); (err != nil || out.State.Changes().Replaced > 0) && uid == after {
				t.Errorf("the rollback has not replaced %s", uid)
			}
		})
	}
}

// fixedOf returns a chart with a Deployment whose selector is version, in a group before a failing one.
func fixedOf(t *testing.T, version string, more ...string) *charts.Chart {
	fixed := strings.ReplaceAll(rig.Deployment("fixed", rig.Group("one"), "0s"), "{app: fixed}", "{app: fixed, v: "+version+"}")
	return rig.ChartOf(t, append(more, rig.ConfigMap("first", rig.Group("zero"), "v: "+version),
		fixed)...)
}

// TestReplacementRolledBack: a rollback after a failure replaces again what the upgrade has replaced, and nothing else (R30b).
func TestReplacementRolledBack(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(fixedOf(t, "one"), nil))
	before, _ := uids(r, "deployments.v1.apps", "fixed")
	bad := rig.Group("bad", "one")
	bad[plan.AnnotationReadinessTimeout] = "5s" // only of this object: the rollback has more time to replace the other one
	out := r.Run(mustPrepare(r.Upgrade("plain", rig.UseChart(fixedOf(t, "two", rig.UnpullableDeployment("bad", bad)), func(u *kube.Deploy) {
		u.ReplaceObjects, u.RollbackOnFailure, u.CleanupOnFail = []string{"Deployment"}, true, true
	}))), nil)
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") {
		t.Fatalf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	after, _ := uids(r, "deployments.v1.apps", "fixed")
	if after == before || after == "" {
		t.Errorf("the Deployment had UID %q, and has %q", before, after)
	}
	d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "fixed", metav1.GetOptions{})
	if err != nil || d.Spec.Selector.MatchLabels["v"] != "one" {
		t.Errorf("after the rollback: %v, %v", d.Spec.Selector, err)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}

func mustPrepare(op *kube.Operation, err error) *kube.Operation {
	if err != nil {
		panic(err)
	}
	return op
}

// TestReplacementRefused: nothing is deleted that could not be created again, that is in use, that is not the release's own or
// not the object of the plan, or that only its name allows (R30b, R31a).
func TestReplacementRefused(t *testing.T) {
	t.Parallel()
	job := func(image string) string {
		return strings.ReplaceAll(rig.Job("it", nil, "0s"), "example/app:1.0", image)
	}
	claim := func(size string) string {
		return rig.Object("v1/PersistentVolumeClaim/it", nil, "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}")
	}
	madeAgain := func(r *rig.Rig) {
		now := metav1.DeletePropagationBackground
		if err := r.Cluster.BatchV1().Jobs(r.Namespace).Delete(t.Context(), "it", metav1.DeleteOptions{PropagationPolicy: &now}); err != nil {
			t.Fatal(err)
		}
		r.Create(job("theirs"))
	}
	gears := func(r *rig.Rig, scope string) string {
		return rig.LateKind{Kind: "Gear", Plural: "gears", Scope: scope, API: r.Namespace + ".example"}.CRD(nil)
	}
	for name, tt := range map[string]struct {
		old, next func(*rig.Rig) string
		prepare   func(*rig.Rig)
		replace   string
		says      []string
	}{
		"the new object is invalid": {
			func(*rig.Rig) string { return job("a") },
			func(*rig.Rig) string {
				return strings.ReplaceAll(job("b"), "restartPolicy: Never", "restartPolicy: Always")
			}, nil, "Job",
			[]string{"Job/it: ", "it cannot be replaced: it could not be created again", "restartPolicy"},
		},
		"the claim is in use": {
			func(*rig.Rig) string { return claim("2Gi") }, func(*rig.Rig) string { return claim("1Gi") },
			func(r *rig.Rig) {
				r.Create(rig.Object("v1/Pod/user", nil, "spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: it}}], containers: [{name: c, image: a}]}"))
			}, "PersistentVolumeClaim/it", []string{"PersistentVolumeClaim/it: ", "it cannot be replaced: in use by pod user"},
		},
		"the CRD has objects": {
			func(r *rig.Rig) string { return gears(r, "Namespaced") }, func(r *rig.Rig) string { return gears(r, "Cluster") },
			func(r *rig.Rig) { r.Create(rig.Object(r.Namespace+".example/v1/Gear/own", nil, "spec: {}")) },
			"CustomResourceDefinition/gears.$.example", []string{"it cannot be replaced: it has 1 object in 1 namespace"},
		},
		"the object is kept": {
			func(*rig.Rig) string {
				return strings.Replace(job("a"), "name: it", "name: it\n  annotations: {helm.sh/resource-policy: keep}", 1)
			},
			func(*rig.Rig) string {
				return strings.Replace(job("b"), "name: it", "name: it\n  annotations: {helm.sh/resource-policy: keep}", 1)
			}, nil, "Job", []string{"Job/it: ", "--replace Job/it"},
		},
		"somebody else has made it": {
			func(*rig.Rig) string { return job("a") }, func(*rig.Rig) string { return job("b") }, madeAgain, "Job",
			[]string{"Job/it: spec.template: field is immutable; it cannot be replaced: not owned by this release; delete it yourself"},
		},
		"somebody else has made it, and the flag does not name it": {
			func(*rig.Rig) string { return job("a") }, func(*rig.Rig) string { return job("b") }, madeAgain, "Deployment",
			[]string{"Job/it: spec.template: field is immutable; it cannot be replaced: not owned by this release; delete it yourself"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, tt.old(r)), nil))
			if tt.prepare != nil {
				tt.prepare(r)
			}
			start := time.Now()
			replace := strings.ReplaceAll(tt.replace, "$", r.Namespace)
			_, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, tt.next(r)), func(u *kube.Deploy) {
				u.ReplaceObjects, u.ForceConflicts = []string{replace}, true
			}))
			r.MustRefuse(start, err, tt.says...)
		})
	}
	for _, bad := range []string{"deployment", "Deployment/", "Deployment/a/b", "", "never,Job", "Namespace", "PersistentVolumeClaim", "CustomResourceDefinition"} {
		r := rig.New(t)
		_, err := r.Upgrade("plain", rig.UseChart(fixedOf(t, "two"), func(u *kube.Deploy) { u.ReplaceObjects = strings.Split(bad, ",") }))
		if err == nil || !strings.Contains(err.Error(), "--replace: ") {
			t.Errorf("--replace %q: %v", bad, err)
		}
	}
}

// TestReplacementOfAnotherObject: an object that somebody else has created again since the plan is not deleted (R30b).
func TestReplacementOfAnotherObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(fixedOf(t, "one"), nil))
	op, err := r.Upgrade("plain", rig.UseChart(fixedOf(t, "two"), func(u *kube.Deploy) {
		u.ReplaceObjects, u.ForceConflicts = []string{"Deployment/fixed"}, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	client := r.Cluster.AppsV1().Deployments(r.Namespace)
	other, err := client.Get(t.Context(), "fixed", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), "fixed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other.ResourceVersion, other.UID = "", ""
	if other, err = client.Create(t.Context(), other, metav1.CreateOptions{FieldManager: "helm"}); err != nil {
		t.Fatal(err)
	}
	out := r.MustFail(op, nil, "spec.selector: field is immutable; it cannot be replaced: created again by somebody else")
	if now, err := client.Get(t.Context(), "fixed", metav1.GetOptions{}); err != nil || now.UID != other.UID {
		t.Errorf("the other one is gone: %v", err)
	}
	for _, e := range out.Events {
		if e.Change == event.Replaced {
			t.Errorf("%s was replaced", fmt.Sprint(e.Object))
		}
	}
}

// TestReplacementOfAScaledStatefulSet: if somebody scales it after the plan, which said that its pods stay, nothing is deleted (R30b).
func TestReplacementOfAScaledStatefulSet(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, statefulSet("app: set", "app: set", "1Gi")), nil))
	next := rig.UseChart(rig.ChartOf(t, statefulSet("app: set", "app: set", "2Gi")), func(u *kube.Deploy) { u.ReplaceObjects, u.ForceConflicts = []string{"StatefulSet"}, true })
	op := r.Must(r.Upgrade("plain", next))
	scale := func(replicas string) {
		patch := []byte(`{"spec":{"replicas":` + replicas + `}}`)
		if _, err := r.Cluster.AppsV1().StatefulSets(r.Namespace).Patch(t.Context(), "set", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}, "scale"); err != nil {
			t.Fatal(err)
		}
		r.Eventually(replicas+" pods are ready", func() bool {
			set, err := r.Cluster.AppsV1().StatefulSets(r.Namespace).Get(t.Context(), "set", metav1.GetOptions{})
			return err == nil && fmt.Sprint(set.Status.ReadyReplicas) == replicas
		})
	}
	scale("3")
	before, pods := uids(r, "statefulsets.v1.apps", "set")
	r.MustFail(op, nil, "it cannot be replaced: it has changed since it was planned, and now it is scaled down to 2 replicas; its claims stay")
	if after, left := uids(r, "statefulsets.v1.apps", "set"); after != before || !maps.Equal(left, pods) {
		t.Errorf("before: %s, %v; after: %s, %v", before, pods, after, left)
	}
	scale("2")
	if out := r.MustRun(r.Upgrade("plain", next)); out.State.Changes().Replaced != 1 {
		t.Errorf("the outcome counts %s", out.State.Changes())
	}
}

// TestReplacementWithoutDryRuns: if a webhook does not support dry runs, the plan knows by the manifests which fields cannot change,
// and the operation is refused before its first write or replaces the object (R30b).
func TestReplacementWithoutDryRuns(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(fixedOf(t, "one"), nil))
	client := r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.Contains(q.URL.Path, "/deployments/") || !q.URL.Query().Has("dryRun") {
			return false
		}
		faultproxy.Refuse(w, http.StatusBadRequest, "BadRequest", `admission webhook "effects.example.com" does not support dry run`)
		return true
	}}, "")
	with := r.WithClient(client)
	next := func(replace ...string) func(*kube.Deploy) {
		return rig.UseChart(fixedOf(t, "two"), func(u *kube.Deploy) { u.ReplaceObjects = replace })
	}
	start := time.Now()
	_, err := with.Upgrade("plain", next())
	r.MustRefuse(start, err, "Deployment/fixed: spec.selector", "--replace Deployment/fixed")
	op, err := with.Upgrade("plain", next("Deployment"))
	_, changes := r.Changes(op, err)
	if c := changes["Deployment/fixed"]; c.Action != inspect.Replace || !strings.Contains(c.Message, "spec.selector: field is immutable; its pods are deleted with it") {
		t.Errorf("the plan says %s %q", c.Action, c.Message)
	}
	if out := r.MustRun(op, nil); out.State.Changes().Replaced != 1 {
		t.Errorf("the outcome counts %s", out.State.Changes())
	}
}

// TestReplacementAsks: with --replace=ask, the run pauses before the group of the object, and replaces it once it is continued; an
// abort leaves the object (R30b).
func TestReplacementAsks(t *testing.T) {
	t.Parallel()
	for _, command := range []event.CommandName{event.Resume, event.Abort} {
		r := rig.NewNamed(t, "replacement-asks-"+string(command))
		r.Deploy("plain", rig.UseChart(fixedOf(t, "one"), nil))
		before, _ := uids(r, "deployments.v1.apps", "fixed")
		op := r.Must(r.Upgrade("plain", rig.UseChart(fixedOf(t, "two"), func(u *kube.Deploy) { u.ReplaceObjects = []string{"ask"} })))
		paused := 0
		out := r.Run(op, func(e event.Event) {
			if e.Kind == event.KindRun && e.Status == event.Paused {
				if now, _ := uids(r, "deployments.v1.apps", "fixed"); now != before {
					t.Error("the object was replaced before the run was continued")
				}
				if want := "before Deployment/fixed is replaced (its pods are deleted with it)"; e.Message != want {
					t.Errorf("paused %q, want %q", e.Message, want)
				}
				paused++
				op.Command(event.Command{Name: command})
			}
		})
		after, _ := uids(r, "deployments.v1.apps", "fixed")
		if replaced := command == event.Resume; paused == 0 || (after != before) != replaced || (out.State.Exit == 0) != replaced {
			t.Errorf("%s: paused %d times, UID %s, then %s, exit %d", command, paused, before, after, out.State.Exit)
		}
		if !out.HasWarning("R30b", "Deployment/fixed has to be replaced: spec.selector: field is immutable; its pods are deleted with it; the run pauses") {
			t.Errorf("warnings: %v", out.State.Warnings)
		}
	}
}
