package deploy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/ui/cli/input"
)

// TestValuesFile: the comments have the warnings about values; without values, an empty line follows.
func TestValuesFile(t *testing.T) { // R46, R46a
	warnings := []plan.Warning{{Rule: "R46a", Message: "1 value of the release\nwithout effect"}, {Rule: "R2", Message: "of the chart"}}
	head := func(all bool) string { return valuesComment("shop", all, warnings) }
	for _, all := range []bool{false, true} {
		none, err := input.ValuesFile(head(all), nil)
		comments, empty := strings.CutSuffix(none, "\n\n")
		if err != nil || !empty {
			t.Errorf("without values: %q, %v", none, err)
		}
		if !strings.Contains(comments, "# 1 value of the release without effect") || strings.Contains(comments, "of the chart") {
			t.Errorf("without the warnings about values: %s", comments)
		}
		for line := range strings.Lines(comments) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%q is not a comment", line)
			}
		}
		if some, err := input.ValuesFile(head(all), map[string]any{"a": 1}); err != nil || some != comments+"\na: 1\n" {
			t.Errorf("with a value: %q, %v", some, err)
		}
	}
}

// TestInvalidEdit: the error reads like the one about an invalid values file, and shows the line.
func TestInvalidEdit(t *testing.T) { // R46
	hide := func(line string) string { return strings.ReplaceAll(line, "b", "(hidden)") }
	for edited, want := range map[string]string{
		"# comment\na: b: c\n":                     `values file values.yaml:2: invalid YAML: unexpected ":"; check the indentation` + "\n  2 | a: (hidden): c",
		"a: 1\nc: {host: x.y.io}global:\n  d: e\n": "values file values.yaml:2: invalid YAML: expected a key; check the indentation\n  2 | c: {host: x.y.io}glo(hidden)al:",
		"- a\n": "values file values.yaml: must be a mapping (key: value), but is a list",
	} {
		var values map[string]any
		if err := invalidEdit(edited, yaml.Unmarshal([]byte(edited), &values), hide); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSavedValues: files are private and never overwritten, and the last one is suggested
// until the run gets other values.
func TestSavedValues(t *testing.T) { // R46
	t.Chdir(t.TempDir())
	if err := os.WriteFile("values-s.yaml", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"values-s-2.yaml", "values-s-3.yaml"} {
		path, err := input.SaveValues("s", want)
		text, unread := os.ReadFile(want)
		info, unseen := os.Stat(want)
		if path != want || errors.Join(err, unread, unseen) != nil || string(text) != want || info.Mode() != 0o600 {
			t.Errorf("%s: %v has %q, want %s", path, errors.Join(err, unread, unseen), text, want)
		}
	}
	if text, _ := os.ReadFile("values-s.yaml"); string(text) != "mine" {
		t.Error("another file was overwritten")
	}
	run := map[string]any{"a": 1}
	now := func() (map[string]any, error) { return run, nil }
	s := &savedValues{}
	if s.flagsAgain() != nil {
		t.Error("got a file before one was saved")
	}
	if err := s.record("f", "a: 2\n", []string{"id=1000000"}, now); err != nil {
		t.Fatal(err)
	}
	again := []string{"-f", "f", "--set", "id=1000000"}
	for a, want := range map[int][]string{1: again, 2: again, 3: nil} {
		if run["a"] = a; !slices.Equal(s.flagsAgain(), want) {
			t.Errorf("with a: %d got %q, want %q", a, s.flagsAgain(), want)
		}
	}
}

// TestSavedIntegers: a saved file says how to keep the integers that Helm would read from it as floats.
func TestSavedIntegers(t *testing.T) {
	text, sets, err := withFloats(map[string]any{"id": int64(1000000), "small": int64(5), "gone": int64(2000000)}, "id: 1000000\nsmall: 5\nother: 3000000\n")
	if err != nil || !slices.Equal(sets, []string{"id=1000000"}) || !strings.Contains(text, "--set id=1000000\n") || strings.Count(text, "--set") != 1 || !strings.HasSuffix(text, "\nid: 1000000\nsmall: 5\nother: 3000000\n") {
		t.Errorf("the file is %q, %v", text, err)
	}
	if text, sets, err := withFloats(map[string]any{"small": int64(5)}, "small: 5\n"); err != nil || sets != nil || text != "small: 5\n" {
		t.Errorf("without such integers, the file is %q, %v", text, err)
	}
}
