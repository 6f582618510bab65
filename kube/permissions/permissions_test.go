package permissions

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

var update = flag.Bool("update", false, "update golden files")

func TestSetString(t *testing.T) {
	to := func(verb, resource, ns, why string) Permission {
		return Permission{Verb: verb, Resource: schema.GroupResource{Resource: resource}, Namespace: ns, Why: why}
	}
	for want, set := range map[string]Set{
		"in namespace ns: secrets [get], secrets [list] (to look), services [create patch]": {
			to("patch", "services", "ns", ""): nil, to("list", "secrets", "ns", "to look"): nil, to("create", "services", "ns", ""): nil, to("get", "secrets", "ns", ""): nil,
		},
		"in the whole cluster: namespaces [create]; in namespace ns: secrets [get]; in namespace other: secrets [get]": {
			to("create", "namespaces", "", ""): nil, to("get", "secrets", "ns", ""): nil, to("get", "secrets", "other", ""): nil,
		},
		"in namespace ns: secrets a, b [get], services a, b, c and 2 others [patch]": {
			to("get", "secrets", "ns", ""): {"b", "a", "b"}, to("patch", "services", "ns", ""): {"e", "d", "c", "b", "a"},
		},
	} {
		if got := set.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestRoles compares the roles for a release that has several objects of a kind, roles, and the namespace of
// some of its objects with a golden file.
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
		object(event.PhaseApply, "", "Secret", "prod", "key", nil), // covered by the permissions for the release records
		object(event.PhaseApply, "", "Service", "prod", "", nil),
		object(event.PhaseHooks, "batch", "Job", "prod", "migrate", nil),
		object(event.PhaseApply, "", "Namespace", "", "extra", nil), object(event.PhaseApply, "", "ConfigMap", "extra", "a", nil),
		object(event.PhaseApply, rbac, "ClusterRole", "", "shop", role),
		object(event.PhaseApply, rbac, "ClusterRole", "", "all", map[string]any{"aggregationRule": map[string]any{}}),
		object(event.PhaseApply, rbac, "ClusterRoleBinding", "", "shop", map[string]any{"roleRef": map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": "shop"}}),
		object(event.PhaseApply, rbac, "RoleBinding", "prod", "view", map[string]any{"roleRef": map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}}),
	}}
	roles := Roles{Account: "lockstep", Namespace: "prod", Name: "shop", InCluster: true, Journal: "lockstep-shop-journal"}
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
		t.Errorf("roles differ from %s (error %v):\n%s", file, err, out.String())
	}
}

// TestDiagnosesAreAllowed: the optional roles contain each typed read in the source of the diagnoses. They do not contain reads
// of nodes, which few accounts may read and without which a diagnosis says the same.
func TestDiagnosesAreAllowed(t *testing.T) {
	object := func(group, kind string, spec map[string]any) Object {
		return Object{plan.Object{Group: group, Kind: kind, Namespace: "prod", Name: "a"}, map[string]any{"spec": spec}, event.PhaseApply}
	}
	pod := map[string]any{"spec": map[string]any{"containers": []any{}}}
	r := Release{Name: "shop", Namespace: "prod", Resource: func(k schema.GroupKind) schema.GroupResource {
		return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
	}, Objects: []Object{
		object("apps", "Deployment", map[string]any{"template": pod}), object("apps", "StatefulSet", map[string]any{"template": pod}),
		object("batch", "CronJob", map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": pod}}}),
		object("", "PersistentVolumeClaim", nil), object("", "Service", nil),
		object("", "Service", map[string]any{"type": "LoadBalancer"}), object("networking.k8s.io", "Ingress", nil),
	}}
	allowed := map[string]bool{"Get nodes": true}
	for p := range r.Permissions() {
		for verb, method := range map[string]string{"get": "Get", "list": "List"} {
			if p.Verb == verb {
				allowed[method+" "+p.Resource.Resource] = true
			}
		}
	}
	read := regexp.MustCompile(`\.kube\.\w+V\d\w*\(\)\.(\w+)\([^()]*(?:\([^()]*\))?[^()]*\)\.(Get|List)\(`)
	files, err := filepath.Glob("../diagnose/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range read.FindAllSubmatch(source, -1) {
			found++
			if request := string(m[2]) + " " + strings.ToLower(string(m[1])); !allowed[request] {
				t.Errorf("%s: no role allows %s", file, request)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d requests found", found)
	}
}

// TestClientSideCreatesHaveNoNames: with client-side apply, create is granted for all objects of a kind.
func TestClientSideCreatesHaveNoNames(t *testing.T) {
	r := Release{Name: "shop", Namespace: "prod", ClientSide: true, Driver: "configmap", Resource: func(k schema.GroupKind) schema.GroupResource {
		return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
	}, Objects: []Object{{plan.Object{Kind: "Service", Namespace: "prod", Name: "web"}, nil, event.PhaseApply}}}
	all := r.Permissions()
	namesFor := func(verb, resource string, use Use) ([]string, bool) {
		names, ok := all[Permission{Verb: verb, Resource: schema.GroupResource{Resource: resource}, Namespace: "prod", Use: use}]
		return names, ok
	}
	if names, ok := namesFor("create", "services", Objects); !ok || len(names) > 0 {
		t.Errorf("create services: names %q, granted %v; want all names", names, ok)
	}
	if names, ok := namesFor("patch", "services", Objects); !ok || !slices.Contains(names, "web") {
		t.Errorf("patch services: names %q, granted %v; want web", names, ok)
	}
	if _, ok := namesFor("create", "configmaps", Records); !ok {
		t.Error("create configmaps is not granted, but the release records are ConfigMaps")
	}
}

// TestReplacingRolesPatch: the roles for --force-replace replace existing objects, and patch them, too: a rollback without that flag
// patches, and so does what gives an object back to its owner.
func TestReplacingRolesPatch(t *testing.T) {
	object := plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "a"}
	for _, replace := range []bool{false, true} {
		r := Release{Name: "r", Namespace: "ns", ClientSide: true, Replace: replace, Objects: []Object{{Object: object, Phase: event.PhaseApply}},
			Resource: func(k schema.GroupKind) schema.GroupResource {
				return schema.GroupResource{Resource: strings.ToLower(k.Kind) + "s"}
			}}
		verbs := map[string]bool{}
		for p, names := range r.Permissions() {
			if p.Resource.Resource == "configmaps" && slices.Contains(names, "a") {
				verbs[p.Verb] = true
			}
		}
		if !verbs["patch"] || verbs["update"] != replace {
			t.Errorf("replace %t: the roles permit %v", replace, verbs)
		}
	}
}
