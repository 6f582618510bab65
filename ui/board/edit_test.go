package board

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
)

// fakeEditor has values, and knows what they come to.
type fakeEditor struct{}

func (fakeEditor) Values(all bool) (string, error) {
	if all {
		return "word: old\nother: 1\n", nil
	}
	return "word: old\n", nil
}

func (fakeEditor) Edit(context.Context, string, bool) (Edited, error) { return Edited{}, nil }

func (fakeEditor) ChartChanged() bool { return true }

func (fakeEditor) Again(context.Context) (Edited, error) { return Edited{}, nil }

func editable(o *Options) { o.Editor = fakeEditor{} }

// edited is a screen whose user has come back from the editor.
func edited(t *testing.T, writes string, made Edited, err error) *screen {
	t.Helper()
	s := with("sandbox-held", 0, "", editable)(t)
	s.press("e")
	if s.edit == nil {
		t.Fatal("nothing is edited")
	}
	s.send(writtenMsg{values: writes})
	if s.edit != nil {
		s.send(plannedMsg{s.edit, made, err})
	}
	return s
}

// TestEdit goes on with an edited revision once the difference has been seen, and
// loses nothing that was written (R46).
func TestEdit(t *testing.T) {
	order := event.Command{Name: event.Edit}
	s := edited(t, "word: new\n", Edited{Lines: []string{"revision 2: 1 to change", "  ~ ConfigMap/word", "      -word: old", "      +word: new"}, Order: order}, nil)
	s.shows(t, "enter goes on", "revision 2: 1 to change", "+word: new")
	if s.press("esc"); len(s.sent) > 0 {
		t.Errorf("leaving sends %v", s.sent)
	}
	if s.press("e"); s.edit.values != "word: new\n" {
		t.Error("what was written is lost")
	}
	s.send(writtenMsg{values: s.edit.values})
	s.send(plannedMsg{s.edit, Edited{Order: order}, nil})
	if s.press("enter"); len(s.sent) != 1 || s.sent[0].Name != event.Edit {
		t.Errorf("going on sends %v", s.sent)
	}
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Refused, Message: "the run is not paused", Time: s.State.Now})
	s.shows(t, "edit refused: the run is not paused")
	if s.edit == nil || s.edit.values != "word: new\n" {
		t.Error("the refused values are lost")
	}
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Time: s.State.Now})
	if s.edit != nil {
		t.Error("the accepted values are still edited")
	}
}

func TestEditThatComesToNothing(t *testing.T) { // R46
	s := edited(t, "word: [\n", Edited{}, errors.New("read the edited values: yaml: line 1: did not find expected node content"))
	s.shows(t, "it comes to nothing", "did not find expected node content")
	if s.press("enter"); len(s.sent) > 0 {
		t.Errorf("it is sent: %v", s.sent)
	}
	if s.press("e"); s.edit == nil || s.edit.was != "word: old\n" || s.edit.values != "word: [\n" {
		t.Error("what was written is lost")
	}
	if s := edited(t, "word: old\n", Edited{}, nil); s.edit != nil {
		t.Error("values that are the same are edited")
	} else {
		s.shows(t, "nothing was changed")
	}
}

// TestWhatCannotBeEdited says why: a run that goes on, one of another process, and
// one that brings nothing.
func TestWhatCannotBeEdited(t *testing.T) { // R46
	for want, s := range map[string]*screen{
		"pause the run first":       with("sandbox-install", 63, "", editable)(t),
		"lockstep ctl RELEASE":      with("sandbox-held", 0, "", attached)(t),
		"brings neither values nor": with("sandbox-held", 0, "")(t),
	} {
		for _, key := range []string{"e", "E"} {
			if s.press(key); s.edit != nil {
				t.Errorf("%s: it is edited", want)
			}
			s.shows(t, want)
		}
	}
}

// TestNoFileOfValuesStays: values may be secret. Whatever an editor does, and whether it
// is waited for or not, nothing is left of them in the directory for temporary files.
func TestNoFileOfValuesStays(t *testing.T) { // R46
	for name, c := range map[string]struct{ script, want, fails string }{
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
			if got := e.values; got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q, %v; want %q, %s", got, err, c.want, c.fails)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil || quits != 0 {
				t.Errorf("%v stay, %v, %d functions", left, err, quits)
			}
		})
	}
}

// TestValuesAreInNoFileBeforeTheEditorRuns: the screen may end before.
func TestValuesAreInNoFileBeforeTheEditorRuns(t *testing.T) { // R46
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := with("sandbox-held", 0, "", editable)(t)
	s.press("e")
	if left, err := os.ReadDir(dir); s.edit == nil || len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// TestQuittingRemovesTheFileOfValues ends the program while the editor is open.
func TestQuittingRemovesTheFileOfValues(t *testing.T) { // R46
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("VISUAL", "cat /dev/null")
	e := &valuesEditor{ctx: t.Context(), atQuit: func(remove func()) func() {
		if there, _ := os.ReadDir(dir); len(there) != 1 {
			t.Errorf("%v is there", there)
		}
		remove()
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v stays", left)
		}
		return func() {}
	}}
	if err := e.Run(); err == nil {
		t.Error("values are written where their directory has gone")
	}
}
