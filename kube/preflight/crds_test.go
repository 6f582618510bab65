package preflight

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// crdOf returns a CRD with versions as YAML.
func crdOf(t *testing.T, versions string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("metadata: {name: gears.x}\nspec: {versions: ["+versions+"]}"), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCRDLosses: the plan says which versions and fields a CRD loses (R29a).
func TestCRDLosses(t *testing.T) {
	version := func(name, served, properties string) string {
		return "{name: " + name + ", served: " + served + ", schema: {openAPIV3Schema: {type: object, properties: {" + properties + "}}}}"
	}
	const two = "spec: {type: object, properties: {a: {type: string}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}}}"
	for name, tt := range map[string]struct{ live, next, want string }{
		"nothing":    {version("v1", "true", two), version("v1", "true", two), ""},
		"more":       {version("v1", "true", "spec: {}"), version("v1", "true", two), ""},
		"a version":  {version("v1", "true", two) + "," + version("v2", "true", two), version("v2", "true", two), "removes version v1"},
		"a field":    {version("v1", "true", two), version("v1", "true", "spec: {type: object, properties: {b: {type: array, items: {type: object}}}}"), "removes fields spec.a, spec.b[].c of v1"},
		"unserved":   {version("v1", "true", two), version("v1", "false", two), "no longer serves version v1"},
		"all":        {version("v1", "true", two) + "," + version("v2", "true", two), version("v2", "false", "status: {}"), "removes version v1, field spec of v2; no longer serves version v2"},
		"open":       {version("v1", "true", two), version("v1", "true", "spec: {x-kubernetes-preserve-unknown-fields: true}"), ""},
		"any fields": {version("v1", "true", two), version("v1", "true", "spec: {type: object, additionalProperties: {type: string}}"), ""},
	} {
		if got := CRDLosses(crdOf(t, tt.live), crdOf(t, tt.next)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestLostValues: an upgrade of a CRD names the fields that objects have and that the new schema lacks (R29a).
func TestLostValues(t *testing.T) {
	schema := func(properties string) *spec.Schema {
		return versionsOf(crdOf(t, "{name: v1, schema: {openAPIV3Schema: {type: object, properties: {"+properties+"}}}}"))["v1"].schema()
	}
	old := schema("spec: {type: object, properties: {a: {type: string}, mode: {type: string, default: fast}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}," +
		" m: {type: object, additionalProperties: {type: object, properties: {d: {type: string}}}}}}")
	for now, want := range map[string]string{
		"spec: {type: object, properties: {a: {type: string}}}":                                    "spec.b spec.m",
		"spec: {type: object, x-kubernetes-preserve-unknown-fields: true}":                         "",
		"spec: {type: object, additionalProperties: {type: string}}":                               "",
		"spec: {type: object, properties: {a: {}, b: {items: {type: object}}, m: {type: object}}}": "spec.b[1].c",
		"status: {type: object}": "spec",
		"spec: {properties: {a: {}, b: {}, m: {additionalProperties: {type: object}}}}": "spec.m[x.y].d",
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte("apiVersion: x/v1\nkind: Gear\nmetadata: {name: g}\nspec: {a: x, mode: fast, b: [{}, {c: x}], m: {x.y: {d: x}}}"), &object); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lostValues(object, old, schema(now), ""), " "); got != want {
			t.Errorf("%s: %q, want %q", now, got, want)
		}
	}
}

// TestObjectsAgainstSchema: objects are validated with the defaults of the new schema, as the API server does (R29a).
func TestObjectsAgainstSchema(t *testing.T) {
	crd := crdOf(t, `{name: v1, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [size, mode], properties: {
		size: {type: integer, minimum: 1}, mode: {type: string, default: fast, enum: [fast, slow]}, port: {x-kubernetes-int-or-string: true}, note: {type: string, nullable: true},
		parts: {type: array, items: {type: object, required: [kind], properties: {kind: {type: string, default: x}}}}}}}}}}`)
	s := versionsOf(crd)["v1"].schema()
	for object, valid := range map[string]bool{
		"spec: {size: 1}":                          true,
		"spec: {size: 1, port: http}":              true,
		"spec: {size: 1, port: 80, note: null}":    true,
		"spec: {size: 1, parts: [{}]}":             true,
		"spec: {size: 1, unknown: {is: pruned}}":   true,
		"spec: {}":                                 false,
		"spec: {size: one}":                        false,
		"spec: {size: 0}":                          false,
		"spec: {size: 1, mode: other}":             false,
		"spec: {size: 1, parts: [{kind: [list]}]}": false,
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("metadata: {name: g}\n"+object), &u.Object); err != nil {
			t.Fatal(err)
		}
		addDefaults(u.Object, s)
		if faults := validate.NewSchemaValidator(s, nil, "", strfmt.Default).Validate(u.Object).Errors; (len(faults) == 0) != valid {
			t.Errorf("%s: %v", object, faults)
		}
	}
}
