package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
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
	op := r.Must(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.PlanOnly = true })))
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

// TestFieldsOfFailedRevisionsThatOthersSet: a field that only a failed revision had stays if somebody else has set it since, also
// while the next run waits, and so does an element of a list with such a field (R32a).
func TestFieldsOfFailedRevisionsThatOthersSet(t *testing.T) {
	t.Parallel()
	for _, planned := range []bool{false, true} {
		t.Run(fmt.Sprintf("planned %t", planned), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			with := func(docs ...string) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) { d.ServerSide, d.ReadinessTimeout = "false", 30*time.Second })
			}
			env := func(more string, spec ...string) string {
				return strings.Replace(rig.Deployment("web", nil, "0s", spec...), "example/app:1.0", "example/app:1.0, env: [{name: A, value: a}"+more+"]", 1)
			}
			good := with(rig.ConfigMap("shared", nil, "a: a"), env(""))
			r.Deploy("plain", good)
			op, err := r.Upgrade("plain", with(rig.ConfigMap("shared", nil, "a: a", "extra: b", "left: b"), env(", {name: E, value: b}, {name: LEFT, value: b}", "  replicas: 2"), rig.UnpullableDeployment("fails", nil)))
			r.MustFail(op, err, "cannot be pulled")
			if planned {
				op, err = r.Upgrade("plain", good)
			}
			r.PatchConfigMap("shared", `{"data": {"extra": "theirs"}}`)
			patch := func(kind types.PatchType, text string, subresource ...string) {
				if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "web", kind, []byte(text), metav1.PatchOptions{FieldManager: "somebody"}, subresource...); err != nil {
					t.Fatal(err)
				}
			}
			patch(types.MergePatchType, `{"spec": {"replicas": 3}}`, "scale")
			patch(types.StrategicMergePatchType, `{"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "E", "value": "theirs"}]}]}}}}`)
			if !planned {
				op, err = r.Upgrade("plain", good)
			}
			r.MustRun(op, err)
			d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || *d.Spec.Replicas != 3 {
				t.Errorf("Deployment/web: %v, %v", d, err)
			}
			values := map[string]string{}
			for _, e := range d.Spec.Template.Spec.Containers[0].Env {
				values[e.Name] = e.Value
			}
			if want := map[string]string{"A": "a", "E": "theirs"}; !maps.Equal(values, want) {
				t.Errorf("env: %v, want %v", values, want)
			}
			if c := r.ConfigMapData("shared"); c["extra"] != "theirs" || len(c) != 3 { // with when the rig wrote it
				t.Errorf("shared: %v", c)
			}
		})
	}
}

// TestFieldsOfFailedRevisions: with client-side apply, too, a revision that failed leaves no fields behind, neither in what its
// rollback restores nor in the next upgrade or install, and a rollback keeps the fields of others, also in an object that
// the failed revision lacks, and that nobody has deleted yet (R32a, R33).
func TestFieldsOfFailedRevisions(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"install", "upgrade", "rollback"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			kind := rig.LateKinds(r.Namespace + ".example")[0]
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, kind.CRD(nil)), func(d *kube.Deploy) { d.Release = "crd" }))
			custom := func(extra string) string {
				return strings.Replace(kind.Object(map[string]string{}), "size: x", "size: x"+extra, 1)
			}
			job := func(name string) string { return rig.Job(name, nil, "0s") }
			web := func(extra string) string {
				return strings.Replace(rig.Deployment("web", nil, "0s"), "example/app:1.0", "example/app:1.0, env: [{name: A, value: a}"+extra+"]", 1)
			}
			with := func(docs ...string) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) { d.ServerSide, d.ReadinessTimeout = "false", 10*time.Second })
			}
			good := with(rig.ConfigMap("shared", nil, "a: a"), rig.ConfigMap("dropped", nil, "a: a"), rig.Deployment("dropped", nil, "0s"), job("of-1"), web(""), custom(""))
			failed := with(rig.ConfigMap("shared", nil, "a: a", "extra: b"), job("of-2"), web(", {name: EXTRA, value: b}"), custom(", extra: b"),
				rig.UnpullableDeployment("fails", nil))
			if first == "install" {
				op, err := r.Install("plain", failed)
				r.MustFail(op, err, "cannot be pulled")
				r.MustRun(r.Install("plain", good))
			} else {
				r.Deploy("plain", good)
				r.PatchConfigMap("dropped", `{"data": {"theirs": "x"}, "metadata": {"annotations": {"theirs": "x"}}}`)
				scale := []byte(`{"spec": {"replicas": 2}}`)
				if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "dropped", types.MergePatchType, scale, metav1.PatchOptions{}, "scale"); err != nil {
					t.Fatal(err)
				}
				op := r.Must(r.Upgrade("plain", func(u *kube.Deploy) { failed(u); u.RollbackOnFailure = first == "rollback" }))
				if out := r.Run(op, nil); out.State.Exit != event.ExitFailed {
					t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
				}
				if first == "upgrade" {
					r.MustRun(r.Upgrade("plain", good))
				}
				if c := r.ConfigMapData("dropped"); c["theirs"] != "x" {
					t.Errorf("dropped: %v", c)
				}
				d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "dropped", metav1.GetOptions{})
				if err != nil || *d.Spec.Replicas != 2 || d.Annotations["deployment.kubernetes.io/revision"] == "" {
					t.Errorf("Deployment/dropped: %v", d)
				}
			}
			if r.Status() != rcommon.StatusDeployed {
				t.Errorf("release %s", r.Status())
			}
			if c := r.ConfigMapData("shared"); len(c) != 2 {
				t.Errorf("shared: %v", c)
			}
			d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || len(d.Spec.Template.Spec.Containers[0].Env) != 1 {
				t.Errorf("Deployment/web: %v", d)
			}
			o, err := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: kind.API, Version: "v1", Resource: kind.Plural}).Namespace(r.Namespace).Get(t.Context(), "late", metav1.GetOptions{})
			if err != nil || o.Object["spec"].(map[string]any)["extra"] != nil {
				t.Errorf("custom: %v %v", o, err)
			}
		})
	}
}

// TestKeptChangeOfACustomResource: client-side apply keeps what others have changed in a custom resource, as Helm does. Its plan says
// that the object is unchanged, and that somebody has changed it (S4).
func TestKeptChangeOfACustomResource(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	kind := rig.LateKinds(r.Namespace + ".example")[0]
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, kind.CRD(nil)), func(d *kube.Deploy) { d.Release = "crd" }))
	chart := rig.UseChart(rig.ChartOf(t, kind.Object(map[string]string{})), func(d *kube.Deploy) { d.ServerSide = "false" })
	r.Deploy("plain", chart)
	objects := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: kind.API, Version: "v1", Resource: kind.Plural}).Namespace(r.Namespace)
	for patch, kept := range map[string]bool{`{"spec": {"theirs": "y"}}`: false, `{"spec": {"size": "y"}}`: true} {
		if _, err := objects.Patch(t.Context(), "late", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
		_, changes := r.Changes(r.Upgrade("plain", chart))
		c := changes[kind.Kind+"/late"]
		if c.Action != inspect.Unchanged || strings.Contains(c.Message, "somebody has changed fields") != kept {
			t.Errorf("%s: %s %q", patch, c.Action, c.Message)
		}
		if _, err := objects.Patch(t.Context(), "late", types.MergePatchType, []byte(`{"spec": {"size": "x"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
}
