package upgrade

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestUnservedVersion: the cluster no longer serves the version in which a release has applied an object, but it has the object in
// another one. A removal deletes it (R31).
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			kind := r.CreateThings()
			api := kind.API
			things := func(version string) error {
				_, err := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: api, Version: version, Resource: "things"}).Namespace(r.Namespace).Get(t.Context(), "it", metav1.GetOptions{})
				return err
			}
			remove(r, api, func() {
				if err := things("v2"); err != nil {
					t.Fatal(err)
				}
				kind.StopServing()
			})
			if err := things("v2"); !apierrors.IsNotFound(err) {
				t.Errorf("the object is left: %v", err)
			}
		})
	}
}
