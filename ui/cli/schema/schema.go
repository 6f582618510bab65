// Package schema prints JSON schemas, for editors and for checks in CI, made from the tables that the readers use. Only ui/cli
// imports it.
package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/help"
	"lockstep/ui/report"
)

const long = `Print a JSON schema, so that editors complete and check keys while you type, and CI can check files without lockstep.

annotations: the annotations of a Kubernetes object, as the chart renders it; chart: the order in a Chart.yaml; helmfile: the keys
that lockstep obeys, with advice for those that it does not support; events: a line of -o json.

With the YAML language server, which many editors use, name the schema in the first line of a file:
# yaml-language-server: $schema=./helmfile.schema.json`

// object is a JSON schema, or a part of one.
type object = map[string]any

// New returns the schema command.
func New() *cobra.Command {
	schemas := map[string]func() any{
		"annotations": func() any { return annotations() }, "chart": func() any { return chart() }, "helmfile": func() any { return helmfileSchema() },
		"events": func() any { return json.RawMessage(report.EventsSchema) },
	}
	names := []string{"annotations", "chart", "helmfile", "events"}
	return &cobra.Command{
		Use: "schema {annotations | chart | helmfile | events}", GroupID: "look", Short: "print a JSON schema for editors and CI", Long: long,
		Example: `lockstep schema helmfile > helmfile.schema.json
lockstep schema chart > chart.schema.json`,
		Args: command.Args(1, 1), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if schemas[args[0]] == nil {
				return command.UsageError(fmt.Sprintf("unknown schema %q: use one of %s", args[0], strings.Join(names, ", ")))
			}
			return report.JSON(report.Safe(cmd.OutOrStdout()), schemas[args[0]]())
		},
	}
}

// root completes the schema of a file.
func root(name, title string, s object) object {
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "urn:lockstep:"+name+":1", title
	return s
}

// Schemas of values. The loader converts YAML lists, numbers and booleans to strings (R1).
var (
	scalar = object{"type": []string{"string", "number", "boolean", "null"}}
	list   = object{"anyOf": []object{
		{"type": "null"}, {"type": "array", "items": object{"type": []string{"string", "number", "boolean"}}},
		{"type": "string", "pattern": `^\s*(null|\[\s*(` + jsonString + `\s*(,\s*` + jsonString + `\s*)*)?\])?\s*$`},
	}}
	integer  = object{"anyOf": []object{{"type": []string{"integer", "null"}}, {"type": "string", "pattern": `^\s*([-+]?[0-9]+)?\s*$`}}}
	duration = object{"anyOf": []object{{"type": []string{"integer", "null"}}, {"type": "string", "pattern": `^\s*([-+]?(0|([0-9]*(\.[0-9]*)?[a-zµμ]+)+))?\s*$`}}}
	boolean  = object{"type": []string{"boolean", "string", "null"}}
)

const jsonString = `"([^"\\]|\\.)*"`

// shapes are the schemas of annotations that are not any text.
var shapes = map[string]object{
	plan.AnnotationGroupDependsOn: list, plan.AnnotationSubchartDependsOn: list, plan.AnnotationReadinessSuccess: list, plan.AnnotationReadinessFailure: list,
	plan.AnnotationWaitFor: list, plan.AnnotationIgnoreDrift: list,
	plan.AnnotationLayerDependsOn: {"anyOf": []object{list, {"type": "string", "pattern": `^\s*[^\[\s]`}}},
	plan.AnnotationLayerChart:     {"anyOf": []object{list, {"type": "string", "pattern": `^\s*[^\[\s]`}}},
	plan.AnnotationWeight:         integer, plan.AnnotationReadinessTimeout: duration, plan.AnnotationStableFor: duration, plan.AnnotationWait: boolean,
	plan.AnnotationDependsOn: {"anyOf": []object{{"type": []string{"null", "string"}}, {"type": "object", "additionalProperties": list}}},
	plan.AnnotationHookScope: {"enum": []any{plan.HookScopeSubchart}},
}

// annotations returns the schema of a Kubernetes object with its annotations.
func annotations() object {
	properties := object{}
	for _, key := range charts.AnnotationKeys() {
		if plan.StoredKey(key) != plan.StoredKey(plan.AnnotationSubchartDependsOn) { // it belongs in Chart.yaml
			properties[key] = described(key)
		}
	}
	return root("annotations", "an object of a chart for lockstep", inMapping("metadata", inMapping("annotations", mapping(properties))))
}

// chart returns the schema of a Chart.yaml.
func chart() object {
	properties := object{}
	for _, key := range []string{plan.AnnotationSubchartDependsOn, plan.StoredKey(plan.AnnotationSubchartDependsOn), plan.AnnotationDependsOn, plan.AnnotationApprove} {
		properties[key] = described(key)
	}
	dependsOn := object{"description": "the dependencies that this one waits for, by name or alias", "anyOf": list["anyOf"]}
	dependency := mapping(object{"name": scalar, "alias": scalar, "depends-on": dependsOn})
	return root("chart", "a Chart.yaml for lockstep", mapping(object{
		"annotations": mapping(properties), "dependencies": object{"type": []string{"array", "null"}, "items": dependency},
	}))
}

func mapping(properties object) object {
	return object{"type": []string{"object", "null"}, "properties": properties}
}

func inMapping(key string, value object) object { return mapping(object{key: value}) }

// described returns the schema of an annotation, with its description from the help page.
func described(key string) object {
	s := object{"description": about(key)}
	shape, ok := shapes[key]
	for hip, other := range shapes {
		if plan.StoredKey(hip) == key {
			shape, ok = other, true
		}
	}
	if !ok {
		shape = scalar
	}
	maps.Copy(s, shape)
	return s
}

// about returns the description of an annotation on the help page, "" if there is none.
func about(key string) string {
	pages := help.Pages()
	page := pages[slices.IndexFunc(pages, func(p help.Page) bool { return p.Name == "annotations" })].Text()
	_, page, _ = strings.Cut(page, "## All annotations\n\n")
	page, _, _ = strings.Cut(page, "\n\n")
	for _, item := range strings.Split("\n"+page, "\n- ") {
		head, description, ok := strings.Cut(item, "`: ")
		if !ok {
			head, description, _ = strings.Cut(item, ": ")
		}
		if strings.Contains(head+"`", "`"+plan.StoredKey(key)+"`") || strings.Contains(head, "`"+plan.StoredKey(key)+": ") {
			return strings.Join(strings.Fields(description), " ")
		}
	}
	return ""
}
