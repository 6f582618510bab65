package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/preview"
)

// alternatives returns a chart whose objects use one of two alternatives each.
func alternatives(t *testing.T, second bool) *charts.Chart {
	or := func(one, two string) string {
		if second {
			return two
		}
		return one
	}
	workload := func(name, container, pod string) string {
		return rig.Object("apps/v1/Deployment/"+name, nil, "spec:", "  replicas: 0", "  selector: {matchLabels: {app: "+name+"}}", "  template:",
			"    metadata: {labels: {app: "+name+"}}", "    spec: {containers: [{name: main, image: example/app:1.0"+container+"}]"+pod+"}")
	}
	return rig.ChartOf(t,
		rig.ConfigMap("conf", nil, "a: x"),
		workload("volume", ", volumeMounts: [{name: data, mountPath: /d}]", ", volumes: [{name: data, "+or("emptyDir: {}", "configMap: {name: conf}")+"}]"),
		workload("env", ", env: [{name: A, "+or("value: x", "valueFrom: {configMapKeyRef: {name: conf, key: a}}")+"}]", ""),
		workload("probe", ", readinessProbe: {"+or("httpGet: {path: /, port: 80}", "tcpSocket: {port: 80}")+"}", ""),
		strings.Replace(workload("strategy", "", ""), "spec:\n", "spec:\n  strategy: {"+or("rollingUpdate: {maxSurge: 2}", "type: Recreate")+"}\n", 1),
		rig.Object("policy/v1/PodDisruptionBudget/budget", nil, "spec: {"+or("minAvailable: 1", "maxUnavailable: 1")+", selector: {matchLabels: {app: volume}}}"),
		rig.Object("v1/Secret/same", nil, "stringData: {a: same-value}"),
		rig.Object("v1/Secret/less", nil, "stringData: {a: kept-value"+or(", b: removed-value", "")+"}"))
}

// TestAlternatives: an upgrade from client-side to server-side apply may exchange fields that exclude each other. It is not
// refused, and changes each field as planned.
func TestAlternatives(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	secrets, budgets := configMaps, policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	secrets.Resource = "secrets"
	objects := func() map[string]*unstructured.Unstructured {
		out := map[string]*unstructured.Unstructured{}
		for gvr, names := range map[string][]string{"Deployment": {"volume", "env", "probe", "strategy"}, "Secret": {"same", "less"}, "PodDisruptionBudget": {"budget"}} {
			resource := deployments
			switch gvr {
			case "Secret":
				resource = secrets
			case "PodDisruptionBudget":
				resource = budgets
			}
			for _, name := range names {
				u, err := r.Client.Dynamic.Resource(resource).Namespace(r.Namespace).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				out[gvr+"/"+name] = u
			}
		}
		return out
	}
	r.Deploy("plain", rig.UseChart(alternatives(t, false), func(i *kube.Deploy) { i.ServerSide = "false" }))
	op, err := r.Upgrade("plain", rig.UseChart(alternatives(t, true), func(u *kube.Deploy) { u.ServerSide = "true" }))
	lines, changes := r.Changes(op, err)
	if text := fmt.Sprint(lines, op.Warnings()); strings.Contains(text, "refuse") {
		t.Errorf("refused: %s", text)
	}
	before := objects()
	r.MustRun(op, nil)
	for id, after := range objects() {
		var did inspect.Change
		if err := preview.Compare(&did, before[id], after); err != nil {
			t.Fatal(err)
		}
		if got, want := fieldsOf(did), fieldsOf(changes[id]); !slices.Equal(got, want) || (len(got) == 0) != (id == "Secret/same") {
			t.Errorf("%s changed by %q, the plan says %s %q", id, got, changes[id].Action, want)
		}
	}
}
