package outage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// removeAPI deletes an APIService and waits until discovery works again, which other tests need.
func removeAPI(r *rig.Rig, api string) {
	_ = r.Client.Dynamic.Resource(apiServiceResource).Delete(context.Background(), "v1."+api, metav1.DeleteOptions{})
	r.Eventually("discovery works", func() bool {
		_, _, err := r.Cluster.Discovery().ServerGroupsAndResources()
		return err == nil
	})
}

// TestAggregatedAPIDown installs and uninstalls while an aggregated API does not respond. It does not run in parallel,
// because Helm refuses to work with such a cluster.
func TestAggregatedAPIDown(t *testing.T) {
	r := rig.New(t)
	api := r.Namespace + ".example"
	r.Create(rig.Object("apiregistration.k8s.io/v1/APIService/v1."+api, nil,
		"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.Namespace+", name: nowhere}}"))
	t.Cleanup(func() { removeAPI(r, api) })
	r.Client = rig.Connect(t, r.Namespace) // without cached discovery
	r.MustRun(r.Install("plain", rig.ShopLikeChart(t)))
	r.MustRun(r.Uninstall())

	// An install with an object of an API whose Service does not exist is refused at once, and so is its plan.
	thing := rig.Object(api+"/v1/Thing/x", rig.Group("things", "api"))
	var steps []string
	needs := func(i *kube.Deploy) {
		i.ReadinessTimeout = 2 * time.Second
		i.OnStep = func(what string) { steps = append(steps, what) }
	}
	_, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, thing, rig.ConfigMap("settings", rig.Group("api"))), needs))
	down := "APIService/v1." + api + " is not available: ServiceNotFound: "
	var refusal *kube.Refusal
	if !errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), down) || refusal.Conflicts[0].Object.Name != "v1."+api {
		t.Errorf("error %v, want %s", err, down)
	}
	waits := func(s string) bool {
		return strings.HasPrefix(s, "APIService/v1."+api+" is not available: ") && strings.HasSuffix(s, "; waiting")
	}
	if slices.ContainsFunc(steps, waits) {
		t.Errorf("steps %q, want no wait", steps)
	}
	// While the Service exists and has no endpoints yet, the install waits, and reports that.
	r.Create(rig.Object("v1/Service/nowhere", nil, "spec: {ports: [{port: 443}], selector: {app: nowhere}}"))
	r.Eventually("the Service has no endpoints", func() bool {
		u, err := r.Client.Dynamic.Resource(apiServiceResource).Get(t.Context(), "v1."+api, metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(u.Object["status"]), "MissingEndpoints")
	})
	waited := false
	_, err = r.Install("plain", rig.UseChart(rig.ChartOf(t, thing, rig.ConfigMap("settings", rig.Group("api"))), func(i *kube.Deploy) {
		i.Timeout, i.ReadinessTimeout = time.Hour, time.Hour
		i.OnStep = func(what string) {
			if waits(what) && !waited {
				waited = true
				_ = r.Client.Dynamic.Resource(apiServiceResource).Delete(context.Background(), "v1."+api, metav1.DeleteOptions{})
			}
		}
	}))
	if !waited || err == nil || !strings.Contains(err.Error(), "no kind Thing") {
		t.Errorf("waited: %v, error %v", waited, err)
	}
	if err := r.Cluster.CoreV1().Services(r.Namespace).Delete(t.Context(), "nowhere", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	// If the chart itself has the APIService, the install starts, and the APIService's group fails with the reason.
	r.Eventually("the API is gone", func() bool {
		_, err := r.Client.Dynamic.Resource(apiServiceResource).Get(t.Context(), "v1."+api, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	own := rig.ChartOf(t, thing, rig.Object("apiregistration.k8s.io/v1/APIService/v1."+api, rig.Group("api"),
		"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.Namespace+", name: nowhere}}"))
	for range 2 { // the second time the APIService already exists
		r.Client = rig.Connect(t, r.Namespace)
		op := r.Must(r.Install("plain", rig.UseChart(own, needs)))
		if out := r.Run(op, nil); out.State.Exit != 1 || out.State.FailedObject == nil || out.State.FailedObject.Kind != "APIService" || !strings.Contains(out.State.Cause, "nowhere") {
			t.Errorf("exit %d: %v: %s (%s)", out.State.Exit, out.State.FailedObject, out.State.Cause, out.State.Message)
		}
	}
}

// TestFirstStatusOfAnAPIService: it has no generation, so only a write of its status shows that the status is about the
// service that it has now. Until then, nothing that waits for it starts (R22a). It does not run
// in parallel, because Helm refuses to work with such a cluster.
func TestFirstStatusOfAnAPIService(t *testing.T) {
	r := rig.New(t)
	api := r.Namespace + ".example"
	t.Cleanup(func() { removeAPI(r, api) })
	upgrade := func(service string) rig.Outcome {
		t.Helper()
		op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("after", rig.Group("b", "a"), "service: "+strconv.Quote(service)),
			rig.Object("apiregistration.k8s.io/v1/APIService/v1."+api, rig.Group("a"),
				"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100"+service+"}")), func(u *kube.Deploy) {
			u.Install, u.ReadinessTimeout = true, 5*time.Second
		}))
		if err != nil {
			t.Fatal(err)
		}
		return r.Run(op, nil)
	}
	if out := upgrade(""); out.State.Exit != 0 || out.State.NoStatus != 0 {
		t.Fatalf("without a service, exit %d, %d objects without a status", out.State.Exit, out.State.NoStatus)
	}
	out := upgrade(", insecureSkipTLSVerify: true, service: {name: nowhere, namespace: " + r.Namespace + "}")
	if s := out.State; s.Exit != 1 || s.FailedObject == nil || s.FailedObject.Kind != "APIService" {
		t.Errorf("with a service that does not exist, exit %d: %s", s.Exit, s.Outcome)
	}
	if g := out.State.Find("apply", "edge:b"); !g.Started.IsZero() {
		t.Errorf("what waits for it started at %s", g.Started)
	}
}
