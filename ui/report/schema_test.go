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
)

// schemaID names the schema with its version, which changes only if a field has
// to go or to become something else.
const schemaID = "urn:lockstep:event:1"

const schemaFile = "events.schema.json"

// schema is made from the type of events, and from what is documented of them.
// What it does not know is allowed: fields are only ever added.
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
	open(s, "", about)
	return s
}

// open has a schema allow what it does not know, and describes its fields.
func open(s *jsonschema.Schema, path string, about map[string]string) {
	s.AdditionalProperties = nil
	for name, p := range s.Properties {
		at := path + name
		if p.Description = about[at]; p.Description == "" { // objects are alike wherever they are
			p.Description = about["object."+name]
		}
		open(p, at+".", about)
	}
	if s.Items != nil {
		open(s.Items, path, about)
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
		for _, bad := range broken(&before, now) {
			t.Error(bad)
		}
	}
	if t.Failed() {
		return
	}
	if text = append(text, '\n'); *update {
		if err := os.WriteFile(schemaFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if EventsSchema != string(text) {
		t.Errorf("%s is not that of the program; go test ./ui/report -run Schema -update makes it:\n%s", schemaFile, text)
	}
}

// broken says what a reader of the old schema cannot count on any more.
func broken(before, now *jsonschema.Schema) []string {
	var out []string
	if before.ID != now.ID {
		return nil // another version says so
	}
	is := types(now, "")
	for name, was := range types(before, "") {
		if is[name] != was {
			out = append(out, fmt.Sprintf("field %s was %s and is %q", name, was, is[name]))
		}
	}
	for _, name := range before.Required {
		if !slices.Contains(now.Required, name) {
			out = append(out, "field "+name+" is not always there any more")
		}
	}
	return out
}

func TestTheSchemaKeepsItsPromises(t *testing.T) {
	now := schema(t)
	for what, spoil := range map[string]func(*jsonschema.Schema){
		"a field that goes":        func(s *jsonschema.Schema) { delete(s.Properties, "cause") },
		"one inside of another":    func(s *jsonschema.Schema) { delete(s.Properties["operation"].Properties, "release") },
		"one of a list":            func(s *jsonschema.Schema) { delete(s.Properties["phases"].Items.Properties, "kind") },
		"another type":             func(s *jsonschema.Schema) { s.Properties["seq"].Type = "string" },
		"one not always there":     func(s *jsonschema.Schema) { s.Required = s.Required[1:] },
		"a list of something else": func(s *jsonschema.Schema) { s.Properties["lines"].Items.Type = "integer" },
	} {
		spoilt := schema(t)
		spoil(spoilt)
		if len(broken(now, spoilt)) != 1 {
			t.Errorf("%s: %q", what, broken(now, spoilt))
		}
	}
	if more := schema(t); len(broken(more, now)) > 0 {
		t.Error("the same schema breaks itself")
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
	files = append(files, "testdata/failed.ndjson")
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
		t.Error("a kind that is a number is fine")
	}
}
