package charts

import (
	"fmt"
	"reflect"

	"sigs.k8s.io/yaml"
)

// CopyValues returns a deep copy of values, each value of the type that it has:
// an integer stays one, a string keeps its bytes, null stays null. Helm's actions
// change the values that they are given. A nil map becomes an empty one.
func CopyValues(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for k, v := range values {
		out[k] = copyValue(v)
	}
	return out
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		return CopyValues(v)
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = copyValue(v[i])
		}
		return out
	}
	return v
}

// YAML is what values or an object are in a file.
func YAML(fields map[string]any) (string, error) {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(text), nil
}

// Give adds to given values what has been changed in all values, from what they were
// to what they are: what is another one is given, what was taken away is given as
// null, which takes a chart's own value away.
func Give(given, was, is map[string]any) {
	for k, v := range is {
		old, there := was[k]
		if there && reflect.DeepEqual(old, v) {
			continue
		}
		wasMap, isMap := old.(map[string]any)
		now, nowMap := v.(map[string]any)
		if !isMap || !nowMap {
			given[k] = copyValue(v)
			continue
		}
		inner, ok := given[k].(map[string]any)
		if !ok {
			inner = map[string]any{}
			given[k] = inner
		}
		Give(inner, wasMap, now)
	}
	for k, v := range was {
		if _, there := is[k]; !there && v != nil {
			given[k] = nil
		}
	}
}
