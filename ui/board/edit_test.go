package board

import (
	"context"
	"errors"
	"os"
	"testing"

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
	file := s.edit.file
	t.Cleanup(func() { _ = os.Remove(file) })
	info, statErr := os.Stat(file)
	if statErr != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the values is %v, %v", info, statErr)
	}
	if err := os.WriteFile(file, []byte(writes), 0o600); err != nil {
		t.Fatal(err)
	}
	s.send(writtenMsg{})
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
	if s.press("esc"); len(s.sent) > 0 || s.edit.file == "" {
		t.Errorf("leaving sends %v", s.sent)
	}
	file := s.edit.file
	if s.press("e"); s.edit.file != file {
		t.Error("what was written is lost")
	}
	s.send(writtenMsg{})
	s.send(plannedMsg{s.edit, Edited{Order: order}, nil})
	if s.press("enter"); len(s.sent) != 1 || s.sent[0].Name != event.Edit {
		t.Errorf("going on sends %v", s.sent)
	}
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Refused, Message: "the run is not paused", Time: s.State.Now})
	s.shows(t, "edit refused: the run is not paused")
	if _, err := os.Stat(file); err != nil {
		t.Errorf("what was refused is lost: %v", err)
	}
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Time: s.State.Now})
	if _, err := os.Stat(file); err == nil {
		t.Error("the values stay behind in a file")
	}
}

func TestEditThatComesToNothing(t *testing.T) { // R46
	s := edited(t, "word: [\n", Edited{}, errors.New("read the edited values: yaml: line 1: did not find expected node content"))
	s.shows(t, "it comes to nothing", "did not find expected node content")
	if s.press("enter"); len(s.sent) > 0 {
		t.Errorf("it is sent: %v", s.sent)
	}
	if s.press("e"); s.edit == nil || s.edit.was != "word: old\n" {
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
