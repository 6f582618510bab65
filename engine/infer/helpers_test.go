package infer

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

// objects parses manifests, separated by lines of ---. A first line "# chart: shop/db" is the chart of
// an object, by default "shop". The default namespace is ns.
func objects(t testing.TB, manifests string) []Object {
	t.Helper()
	var out []Object
	for text := range strings.SplitSeq("\n"+manifests, "\n---") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		o := Object{Resource: plan.Resource{Chart: "shop"}}
		if line, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(line, "# chart: ") {
			o.Chart = strings.TrimPrefix(line, "# chart: ")
		}
		if err := yaml.Unmarshal([]byte(text), &o.Fields); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		o.Object = nameOf(o.Fields)
		o.Hook = o.Fields["hook"] == true
		metadata, _ := o.Fields["metadata"].(map[string]any)
		if annotations, _ := metadata["annotations"].(map[string]any); annotations != nil {
			o.Annotations = map[string]string{}
			for k, v := range annotations {
				o.Annotations[k] = fmt.Sprint(v)
			}
		}
		if o.Object.Kind == "CustomResourceDefinition" {
			spec, _ := o.Fields["spec"].(map[string]any)
			names, _ := spec["names"].(map[string]any)
			o.Defines.Group, _ = spec["group"].(string)
			o.Defines.Kind, _ = names["kind"].(string)
		}
		out = append(out, o)
	}
	return out
}

var clusterScoped = map[string]bool{
	"Namespace": true, "CustomResourceDefinition": true, "ClusterRole": true, "ClusterRoleBinding": true, "PriorityClass": true, "RuntimeClass": true,
	"StorageClass": true, "IngressClass": true, "PersistentVolume": true, "APIService": true, "ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true,
}

func nameOf(fields map[string]any) plan.Object {
	metadata, _ := fields["metadata"].(map[string]any)
	var o plan.Object
	version, _ := fields["apiVersion"].(string)
	if group, _, ok := strings.Cut(version, "/"); ok {
		o.Group = group
	}
	o.Kind, _ = fields["kind"].(string)
	o.Name, _ = metadata["name"].(string)
	o.Namespace, _ = metadata["namespace"].(string)
	if o.Namespace == "" && !clusterScoped[o.Kind] {
		o.Namespace = "ns"
	}
	return o
}

// pod returns the manifest of a workload with a pod spec.
func pod(kind, name, spec string) string {
	version := "apps/v1"
	switch kind {
	case "Job":
		version = "batch/v1"
	case "Pod":
		return fmt.Sprintf("\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}}\nspec: %s\n", name, name, spec)
	}
	return fmt.Sprintf("\n---\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: {template: {metadata: {labels: {app: %s}}, spec: %s}}\n", version, kind, name, name, spec)
}

// object returns the manifest of an object with a name and some fields.
func object(version, kind, name, fields string) string {
	return fmt.Sprintf("\n---\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\n%s\n", version, kind, name, fields)
}

func serviceOf(name string) string {
	return object("v1", "Service", name, "spec: {selector: {app: "+name+"}, ports: [{port: 80}]}")
}

// short formats edges.
func short(edges []Edge) []string {
	var out []string
	for _, e := range edges {
		out = append(out, fmt.Sprintf("%s > %s %s", e.From, e.To, e.Strength))
	}
	return out
}

// build returns the plan with an inferred order.
func build(t testing.TB, o *Order, tree *plan.Chart, objects []Object) *plan.Plan {
	t.Helper()
	tree, resources := o.Annotate(tree, resourcesOf(objects))
	p, err := plan.Build(tree, resources)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resourcesOf(objects []Object) []plan.Resource {
	out := make([]plan.Resource, len(objects))
	for i, o := range objects {
		out[i] = o.Resource
	}
	return out
}
