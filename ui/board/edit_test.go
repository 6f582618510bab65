package board

import (
	"context"
	"errors"
	"os"
	"testing"

	"lockstep/engine/event"
	"lockstep/ui/board/edit"
)

// fakeEditor has values, and knows what they come to.
type fakeEditor struct {
	made edit.Edited
	err  error
}

func (*fakeEditor) Values(all bool) (string, error) {
	if all {
		return "word: old\nother: 1\n", nil
	}
	return "word: old\n", nil
}

func (f *fakeEditor) Edit(context.Context, string, bool) (edit.Edited, error) { return f.made, f.err }

func (*fakeEditor) ChartChanged() bool { return true }

func (*fakeEditor) Again(context.Context) (edit.Edited, error) { return edit.Edited{}, nil }

func editable(o *Options) { o.Editor = &fakeEditor{} }

// edited is a screen whose user has come back from the editor.
func edited(t *testing.T, writes string, made edit.Edited, err error) *rig {
	t.Helper()
	s := with("sandbox-held", 0, "", func(o *Options) { o.Editor = &fakeEditor{made, err} })(t)
	s.press("e")
	if !s.edits() {
		t.Fatal("nothing is edited")
	}
	s.send(edit.Written{Values: writes})
	if s.edits() {
		s.settle()
	}
	return s
}

// TestEdit goes on with an edited revision once the difference has been seen, and
// loses nothing that was written (R46).
func TestEdit(t *testing.T) {
	order := event.Command{Name: event.Edit}
	s := edited(t, "word: new\n", edit.Edited{Lines: []string{"revision 2: 1 to change", "  ~ ConfigMap/word", "      -word: old", "      +word: new"}, Order: order}, nil)
	s.shows(t, "enter apply", "revision 2: 1 to change", "+word: new")
	if s.press("esc"); len(s.sent) > 0 {
		t.Errorf("leaving sends %v", s.sent)
	}
	if s.press("e"); s.written() != "word: new\n" {
		t.Error("what was written is lost")
	}
	s.send(edit.Written{Values: s.written()})
	s.settle()
	if s.press("enter"); len(s.sent) != 1 || s.sent[0].Name != event.Edit {
		t.Errorf("going on sends %v", s.sent)
	}
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Refused, Message: "the run is not paused", Time: s.State.Now})
	s.shows(t, "edit refused: the run is not paused")
	if !s.edits() || s.written() != "word: new\n" {
		t.Error("the refused values are lost")
	}
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Time: s.State.Now})
	if s.edits() {
		t.Error("the accepted values are still edited")
	}
}

func TestEditThatComesToNothing(t *testing.T) { // R46
	s := edited(t, "word: [\n", edit.Edited{}, errors.New("read the edited values: yaml: line 1: did not find expected node content"))
	s.shows(t, "Invalid edit", "did not find expected node content")
	if s.press("enter"); len(s.sent) > 0 {
		t.Errorf("it is sent: %v", s.sent)
	}
	if s.press("e"); !s.edits() || s.written() != "word: [\n" {
		t.Error("what was written is lost")
	}
	if s := edited(t, "word: old\n", edit.Edited{}, nil); s.edits() {
		t.Error("values that are the same are edited")
	} else {
		s.shows(t, "nothing changed")
	}
}

// TestWhatCannotBeEdited says why: a run that goes on, one of another process, and
// one that brings nothing.
func TestWhatCannotBeEdited(t *testing.T) { // R46
	for want, s := range map[string]*rig{
		"pause the run first":      with("sandbox-install", 63, "", editable)(t),
		"lockstep ctl RELEASE":     with("sandbox-held", 0, "", attached)(t),
		"takes neither values nor": with("sandbox-held", 0, "")(t),
	} {
		for _, key := range []string{"e", "E"} {
			if s.press(key); s.edits() {
				t.Errorf("%s: it is edited", want)
			}
			s.shows(t, want)
		}
	}
}

// TestValuesAreInNoFileBeforeTheEditorRuns: the screen may end before.
func TestValuesAreInNoFileBeforeTheEditorRuns(t *testing.T) { // R46
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := with("sandbox-held", 0, "", editable)(t)
	s.press("e")
	if left, err := os.ReadDir(dir); !s.edits() || len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}
