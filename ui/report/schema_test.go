package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"lockstep/engine/event"
	"lockstep/ui/golden"
)

// schemaID names the schema with its version, which changes only if a field is removed or changes its
// type.
const schemaID = "urn:lockstep:event:1"

const schemaFile = "events.schema.json"

// schema generates the schema from event.Event and EventsDoc. It allows unknown fields because later
// versions may add some.
func schema(t *testing.T) *jsonschema.Schema {
	s, err := jsonschema.For[event.Event](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():     {Type: "string", Format: "date-time"},
		reflect.TypeFor[time.Duration](): {Type: "integer"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Schema, s.ID, s.Title = "https://json-schema.org/draft/2020-12/schema", schemaID, "an event of lockstep: a line of -o json"
	about := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\| [a-z ]+ \\| (.*) \\|$").FindAllStringSubmatch(EventsDoc, -1) {
		about[m[1]] = m[2]
	}
	complete(s, "", about)
	return s
}

// complete makes a schema allow unknown fields, and describes its fields.
func complete(s *jsonschema.Schema, path string, about map[string]string) {
	s.AdditionalProperties = nil
	for name, p := range s.Properties {
		at := path + name
		if p.Description = about[at]; p.Description == "" { // all objects have the same fields
			p.Description = about["object."+name]
		}
		complete(p, at+".", about)
	}
	if s.Items != nil {
		complete(s.Items, path, about)
	}
}

// types lists the fields of a schema with their types.
func types(s *jsonschema.Schema, path string) map[string]string {
	out := map[string]string{path: s.Type + strings.Join(s.Types, "|") + s.Format}
	for name, p := range s.Properties {
		maps.Copy(out, types(p, path+"."+name))
	}
	if s.Items != nil {
		maps.Copy(out, types(s.Items, path+"[]"))
	}
	return out
}

// TestEventSchema compares the schema with the program. With -update no field can be
// removed, change its type or become optional without a new version.
func TestEventSchema(t *testing.T) {
	now := schema(t)
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile(schemaFile); err == nil && len(old) > 0 {
		var before jsonschema.Schema
		if err := json.Unmarshal(old, &before); err != nil {
			t.Fatal(err)
		}
		for _, bad := range incompatible(&before, now) {
			t.Error(bad)
		}
	}
	if t.Failed() {
		return
	}
	golden.CompareFile(t, schemaFile, string(text)+"\n")
}

// incompatible lists the changes that break readers of the old schema.
func incompatible(before, now *jsonschema.Schema) []string {
	var out []string
	if before.ID != now.ID {
		return nil // another version
	}
	is := types(now, "")
	for name, was := range types(before, "") {
		if is[name] != was {
			out = append(out, fmt.Sprintf("field %s was %s and is %q", name, was, is[name]))
		}
	}
	for _, name := range before.Required {
		if !slices.Contains(now.Required, name) {
			out = append(out, "field "+name+" is now optional")
		}
	}
	return out
}

func TestIncompatibleSchemas(t *testing.T) {
	now := schema(t)
	for name, change := range map[string]func(*jsonschema.Schema){
		"a removed field":           func(s *jsonschema.Schema) { delete(s.Properties, "cause") },
		"a removed inner field":     func(s *jsonschema.Schema) { delete(s.Properties["operation"].Properties, "release") },
		"a removed field in a list": func(s *jsonschema.Schema) { delete(s.Properties["phases"].Items.Properties, "kind") },
		"another type":              func(s *jsonschema.Schema) { s.Properties["seq"].Type = "string" },
		"a field made optional":     func(s *jsonschema.Schema) { s.Required = s.Required[1:] },
		"another type in a list":    func(s *jsonschema.Schema) { s.Properties["lines"].Items.Type = "integer" },
	} {
		changed := schema(t)
		change(changed)
		if len(incompatible(now, changed)) != 1 {
			t.Errorf("%s: %q", name, incompatible(now, changed))
		}
	}
	if more := schema(t); len(incompatible(more, now)) > 0 {
		t.Error("a schema is incompatible with itself")
	}
}

// TestEventsMatchSchema validates all events in the test data, and expects that
// invalid events are rejected.
func TestEventsMatchSchema(t *testing.T) {
	resolved, err := schema(t).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("../../testdata/runs/*.ndjson")
	own, _ := filepath.Glob("testdata/*.ndjson")
	files = append(files, own...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(v); err != nil {
				t.Fatalf("%s: %v: %s", file, err, line)
			}
		}
	}
	if err := resolved.Validate(map[string]any{"seq": 1.0, "time": "2000-01-01T00:00:00Z", "kind": 3.0}); err == nil {
		t.Error("no error for a kind that is a number")
	}
}
