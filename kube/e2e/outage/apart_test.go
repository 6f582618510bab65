package outage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestAggregatedAPIFailsMidway: the API of one kind becomes unavailable (503) during a run. The
// timeouts of other objects continue, the waiting group reports which API is unavailable and
// why, and the API server is not reported as unreachable. It does not run in parallel, like
// TestAggregatedAPIDown.
func TestAggregatedAPIFailsMidway(t *testing.T) {
	r := rig.New(t)
	api := r.Namespace + ".example"
	r.Create(rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil,
		"spec: {group: "+api+", scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}"))
	r.Eventually("the kind is served", func() bool {
		_, err := r.Cluster.Discovery().ServerResourcesForGroupVersion(api + "/v1")
		return err == nil
	})
	services := r.Client.Dynamic.Resource(apiServiceResource)
	t.Cleanup(func() {
		_ = r.Client.Dynamic.Resource(rig.CRDResource).Delete(context.Background(), "things."+api, metav1.DeleteOptions{})
		removeAPI(r, api)
	})
	breakAPI := func() {
		_, err := services.Patch(t.Context(), "v1."+api, types.MergePatchType, []byte(`{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":null}},
			"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"`+r.Namespace+`","name":"nowhere"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
		r.Eventually("the APIService is not available", func() bool {
			u, err := services.Get(t.Context(), "v1."+api, metav1.GetOptions{})
			return err == nil && strings.Contains(fmt.Sprint(u.Object["status"]), "ServiceNotFound")
		})
	}
	chart := rig.ChartOf(t, rig.Object(api+"/v1/Thing/x", rig.Group("things")), rig.Deployment("stuck", rig.Group("slow"), "1h"), rig.ConfigMap("end", rig.Group("end", "slow", "things")))
	op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) {
		i.ReadinessTimeout, i.Timeout, i.BreakOn = 3*time.Second, time.Minute, []string{"edge:things"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused {
			breakAPI()
			op.Command(event.Command{Name: event.Resume})
		}
	})
	if _, err := r.Cluster.Discovery().ServerResourcesForGroupVersion(api + "/v1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the API responds with %v", err)
	}
	if out.State.Exit != 1 || strings.Contains(out.State.Message, "--timeout)") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	for object, says := range map[string]string{"stuck": "gave up after 3s (--readiness-timeout)", "x": "the API of group " + api + " does not respond; APIService v1." + api + ": Available is False: ServiceNotFound"} {
		failure := ""
		for _, e := range out.Events {
			if e.Object != nil && e.Object.Name == object && e.Status == event.Failed {
				failure += e.Message + "; " + e.Cause
			}
		}
		if !strings.Contains(failure, says) {
			t.Errorf("%s failed with %q, want %q", object, failure, says)
		}
	}
	for _, e := range out.Events {
		if e.Kind == event.KindServer {
			t.Errorf("the API server is reported unreachable: %s", e.Message)
		}
	}
}

var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
