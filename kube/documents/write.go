package documents

import "go.yaml.in/yaml/v2"

// Write is a value of an object that was read, in YAML, as sigs.k8s.io/yaml writes it.
// That one makes JSON of what it is given, and reads that again as YAML, which takes
// longer than to write it: it has to for a Go type with names of fields in JSON, and
// need not for what is made of maps, lists and scalars.
func Write(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return string(text), err
}
