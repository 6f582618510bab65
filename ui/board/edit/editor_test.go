package edit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNoValuesFileStays: values may be secret, so whatever an editor does, and even if it is killed, no
// file with them stays in the temporary directory.
func TestNoValuesFileStays(t *testing.T) { // R46
	for name, c := range map[string]struct{ script, want, hasFailure string }{
		"writes":           {`echo "word: new" > "$1"`, "word: new\n", ""},
		"leaves a backup":  {`cp "$1" "$1~"; echo "word: new" > "$1"`, "word: new\n", ""},
		"replaces it":      {`echo "word: new" > "$1.new"; mv "$1.new" "$1"`, "word: new\n", ""},
		"writes and fails": {`echo "word: new" > "$1"; exit 1`, "word: new\n", "exit status 1"},
		"removes it":       {`rm "$1"`, "word: old\n", "no such file"},
		"is private":       {`find "$(dirname "$1")" -perm /077 | grep -q . && exit 7; exit 0`, "word: old\n", ""},
		"is cancelled":     {`touch "$0.runs"; exec sleep 100`, "word: old\n", "signal: killed"},
		"is not there":     {"", "word: old\n", "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, bin := t.TempDir(), filepath.Join(t.TempDir(), "editor")
			t.Setenv("TMPDIR", dir)
			t.Setenv("VISUAL", bin)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.script == "" {
				t.Setenv("VISUAL", "no-such-editor")
			} else if err := os.WriteFile(bin, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "is cancelled" {
				go func() {
					for {
						if _, err := os.Stat(bin + ".runs"); err == nil || t.Context().Err() != nil {
							cancel()
							return
						}
						time.Sleep(time.Millisecond)
					}
				}()
			}
			quits := 0
			e := &valuesEditor{ctx: ctx, values: "word: old\n", atQuit: func(remove func()) func() {
				quits++
				return func() { quits-- }
			}}
			err := e.Run()
			if got := e.values; got != c.want || (err == nil) != (c.hasFailure == "") || err != nil && !strings.Contains(err.Error(), c.hasFailure) {
				t.Errorf("%q, %v; want %q, %s", got, err, c.want, c.hasFailure)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil || quits != 0 {
				t.Errorf("%v remain (%v), %d cleanups are still registered", left, err, quits)
			}
		})
	}
}

// TestQuitRemovesValuesFile ends the program while the editor is open.
func TestQuitRemovesValuesFile(t *testing.T) { // R46
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("VISUAL", "cat /dev/null")
	e := &valuesEditor{ctx: t.Context(), atQuit: func(remove func()) func() {
		if there, _ := os.ReadDir(dir); len(there) != 1 {
			t.Errorf("unexpected files %v", there)
		}
		remove()
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v remains", left)
		}
		return func() {}
	}}
	if err := e.Run(); err == nil {
		t.Error("Run wrote values after their directory was removed")
	}
}

// TestEditorStartsBelowComments: without values, the file has only comments, and a line added to a comment
// would be one.
func TestEditorStartsBelowComments(t *testing.T) { // R46
	for name, want := range map[string]string{"vim": "-c 3", "nano": "+3", "code": ""} {
		bin := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(bin, []byte("#!/bin/sh\nfor file; do :; done\necho \"$*\" > \"$file\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("VISUAL", bin)
		e := &valuesEditor{ctx: t.Context(), values: "# one\n# two\n\n"}
		if err := e.Run(); err != nil || want == "" && !strings.HasPrefix(e.values, "/") || !strings.HasPrefix(e.values, want) {
			t.Errorf("%s gets %q, %v", name, e.values, err)
		}
	}
	if got := atLine("vi", "word: old\n# no head\n"); got != nil {
		t.Errorf("without a comment: %v", got)
	}
}

// TestMissingEditor: the error names the variable that set the editor, and the next step.
func TestMissingEditor(t *testing.T) { // R46
	t.Setenv("PATH", "")
	for want, set := range map[string][2]string{
		`editor "v" (set by $VISUAL): exec: "v": `: {"v -w", "e"},
		`editor "e" (set by $EDITOR): exec: "e": `: {"", "e"},
		`editor "vi": exec: "vi": `:                {"", " "},
	} {
		t.Setenv("VISUAL", set[0])
		t.Setenv("EDITOR", set[1])
		want += "executable file not found in $PATH; set $VISUAL or $EDITOR to another editor"
		if err := (&valuesEditor{ctx: t.Context()}).Run(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestBlankEditor: a blank variable counts as unset.
func TestBlankEditor(t *testing.T) { // R46
	t.Setenv("VISUAL", " ")
	t.Setenv("EDITOR", "true")
	if err := (&valuesEditor{ctx: t.Context()}).Run(); err != nil {
		t.Error(err)
	}
}
