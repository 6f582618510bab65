package rights

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

var update = flag.Bool("update", false, "update golden files")

// TestRules formats rights as rules.
func TestRules(t *testing.T) {
	res := func(ns, verb, resource, why string) Right {
		r := Right{Verb: verb, Why: why, Namespace: ns}
		r.Resource.Resource = resource
		return r
	}
	for want, lack := range map[string]Set{
		"in namespace ns: secrets [get], secrets [list] (to look), services [create patch]": {
			res("ns", "patch", "services", ""): nil, res("ns", "list", "secrets", "to look"): nil, res("ns", "create", "services", ""): nil, res("ns", "get", "secrets", ""): nil,
		},
		"in the whole cluster: namespaces [create]; in namespace ns: secrets [get]; in namespace other: secrets [get]": {
			res("", "create", "namespaces", ""): nil, res("ns", "get", "secrets", ""): nil, res("other", "get", "secrets", ""): nil,
		},
		"in namespace ns: secrets a, b [get], services a, b, c and 2 others [patch]": {
			res("ns", "get", "secrets", ""): {"b", "a"}, res("ns", "patch", "services", ""): {"e", "d", "c", "b", "a"},
		},
	} {
		if got := lack.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestRoles prints the roles for a release with several objects of a resource, with roles, and with
// its own namespace.
func TestRoles(t *testing.T) {
	object := func(phase event.PhaseKind, group, kind, namespace, name string, fields map[string]any) Object {
		return Object{plan.Object{Group: group, Kind: kind, Namespace: namespace, Name: name}, fields, phase}
	}
	role := map[string]any{"rules": []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"pods"}, "verbs": []any{"get"}}}}
	const rbac = "rbac.authorization.k8s.io"
	r := Release{Name: "shop", Namespace: "prod", Resource: func(k schema.GroupKind) schema.GroupResource {
		return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
	}, Objects: []Object{
		object(event.PhaseCRDs, "apiextensions.k8s.io", "CustomResourceDefinition", "", "queues.example.com", nil),
		object(event.PhaseApply, "", "ConfigMap", "prod", "b", nil), object(event.PhaseApply, "", "ConfigMap", "prod", "a", nil),
		object(event.PhaseApply, "", "Secret", "prod", "key", nil), // the records have wider rights
		object(event.PhaseApply, "", "Service", "prod", "", nil),
		object(event.PhaseHooks, "batch", "Job", "prod", "migrate", nil),
		object(event.PhaseApply, "", "Namespace", "", "extra", nil), object(event.PhaseApply, "", "ConfigMap", "extra", "a", nil),
		object(event.PhaseApply, rbac, "ClusterRole", "", "shop", role),
		object(event.PhaseApply, rbac, "ClusterRole", "", "all", map[string]any{"aggregationRule": map[string]any{}}),
		object(event.PhaseApply, rbac, "ClusterRoleBinding", "", "shop", map[string]any{"roleRef": map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": "shop"}}),
		object(event.PhaseApply, rbac, "RoleBinding", "prod", "view", map[string]any{"roleRef": map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}}),
	}}
	roles := Roles{Account: "lockstep", Namespace: "prod", Name: "shop", InCluster: true}
	roles.Add(r, true)
	var out bytes.Buffer
	if err := roles.Write(&out); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/roles.yaml"
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestClientSideCreatesHaveNoNames: with client-side apply, create is granted on all objects.
func TestClientSideCreatesHaveNoNames(t *testing.T) {
	r := Release{Name: "shop", Namespace: "prod", ClientSide: true, Driver: "configmap", Resource: func(k schema.GroupKind) schema.GroupResource {
		return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
	}, Objects: []Object{{plan.Object{Kind: "Service", Namespace: "prod", Name: "web"}, nil, event.PhaseApply}}}
	all := r.Rights()
	right := func(verb, resource string, use Use) ([]string, bool) {
		names, ok := all[Right{Verb: verb, Resource: schema.GroupResource{Resource: resource}, Namespace: "prod", Use: use}]
		return names, ok
	}
	if names, ok := right("create", "services", Objects); !ok || len(names) > 0 {
		t.Errorf("create services: %v, %v", names, ok)
	}
	if names, ok := right("patch", "services", Objects); !ok || !slices.Contains(names, "web") {
		t.Errorf("patch services: %v, %v", names, ok)
	}
	if _, ok := right("create", "configmaps", Records); !ok {
		t.Error("the records are ConfigMaps")
	}
}
