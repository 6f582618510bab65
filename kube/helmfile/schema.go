package helmfile

// object is a JSON schema, or a part of one.
type object = map[string]any

// Schemas of values, as the reader decodes them.
var (
	anything = object{}
	scalar   = object{"type": []string{"string", "number", "boolean", "null"}}
	flag     = object{"type": []string{"boolean", "string", "null"}}
	number   = object{"type": []string{"integer", "string", "null"}}
	list     = object{"type": []string{"array", "null"}}
	texts    = object{"type": []string{"array", "null"}, "items": scalar}
	mapping  = object{"type": []string{"object", "null"}}
)

// types are the schemas of keys that the reader checks, in every mapping. Other keys can have any value.
var types = map[string]object{
	"bases": texts, "commonLabels": mapping,
	"name": scalar, "namespace": scalar, "chart": scalar, "version": scalar, "condition": scalar, "description": scalar, "postRenderer": scalar, "approve": scalar, "kubeContext": scalar,
	"needs": texts, "postRendererArgs": texts, "waitFor": texts, "selectors": texts, "values": list, "labels": mapping, "readiness": mapping,
	"timeout": number, "historyMax": number, "createNamespace": flag, "installed": flag, "atomic": flag, "rollbackOnFailure": flag, "cleanupOnFail": flag,
	"waitForJobs": flag, "disableHooks": flag, "skipSchemaValidation": flag, "disableOpenAPIValidation": flag, "reuseValues": flag, "takeOwnership": flag,
	"skipCRDs": flag, "devel": flag, "verify": flag, "enableDNS": flag, "syncReleaseLabels": flag, "skipDeps": flag,
}

// empty are the values of unsupported keys that the reader ignores.
var empty = []any{nil, "", false, 0, "false", "0", []any{}, object{}}

// Schema returns the JSON schema of a helmfile. It knows the keys that the reader knows; the description of an unsupported one
// says what to do.
func Schema() map[string]any {
	release := mappingWith(releaseKeys, map[string]object{"set": listOf(mappingWith(setKeys, nil)), "setString": listOf(mappingWith(setKeys, nil))})
	s := mappingWith(fileKeys, map[string]object{
		"environments": mappingOf(mappingWith(environmentKeys, nil)), "helmDefaults": mappingWith(defaultKeys, nil), "releases": listOf(release),
		"helmfiles":    listOf(object{"anyOf": []object{scalar, mappingWith(helmfileKeys, nil)}}),
		"repositories": listOf(mappingWith(repositoryKeys, nil)),
	})
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "urn:lockstep:helmfile:1", "a helmfile for lockstep up"
	return s
}

// mappingWith returns the schema of a mapping with certain keys. nested are the schemas of keys that types does not have.
func mappingWith(k keys, nested map[string]object) object {
	properties := object{"<<": anything} // merge keys
	for name, advice := range k {
		switch {
		case advice != "":
			properties[name] = object{"description": "lockstep does not support it; " + advice, "enum": empty}
		case nested[name] != nil:
			properties[name] = nested[name]
		case types[name] != nil:
			properties[name] = types[name]
		default:
			properties[name] = anything
		}
	}
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

func mappingOf(values object) object {
	return object{"type": []string{"object", "null"}, "additionalProperties": values}
}

func listOf(items object) object { return object{"type": []string{"array", "null"}, "items": items} }
