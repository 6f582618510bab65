package infer

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestPlanHasInferredOrder: the plan of the inferred annotations has the groups and dependencies of
// the inferred order, and no warnings.
func TestPlanHasInferredOrder(t *testing.T) {
	all := objects(t, pod("Deployment", "shop-web", "{containers: [{envFrom: [{configMapRef: {name: c}}]}], runtimeClassName: fast}")+
		pod("Deployment", "shop-worker", "{containers: [{envFrom: [{configMapRef: {name: c}}]}]}")+
		object("node.k8s.io/v1", "RuntimeClass", "fast", "handler: x")+
		object("v1", "ConfigMap", "c", "data: {}"))
	o := From("shop", &plan.Chart{Path: "shop"}, all)
	p := build(t, o, &plan.Chart{Path: "shop"}, all)
	var got []string
	for _, g := range p.Groups {
		got = append(got, g.ID+" after "+strings.Join(g.After, " "))
	}
	want := []string{"shop:base after ", "shop:web after shop:base", "shop:worker after shop:base"}
	if !slices.Equal(got, want) || len(p.Warnings) > 0 {
		t.Errorf("got %q, want %q; %v", got, want, p.Warnings)
	}
}

// TestHardEdges reads the references of objects (R61).
func TestHardEdges(t *testing.T) {
	const spec = "spec: {schedulerName: x}"
	tests := map[string]struct {
		manifests string
		want      []string
	}{
		"namespace":       {object("v1", "Namespace", "ns", spec) + object("v1", "ConfigMap", "c", "data: {}"), []string{"ConfigMap/c > Namespace/ns hard"}},
		"custom resource": {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "topics.q", "spec: {group: q, names: {kind: Topic}}") + object("q/v1", "Topic", "t", spec), []string{"Topic/t > CustomResourceDefinition/topics.q hard"}},
		"account": {pod("Deployment", "web", "{serviceAccountName: sa}") + object("v1", "ServiceAccount", "sa", "") + object("rbac.authorization.k8s.io/v1", "Role", "r", "rules: []") +
			object("rbac.authorization.k8s.io/v1", "RoleBinding", "b", "roleRef: {kind: Role, name: r}\nsubjects: [{kind: ServiceAccount, name: sa}]"),
			[]string{"Deployment/web > RoleBinding/b hard", "Deployment/web > ServiceAccount/sa hard", "RoleBinding/b > Role/r hard", "RoleBinding/b > ServiceAccount/sa hard"}},
		"optional":      {pod("Deployment", "web", "{containers: [{envFrom: [{configMapRef: {name: c, optional: true}}]}]}") + object("v1", "ConfigMap", "c", "data: {}"), nil},
		"no replicas":   {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 0, template: {spec: {serviceAccountName: sa}}}\n" + object("v1", "ServiceAccount", "sa", ""), nil},
		"elsewhere":     {pod("Deployment", "web", "{serviceAccountName: sa}") + "\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa, namespace: other}", nil},
		"account token": {object("v1", "ServiceAccount", "sa", "secrets: [{name: token}]") + object("v1", "Secret", "token", ""), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := From("shop", &plan.Chart{Path: "shop"}, objects(t, tt.manifests))
			if got := short(o.Edges); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestFromKeepsItsInput: an object without a chart belongs to the root chart (R6), but the caller's copy
// does not change.
func TestFromKeepsItsInput(t *testing.T) {
	all := objects(t, object("v1", "ConfigMap", "c", "data: {}"))
	all[0].Chart = ""
	From("shop", &plan.Chart{Path: "shop"}, all)
	if chart := all[0].Chart; chart != "" {
		t.Errorf("From set the chart to %q", chart)
	}
}
