package readiness

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// Kinded is an object with the version of its kind.
type Kinded struct {
	Object
	GVK schema.GroupVersionKind
}

// CheckFields checks that the expressions for the objects name fields of their kinds. schemaOf returns the schema of a kind,
// the zero value if it is unknown: then any field may exist. The result has one finding for each expression and kind.
func (o *Operator) CheckFields(objects []Kinded, schemaOf func(schema.GroupVersionKind) status.Schema) (found []plan.Warning) {
	if o == nil {
		return nil
	}
	type checked struct {
		rule *rule
		gvk  schema.GroupVersionKind
	}
	seen := map[checked]bool{}
	for _, x := range objects {
		r := o.find(x.Object.Object, x.Labels, func(r *rule) bool { return len(r.Success) > 0 })
		if r == nil || seen[checked{r, x.GVK}] {
			continue
		}
		seen[checked{r, x.GVK}] = true
		s := schemaOf(x.GVK)
		if !s.Known() {
			continue
		}
		for _, e := range slices.Concat(r.status.Success, r.status.Failure) {
			if f := e.Check(s); f != nil {
				found = append(found, plan.Warning{Rule: "R22b", Message: fmt.Sprintf("readiness of %s: expression %q: %s %s has no field %s%s",
					r.For, e, x.GVK.GroupVersion(), x.GVK.Kind, f.Path, f.Hint())})
			}
		}
	}
	return found
}

// DefinedSchema returns the schema of a kind that a CustomResourceDefinition defines, the zero value if it does not.
func DefinedSchema(crd map[string]any, gvk schema.GroupVersionKind) status.Schema {
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	if spec["group"] != gvk.Group || names["kind"] != gvk.Kind {
		return status.Schema{}
	}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["name"] != gvk.Version {
			continue
		}
		outer, _ := version["schema"].(map[string]any)
		node, _ := outer["openAPIV3Schema"].(map[string]any)
		return status.NewSchema(node, nil)
	}
	return status.Schema{}
}

// ServedSchemas returns the schemas of the kinds that an API server serves. It asks once for the list of API versions and once
// for each version that is needed; what cannot be read has no schemas.
func ServedSchemas(api openapi.Client) func(schema.GroupVersionKind) status.Schema {
	paths := sync.OnceValues(api.Paths)
	documents := map[schema.GroupVersion]map[string]any{}
	return func(gvk schema.GroupVersionKind) status.Schema {
		components, known := documents[gvk.GroupVersion()]
		if !known {
			components = readSchemas(paths, gvk.GroupVersion())
			documents[gvk.GroupVersion()] = components
		}
		for _, c := range components {
			node, _ := c.(map[string]any)
			if isOfKind(node, gvk) {
				return status.NewSchema(node, components)
			}
		}
		return status.Schema{}
	}
}

// readSchemas returns the components of the OpenAPI document of an API version, nil if it cannot be read.
func readSchemas(all func() (map[string]openapi.GroupVersion, error), gv schema.GroupVersion) map[string]any {
	paths, err := all()
	if err != nil {
		return nil
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	version := paths[path]
	if version == nil {
		return nil
	}
	data, err := version.Schema("application/json")
	if err != nil {
		return nil
	}
	var document struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if json.Unmarshal(data, &document) != nil {
		return nil
	}
	return document.Components.Schemas
}

// isOfKind reports whether a schema is that of a kind.
func isOfKind(node map[string]any, gvk schema.GroupVersionKind) bool {
	kinds, _ := node["x-kubernetes-group-version-kind"].([]any)
	return slices.ContainsFunc(kinds, func(k any) bool {
		kind, _ := k.(map[string]any)
		return kind["group"] == gvk.Group && kind["version"] == gvk.Version && kind["kind"] == gvk.Kind
	})
}
