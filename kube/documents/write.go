package documents

import "go.yaml.in/yaml/v2"

// Write formats a parsed value (maps, lists, scalars) as YAML, as sigs.k8s.io/yaml does,
// but without its conversion through JSON, which only Go structs need.
func Write(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return string(text), err
}
