package preflight

import (
	"fmt"
	"slices"
	"testing"

	"lockstep/engine/plan"
)

// TestRefusalIsShort: objects that share a conflict have one line if they are many, and one each if they are few.
func TestRefusalIsShort(t *testing.T) {
	shared := func(n int, rule, shared string) (all []plan.Warning) {
		for i := range n {
			o := plan.Object{Kind: "ConfigMap", Name: fmt.Sprint("c", i)}
			all = append(all, plan.Warning{Rule: rule, Object: &o, Message: o.String() + " " + shared, Shared: "all " + shared})
		}
		return all
	}
	const owned = `5 objects all owned; for example ConfigMap/c0, ConfigMap/c1, ConfigMap/c2 ("lockstep plan" lists all)`
	own := shared(5, "", "owned")
	tests := []struct {
		conflicts []plan.Warning
		want      string
	}{
		{own, owned},
		{append(append([]plan.Warning{{Message: "first"}}, own...), shared(3, "R29", "unknown")...),
			"install: 9 problems; nothing was written:\n  first\n  " + owned + "\n  ConfigMap/c0 unknown (R29)\n  ConfigMap/c1 unknown (R29)\n  ConfigMap/c2 unknown (R29)"},
		{own[:1], "ConfigMap/c0 owned"},
	}
	for _, tt := range tests {
		if got := (&Refusal{Operation: "install", Conflicts: tt.conflicts}).Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestFieldFaults: each fault of an object is one finding, with a fix and without the value.
func TestFieldFaults(t *testing.T) {
	const patch = "failed to create typed patch object (ns/a; /v1, Kind=ConfigMap): "
	for message, want := range map[string][]fieldFault{
		patch + ".foo: field not declared in schema": {{"unknown field foo", "remove it or correct its name"}},
		patch + "errors:\n  .data.a must be a string, but is a number; quote it\n  .data.b must be a string, but is a map": {
			{"data.a must be a string, but is a number", "quote it"}, {"data.b must be a string, but is a map", "correct it in the chart or its values"}},
		`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo", unknown field "bar"`: {
			{"unknown field foo", "remove it or correct its name"}, {"unknown field bar", "remove it or correct its name"}},
		`ConfigMap in version "v1" cannot be handled as a ConfigMap: a value in data must be a string, but is a number; quote it`: {
			{"a value in data must be a string, but is a number", "quote it"}},
		`Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 7`: {
			{"a value cannot be decoded: illegal base64 data at input byte 7", "correct it in the chart or its values"}},
		"something else": nil,
	} {
		if got := fieldFaultsIn(message).list; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
}
