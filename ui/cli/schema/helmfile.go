package schema

import (
	"slices"

	"lockstep/kube/helmfile"
)

// Schemas of values of a helmfile, as the reader decodes them.
var (
	anything   = object{}
	number     = object{"type": []string{"integer", "string", "null"}}
	texts      = listOf(scalar)
	anyMapping = object{"type": []string{"object", "null"}}
)

// types are the schemas of a helmfile's keys that the reader checks, in every mapping. Other keys can have any value.
var types = map[string]object{
	"bases": texts, "commonLabels": anyMapping,
	"name": scalar, "namespace": scalar, "chart": scalar, "version": scalar, "condition": scalar, "description": scalar, "postRenderer": scalar, "approve": scalar, "kubeContext": scalar,
	"needs": texts, "postRendererArgs": texts, "waitFor": texts, "selectors": texts, "values": listOf(anything), "labels": anyMapping, "readiness": anyMapping,
	"timeout": number, "historyMax": number, "createNamespace": boolean, "installed": boolean, "atomic": boolean, "rollbackOnFailure": boolean, "cleanupOnFail": boolean,
	"waitForJobs": boolean, "disableHooks": boolean, "skipSchemaValidation": boolean, "disableOpenAPIValidation": boolean, "reuseValues": boolean, "takeOwnership": boolean,
	"skipCRDs": boolean, "devel": boolean, "verify": boolean, "enableDNS": boolean, "syncReleaseLabels": boolean, "skipDeps": boolean,
}

// empty are the values of unsupported keys that the reader ignores.
var empty = []any{nil, "", false, 0, "false", "0", []any{}, object{}}

// helmfileSchema returns the schema of a helmfile. It has the keys of the reader; the description of an unsupported one says what
// to do.
func helmfileSchema() object {
	set := listOf(keysIn("set", nil))
	hooks := listOf(keysIn("hook", map[string]object{
		"kubectlApply":    keysIn("kubectlApply", nil),
		helmfile.ImageKey: {"anyOf": []object{scalar, keysIn(helmfile.ImageKey, nil)}},
	}))
	return root("helmfile", "a helmfile for lockstep up", keysIn("file", map[string]object{
		"environments": mappingOf(keysIn("environment", nil)), "helmDefaults": keysIn("helmDefaults", nil), "hooks": hooks,
		"helmfiles":    listOf(object{"anyOf": []object{scalar, keysIn("helmfiles", nil)}}),
		"repositories": listOf(keysIn("repository", nil)),
		"releases":     listOf(keysIn("release", map[string]object{"set": set, "setString": set, "hooks": hooks})),
	}))
}

// keysIn returns the schema of a kind of mapping in a helmfile. nested are the schemas of keys that types does not have.
func keysIn(kind string, nested map[string]object) object {
	properties := object{"<<": anything} // merge keys
	for name, advice := range helmfile.Keys(kind) {
		switch {
		case advice != "":
			values := empty
			if value := helmfile.DefaultOf(name); value != "" {
				values = append(slices.Clone(empty), value)
			}
			properties[name] = object{"description": "lockstep does not support it; " + advice, "enum": values}
		case nested[name] != nil:
			properties[name] = nested[name]
		case types[name] != nil:
			properties[name] = types[name]
		default:
			properties[name] = anything
		}
	}
	s := mapping(properties)
	s["additionalProperties"] = false
	return s
}

func mappingOf(values object) object {
	return object{"type": []string{"object", "null"}, "additionalProperties": values}
}

func listOf(items object) object { return object{"type": []string{"array", "null"}, "items": items} }
