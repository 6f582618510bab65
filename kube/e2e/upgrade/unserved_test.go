package upgrade

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestUnservedVersion: the cluster no longer serves the version in which a release has applied an object, but it has the object in
// another one. A removal deletes it, and a rollback to that version is refused before the first write (R29, R31).
func TestUnservedVersion(t *testing.T) {
	t.Parallel()
	chart := func(docs ...string) func(*kube.Deploy) { return rig.UseChart(rig.ChartOf(t, docs...), nil) }
	config := rig.ConfigMap("config", nil)
	for name, remove := range map[string]func(r *rig.Rig, api string, stopServing func()){
		"uninstall": func(r *rig.Rig, api string, stopServing func()) {
			r.Deploy("plain", chart(rig.Object(api+"/v1/Thing/it", nil), config))
			stopServing()
			r.MustRun(r.Uninstall())
		},
		"upgrade": func(r *rig.Rig, api string, stopServing func()) {
			r.Deploy("plain", chart(rig.Object(api+"/v1/Thing/it", nil), config))
			stopServing()
			r.MustRun(r.Upgrade("plain", chart(config)))
		},
		"leftover": func(r *rig.Rig, api string, stopServing func()) {
			r.Deploy("plain", chart(config))
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Object(api+"/v1/Thing/it", nil), config, rig.FailingJob(nil)), func(u *kube.Deploy) { u.WaitForJobs = plan.AllJobs }))
			r.MustFail(op, err)
			stopServing()
			r.MustRun(r.Upgrade("plain", chart(config)))
		},
		"rollback": func(r *rig.Rig, api string, stopServing func()) {
			r.Deploy("plain", chart(rig.Object(api+"/v1/Thing/it", nil), config))
			r.MustRun(r.Upgrade("plain", chart(rig.Object(api+"/v2/Thing/it", nil), config)))
			stopServing()
			since := time.Now()
			_, err := r.Rollback(1)
			r.MustRefuse(since, err, "Thing/it", "the cluster has no kind Thing ("+api+"/v1)")
			r.MustRun(r.Upgrade("plain", chart(config)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			api := r.Namespace + ".example.com"
			schemaOf := "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
			r.Create(rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
				"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}", "  versions:",
				"  - {name: v1, served: true, storage: false, "+schemaOf+"}", "  - {name: v2, served: true, storage: true, "+schemaOf+"}"))
			crds := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
			things := func(version string) error {
				_, err := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: api, Version: version, Resource: "things"}).Namespace(r.Namespace).Get(t.Context(), "it", metav1.GetOptions{})
				return err
			}
			served := func(version string) bool {
				list, err := r.Cluster.Discovery().ServerResourcesForGroupVersion(api + "/" + version)
				return err == nil && len(list.APIResources) > 0
			}
			r.Eventually("v1 is served", func() bool { return served("v1") && served("v2") })
			remove(r, api, func() {
				if err := things("v2"); err != nil {
					t.Fatal(err)
				}
				if _, err := crds.Patch(t.Context(), "things."+api, types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
				r.Eventually("v1 is not served", func() bool { return !served("v1") })
				r.Client = rig.Connect(t, r.Namespace)
			})
			if err := things("v2"); !apierrors.IsNotFound(err) {
				t.Errorf("the object is left: %v", err)
			}
		})
	}
}
