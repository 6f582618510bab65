package status

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
)

// sequence is what a controller writes about an object, in order. A step without a status keeps the previous one; if there
// is one already, it is an upgrade: the generation grows. A condition can be written Type=Status/Reason@observedGeneration.
type sequence struct {
	Kind        string            `json:"kind"` // "group/version Kind"
	Spec        map[string]any    `json:"spec"`
	Annotations map[string]string `json:"annotations"`
	Subresource *bool             `json:"subresource"` // false: its CRD has no status subresource
	Steps       []struct {
		Name       string         `json:"step"`
		Status     map[string]any `json:"status"`
		Written    *bool          `json:"written"` // false: the status has only the defaults of its CRD
		Generation int64          `json:"generation"`
		Want       event.Status   `json:"want"`
		Note       string         `json:"note"` // a part of it
	} `json:"steps"`
}

var shortCondition = regexp.MustCompile(`^([\w./-]+)=(\w+)(?:/([\w.-]+))?(?:@(\d+))?$`)

// expand replaces the short form of conditions.
func expand(t *testing.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = expand(t, value)
			list, _ := value.([]any)
			for i, item := range list {
				text, short := item.(string)
				if key != "conditions" || !short {
					continue
				}
				m := shortCondition.FindStringSubmatch(text)
				if m == nil {
					t.Fatalf("condition %q", text)
				}
				c := map[string]any{"type": m[1], "status": m[2]}
				if m[3] != "" {
					c["reason"] = m[3]
				}
				if n, ok := parseNumber(m[4]); ok {
					c["observedGeneration"] = n.i
				}
				list[i] = c
			}
		}
	case []any:
		for i := range v {
			v[i] = expand(t, v[i])
		}
	case float64:
		return int64(v)
	}
	return v
}

func readSequences(t *testing.T) (all []sequence) {
	files, _ := filepath.Glob("testdata/sequences/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []sequence
		if err := yaml.UnmarshalStrict(data, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, list...)
	}
	return all
}

// TestSequences expects the right judgement at each step of what the controllers of real kinds write (R22, R22a). With -v it
// prints a table, in which a star marks a step that kstatus alone judges wrong.
func TestSequences(t *testing.T) {
	var table strings.Builder
	kinds, wrong := map[string]bool{}, map[string]bool{}
	for _, s := range readSequences(t) {
		version, kind, _ := strings.Cut(s.Kind, " ")
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind,
			"metadata": map[string]any{"name": "x", "generation": int64(1)}}}
		u.SetAnnotations(s.Annotations)
		if s.Spec != nil {
			u.Object["spec"] = expand(t, s.Spec)
		}
		rule := Rule{FirstStatus: s.Subresource == nil || *s.Subresource}
		key := groupKind(u)
		kinds[key] = true
		fmt.Fprintf(&table, "| %s |", key)
		written, before := 0, ""
		for _, step := range s.Steps {
			_, has := u.Object["status"]
			switch {
			case step.Status != nil:
				u.Object["status"] = expand(t, step.Status)
				if step.Written == nil || *step.Written {
					written++
				}
			case has:
				u.SetGeneration(u.GetGeneration() + 1)
				before = StatusWrite(u)
			}
			if step.Generation > 0 {
				u.SetGeneration(step.Generation)
			}
			fields := []any{map[string]any{"manager": "lockstep", "operation": "Apply"}}
			if written > 0 {
				fields = append(fields, map[string]any{"manager": "c", "subresource": "status", "time": fmt.Sprintf("2026-01-01T00:00:%02dZ", written)})
			}
			_ = unstructured.SetNestedSlice(u.Object, fields, "metadata", "managedFields")
			got, note := judged(u, rule, before)
			if got != step.Want || !strings.Contains(note, step.Note) || (step.Note == "") != (note == "") {
				t.Errorf("%s, %s: %s, note %q; want %s, note %q", s.Kind, step.Name, got, note, step.Want, step.Note)
			}
			mark := ""
			if k := kstatusAlone(u); k != step.Want {
				mark = "\\*"
				wrong[key] = wrong[key] || step.Status != nil
			}
			wrong[key] = wrong[key] || u.Object["status"] == nil && step.Want == event.Ready // R22a would wait for a status
			fmt.Fprintf(&table, " %s: %s%s;", step.Name, got, mark)
		}
		table.WriteString(" |\n")
	}
	t.Logf("%d kinds\n\n| kind | steps |\n|---|---|\n%s", len(kinds), &table)
	if len(kinds) < 40 {
		t.Errorf("%d kinds", len(kinds))
	}
	checkTable(t, kinds, wrong)
}

// judged is the judgement of a run: see object.awaitsStatus of the engine.
func judged(u *unstructured.Unstructured, rule Rule, before string) (event.Status, string) {
	r := Compute(trim(u), rule, noon)
	if r.AwaitsStatus && (r.StatusWrite == "" || r.StatusWrite == before) {
		return event.InProgress, ""
	}
	return r.Status, r.Note
}

func kstatusAlone(u *unstructured.Unstructured) event.Status {
	k, err := kstatus.Compute(u)
	switch {
	case err != nil:
		return event.InProgress
	case k.Status == kstatus.CurrentStatus:
		return event.Ready
	case k.Status == kstatus.FailedStatus:
		return event.Failed
	}
	return event.InProgress
}

// checkTable expects that the table has only entries that sequences cover, and that kstatus judges wrong at some step, or
// whose controller writes no status, for which R22a would wait.
func checkTable(t *testing.T, covered, wrong map[string]bool) {
	seen := map[string]bool{}
	last := ""
	for _, k := range knownKinds {
		keys := map[string]bool{}
		for _, kind := range k.Kinds {
			key := k.Group + "/" + kind
			if seen[key] {
				t.Errorf("%s has two entries", key)
			}
			seen[key], keys[key] = true, true
		}
		name := k.Group + " " + strings.Join(k.Kinds, ", ")
		if !slices.IsSorted(k.Kinds) || k.Group < last {
			t.Errorf("%s is not sorted", name)
		}
		last = k.Group
		if k.Project == "" || k.Version == "" || !k.MayBeSilent && k.Waits == nil && len(k.Success)+len(k.Halts) == 0 || (k.Waits == nil) != (k.Ready == "") {
			t.Errorf("%s is incomplete", name)
		}
		for _, h := range k.Halts {
			if h.Note == "" || h.Is == "" && strings.Contains(h.Path, "[") {
				t.Errorf("%s: halt %+v", name, h)
			}
		}
		has := func(set map[string]bool) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(keys)), func(key string) bool { return set[key] })
		}
		if !has(covered) {
			t.Errorf("%s: no sequence", name)
		}
		if !k.MayBeSilent && !has(wrong) {
			t.Errorf("%s: kstatus judges every step right, so it needs no entry", name)
		}
	}
	_ = compiledKinds()
}
