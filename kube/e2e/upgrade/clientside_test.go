package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestClientSideApply: a release that was installed with --server-side=false is never applied
// on the server, in any operation.
func TestClientSideApply(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.RunEveryOperation(true, func(rig.Outcome) {
		c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "last", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		for _, f := range c.ManagedFields {
			if f.Operation == metav1.ManagedFieldsOperationApply {
				t.Errorf("applied by the server, as %s", f.Manager)
			}
		}
	})
}

// TestPortsOfOneNumber: two ports of one number, which client-side apply cannot tell apart, are a warning. If Helm finds no
// patch because of them, the upgrade is refused before its first write, and the plan names the object and the way out.
func TestPortsOfOneNumber(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(v, ports string) *charts.Chart {
		web := strings.Replace(rig.Deployment("web", rig.Group("two", "one"), "0s", "  replicas: 0"), "example/app:1.0", "example/app:1.0"+ports, 1)
		return rig.ChartOf(t, rig.ConfigMap("first", rig.Group("one"), "v: '"+v+"'"), web)
	}
	r.Deploy("plain", rig.UseChart(chart("1", ", ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}], env: [{name: A, value: b}]"), func(i *kube.Deploy) { i.ServerSide = "false" }))
	next := chart("2", ", ports: [{containerPort: 53, protocol: TCP}, {containerPort: 80}, {containerPort: 53, protocol: UDP}]")
	says := []string{"Deployment/web: client-side apply cannot compare", "; apply it with --server-side=true"}
	start := time.Now()
	_, err := r.Upgrade("plain", rig.UseChart(next, nil))
	r.MustRefuse(start, err, says...)
	op, err := r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.PlanOnly = true }))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool {
		return w.Object != nil && w.Object.Name == "web" && strings.Contains(w.Message, "containers[0].ports: 53/TCP and 53/UDP have the same number")
	}) {
		t.Errorf("warnings %v", op.Warnings())
	}
	if _, changes := r.Changes(op, nil); changes["Deployment/web"].Action != inspect.Refuse || !strings.HasSuffix(changes["Deployment/web"].Message, says[1]) {
		t.Errorf("planned %v", changes["Deployment/web"])
	}
	op, err = r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.SkipPreflight = true }))
	r.MustFail(op, err, says...)
	r.MustRun(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.ServerSide = "true" })))
}

// TestPatchThatTheServerCannotApply: the API server answers a patch with 500 that it cannot apply because of two ports of one
// number. No retry can succeed, so the upgrade is refused before its first write, or fails at once.
func TestPatchThatTheServerCannotApply(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(ports string) func(*kube.Deploy) {
		return rig.UseChart(rig.ChartOf(t, rig.Object("v1/Service/web", nil, "spec: {selector: {app: none}, ports: ["+ports+"]}")), func(d *kube.Deploy) { d.ServerSide = "false" })
	}
	r.Deploy("plain", chart("{name: http, port: 80}, {name: alt, port: 81}"))
	next := chart("{name: dns-tcp, port: 53}, {name: alt, port: 81, targetPort: http}, {name: http, port: 80}, {name: dns, port: 53, protocol: UDP}")
	says := []string{"Service/web: client-side apply cannot compare", "the order in patch list", "; apply it with --server-side=true"}
	start := time.Now()
	_, err := r.Upgrade("plain", next)
	r.MustRefuse(start, err, says...)
	op, err := r.Upgrade("plain", func(u *kube.Deploy) { next(u); u.SkipPreflight = true })
	start = time.Now()
	r.MustFail(op, err, says...)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it failed after %s", took)
	}
}
