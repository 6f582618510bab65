package planfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// steering are the options that decide who watches a run, when it pauses, what it checks and how long it may take, not what it
// writes, and those that the plan has elsewhere: what has to be approved is in its groups.
var steering = []string{
	"Timeout", "ReadinessTimeout", "FirstStatusTimeout", "Settle",
	"Release", "Namespace", "Step", "BreakOn", "Approve", "CheckImages", "HoldOnFailure", "PlanOnly", "SkipPreflight", "Heartbeat", "Job", "Stack", "Source", "Install", "CreateNamespace", "Strict",
}

// Options returns the options of an operation that are set, by name. options is a struct, or nil; fields that are no text, number, truth
// value or list of such, and those of values, do not count.
func Options(options any) map[string]string {
	out := map[string]string{}
	if options == nil {
		return out
	}
	v := reflect.Indirect(reflect.ValueOf(options))
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous || !f.IsExported() || slices.Contains(steering, f.Name) || !isPlain(f.Type) {
			continue
		}
		if value := v.FieldByIndex(f.Index); !value.IsZero() {
			out[kebab(f.Name)] = asText(value)
		}
	}
	return out
}

func asText(v reflect.Value) string {
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Map {
		return fmt.Sprint(v.Interface())
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return err.Error() // of no plain type
	}
	return string(text)
}

func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64:
		return true
	case reflect.Slice:
		return isPlain(t.Elem()) || t.Elem().Kind() == reflect.Struct
	case reflect.Map:
		return isPlain(t.Elem())
	}
	return false
}

// wordEnd is where the name of a field has the next word of a flag.
var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// kebab returns the name of a field as a flag has it: UpgradeCRDs is upgrade-crds.
func kebab(name string) string {
	name = strings.Replace(name, "OpenAPI", "Openapi", 1)
	return strings.ToLower(wordEnd.ReplaceAllString(name, "$1-$2"))
}
