package outage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// removeAPI removes an APIService. Until all others answer again, no namespace can be deleted.
func removeAPI(r *rig.Rig, api string) {
	_ = r.Client.Dynamic.Resource(apiServiceResource).Delete(context.Background(), "v1."+api, metav1.DeleteOptions{})
	r.Eventually("all APIs answer", func() bool {
		_, _, err := r.Cluster.Discovery().ServerGroupsAndResources()
		return err == nil
	})
}

// TestAggregatedAPIDown installs and uninstalls while an aggregated API does not answer. It
// does not run in parallel, because Helm refuses to work on such a cluster.
func TestAggregatedAPIDown(t *testing.T) {
	r := rig.New(t)
	api := r.Namespace + ".example"
	r.Create(rig.Object("apiregistration.k8s.io/v1/APIService/v1."+api, nil,
		"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.Namespace+", name: nowhere}}"))
	t.Cleanup(func() { removeAPI(r, api) })
	r.Client = rig.Connect(t, r.Namespace) // knows nothing from before
	r.MustRun(r.Install("plain", rig.ShopLikeChart(t)))
	r.MustRun(r.Uninstall())

	// What needs it waits for it, and says what it waits for.
	thing := rig.Object(api+"/v1/Thing/x", rig.Group("things", "api"))
	var told []string
	needs := func(i *kube.Install) {
		i.ReadinessTimeout = 2 * time.Second
		i.OnStep = func(what string) { told = append(told, what) }
	}
	_, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, thing, rig.ConfigMap("settings", rig.Group("api"))), needs))
	down := "APIService/v1." + api + " is not available: ServiceNotFound: "
	var refusal *kube.Refusal
	if !errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), down) || refusal.Conflicts[0].Object.Name != "v1."+api {
		t.Errorf("error %v, want %s", err, down)
	}
	if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, down) && strings.HasSuffix(s, "; waiting") }) {
		t.Errorf("told %q", told)
	}

	// What brings it itself does not wait before it begins; its gate says why.
	if err := r.Client.Dynamic.Resource(apiServiceResource).Delete(t.Context(), "v1."+api, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the API is gone", func() bool {
		_, err := r.Client.Dynamic.Resource(apiServiceResource).Get(t.Context(), "v1."+api, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	own := rig.ChartOf(t, thing, rig.Object("apiregistration.k8s.io/v1/APIService/v1."+api, rig.Group("api"),
		"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.Namespace+", name: nowhere}}"))
	for range 2 { // then it is there, and down
		r.Client = rig.Connect(t, r.Namespace)
		op, err := r.Install("plain", rig.UseChart(own, needs))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.Run(op, nil); out.State.Exit != 1 || out.State.Root == nil || out.State.Root.Kind != "APIService" || !strings.Contains(out.State.Cause, "nowhere") {
			t.Errorf("exit %d: %v: %s (%s)", out.State.Exit, out.State.Root, out.State.Cause, out.State.Message)
		}
	}
}
