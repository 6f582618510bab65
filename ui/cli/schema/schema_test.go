package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// resolved returns a schema as the command prints it, ready to check values.
func resolved(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	var out strings.Builder
	cmd := New()
	cmd.SetArgs([]string{name})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(out.String()), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("schema %s: %v", name, err)
	}
	return r
}

func TestSchemasAreValid(t *testing.T) {
	for _, name := range []string{"annotations", "chart", "helmfile", "events"} {
		resolved(t, name)
	}
	cmd := New()
	cmd.SetArgs([]string{"nosuch"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), `unknown schema "nosuch": use one of annotations, chart, helmfile, events`) {
		t.Errorf("error %v", err)
	}
}

// TestAnnotationsAreDescribed: each annotation has the description of the help page.
func TestAnnotationsAreDescribed(t *testing.T) {
	for _, key := range charts.AnnotationKeys() {
		if about(key) == "" {
			t.Errorf("the help page does not describe %s", key)
		}
	}
	if got := about(plan.AnnotationLayerChart); !strings.HasPrefix(got, "from an earlier proposal.") {
		t.Errorf("the description of layers is %q", got)
	}
	if got := about("lockstep/stable-for"); !strings.HasPrefix(got, "the object counts as ready") {
		t.Errorf("the description of stable-for is %q", got)
	}
}

// TestAnnotationsAsRead: the schema accepts the same strings as the reader.
func TestAnnotationsAsRead(t *testing.T) { // R1, R2
	s := resolved(t, "annotations")
	inChart := resolved(t, "chart")
	values := []string{"", " ", "null", "a", "[a]", `["a"]`, ` [ "a" , "b\"c" ] `, `["a",]`, `["a"`, `[1]`, `["a", null]`, "[]", "1", "-2", "+3", "1.5", "x y", `{"a": 1}`, `"a"`}
	keys := []string{plan.AnnotationGroupDependsOn, plan.AnnotationLayerDependsOn, plan.AnnotationLayerChart, plan.AnnotationWeight, plan.AnnotationReadinessSuccess}
	for _, key := range keys {
		for _, spelling := range []string{key, plan.StoredKey(key)} {
			for _, value := range values {
				read := plan.CheckAnnotation(spelling, value)
				checked := s.Validate(map[string]any{"metadata": map[string]any{"annotations": map[string]any{spelling: value}}})
				if (read == nil) != (checked == nil) {
					t.Errorf("%s: %q: the reader says %v, the schema %v", spelling, value, read, checked)
				}
			}
		}
	}
	for _, value := range values {
		read := plan.CheckAnnotation(plan.AnnotationSubchartDependsOn, value)
		if checked := inChart.Validate(map[string]any{"annotations": map[string]any{plan.AnnotationSubchartDependsOn: value}}); (read == nil) != (checked == nil) {
			t.Errorf("Chart.yaml: %q: the reader says %v, the schema %v", value, read, checked)
		}
	}
	for _, value := range []string{"10s", "1m30s", "1.5h", "0", "-3s", "", ".5s", "1µs", "10", "soon", "1 m"} {
		_, err := time.ParseDuration(value)
		checked := s.Validate(map[string]any{"metadata": map[string]any{"annotations": map[string]any{plan.AnnotationStableFor: value}}})
		if err == nil && checked != nil || checked == nil && (value == "10" || value == "1 m") {
			t.Errorf("%q: parsing says %v, the schema %v", value, err, checked)
		}
	}
}

// TestGoodChartsMatch: the Chart.yaml files of charts that can be installed, and their templates without actions, match.
func TestGoodChartsMatch(t *testing.T) {
	chart, object, found := resolved(t, "chart"), resolved(t, "annotations"), 0
	bad := []string{"warn-list", "warn-readiness-half", "warn-readiness-number"}
	files, err := filepath.Glob("../../../testdata/charts/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	templates, _ := filepath.Glob("../../../testdata/charts/*/templates/*.yaml") // the pattern is valid
	for _, path := range append(files, templates...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		isChart := filepath.Base(path) == "Chart.yaml"
		if !isChart && (!strings.Contains(path, "/templates/") || strings.Contains(string(text), "{{") || slices.Contains(bad, strings.Split(path, "/")[5])) {
			continue
		}
		for _, doc := range strings.Split(string(text), "\n---\n") {
			var value map[string]any
			if err := yaml.Unmarshal([]byte(doc), &value); err != nil {
				continue // a chart may have a file that is no YAML
			}
			s := object
			if isChart {
				s = chart
			}
			found++
			if err := s.Validate(value); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d documents", found)
	}
}
