package deploy

import (
	"errors"
	"os"
	"strings"
	"testing"

	"lockstep/ui/cli/command"
)

// TestValuesText: without values there is an empty line below the comments to write in.
func TestValuesText(t *testing.T) { // R46
	for _, all := range []bool{false, true} {
		none, err := valuesText("shop", nil, all)
		head, empty := strings.CutSuffix(none, "\n\n")
		if err != nil || !empty {
			t.Errorf("without values: %q, %v", none, err)
		}
		for line := range strings.Lines(head) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%q is no comment", line)
			}
		}
		if some, err := valuesText("shop", map[string]any{"a": 1}, all); err != nil || some != head+"\na: 1\n" {
			t.Errorf("with a value: %q, %v", some, err)
		}
	}
}

// TestSavedValues writes private files and none twice, and names the last one for as long
// as the run has its values, or those from before.
func TestSavedValues(t *testing.T) { // R46
	t.Chdir(t.TempDir())
	if err := os.WriteFile("values-s-edited.yaml", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"values-s-edited-2.yaml", "values-s-edited-3.yaml"} {
		path, err := command.SaveValues("s", want)
		text, unread := os.ReadFile(want)
		info, unseen := os.Stat(want)
		if path != want || errors.Join(err, unread, unseen) != nil || string(text) != want || info.Mode() != 0o600 {
			t.Errorf("%s: %v has %q, want %s", path, errors.Join(err, unread, unseen), text, want)
		}
	}
	if text, _ := os.ReadFile("values-s-edited.yaml"); string(text) != "mine" {
		t.Error("another file was overwritten")
	}
	run := map[string]any{"a": 1}
	now := func() (map[string]any, error) { return run, nil }
	s := &savedValues{}
	if s.file() != "" {
		t.Error("there is a file before any was saved")
	}
	if err := s.keep("f", map[string]any{"a": 2}, now); err != nil {
		t.Fatal(err)
	}
	for a, want := range map[int]string{1: "f", 2: "f", 3: ""} {
		if run["a"] = a; s.file() != want {
			t.Errorf("with a: %d it is %q", a, s.file())
		}
	}
}
