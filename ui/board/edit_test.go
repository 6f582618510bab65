package board

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/graph"
)

// fakeEditor has values, and returns prepared results.
type fakeEditor struct {
	made  inspect.Edited
	err   error
	saved []string
}

func (*fakeEditor) Values(_ context.Context, all bool) (string, error) {
	if all {
		return "word: old\nother: 1\n", nil
	}
	return "word: old\n", nil
}

func (f *fakeEditor) Edit(context.Context, string, bool) (inspect.Edited, error) {
	return f.made, f.err
}

func (*fakeEditor) UserValues(_ context.Context, values string, _ bool) (string, error) {
	return values, nil
}

func (f *fakeEditor) Save(values string) (string, error) {
	if f.saved = append(f.saved, values); len(f.saved) > 1 {
		return "", errors.New("the disk is full")
	}
	return "values-shop.yaml", nil
}

func (*fakeEditor) ChartChanged() bool { return true }

func (*fakeEditor) Reload(context.Context) (inspect.Edited, error) { return inspect.Edited{}, nil }

func editable(o *Options) { o.Editor = &fakeEditor{} }

// edited is a screen whose user has just closed the editor.
func edited(t *testing.T, writes string, made inspect.Edited, err error) *rig {
	t.Helper()
	s := with("sandbox-held", 0, "", func(o *Options) { o.Editor = &fakeEditor{made: made, err: err} })(t)
	s.press("e")
	if !s.edits() {
		t.Fatal("there is no draft")
	}
	s.send(edit.EditorClosed{Values: writes})
	if s.edits() {
		s.settle()
	}
	return s
}

// wordChanges is a change to one field of an object.
var wordChanges = inspect.Change{Group: "shop:words", Object: plan.Object{Kind: "ConfigMap", Name: "word"},
	Action: inspect.Modify, Fields: []inspect.Field{{In: "data", Lines: []string{"-word: old", "+word: new"}}}}

// TestEdit applies an edited revision after a review, and never loses the user's text (R46).
func TestEdit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: new\n", inspect.Edited{Lines: []string{"revision 2: 1 to change"}, Changes: []inspect.Change{wordChanges}}, nil)
		s.shows(t, "↵ apply", "e edit again", "ctrl-s save values", "esc discard", "revision 2: 1 to change", "+ word: new")
		if s.press("esc"); len(s.sent) > 0 {
			t.Errorf("esc sent %v", s.sent)
		}
		if s.press("e"); s.draft() != "word: new\n" {
			t.Error("the draft was lost")
		}
		s.send(edit.EditorClosed{Values: s.draft()})
		s.settle()
		if s.press("enter"); len(s.sent) != 1 || s.sent[0].Name != event.Edit {
			t.Errorf("enter sent %v", s.sent)
		}
		s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Answers: s.sent[0].ID, Status: event.Refused, Message: "the run is not paused", Time: s.State.Now})
		s.shows(t, "cannot edit: the run is not paused")
		if !s.edits() || s.draft() != "word: new\n" {
			t.Error("the draft was lost when the run refused it")
		}
		s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Time: s.State.Now})
		if s.edits() {
			t.Error("the draft remained after the run accepted it")
		}
	})
}

// TestLongReviewShowsItsKeys: a review that covers the screen leaves the row of keys.
func TestLongReviewShowsItsKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: new\n", inspect.Edited{Lines: slices.Repeat([]string{"a warning"}, 100)}, nil)
		s.shows(t, "review edit", "↵ apply", "e edit again", "ctrl-s save values", "esc discard")
	})
}

// TestChartEditKeepsText: after the run accepted a chart that was rendered again, the user's values can
// still be edited.
func TestChartEditKeepsText(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: new\n", inspect.Edited{}, nil)
		s.press("esc", "E")
		s.settle()
		s.shows(t, "e edit values")
		s.press("enter")
		s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Time: s.State.Now})
		if s.press("e"); s.draft() != "word: new\n" || len(s.sent) != 1 {
			t.Errorf("the draft is %q after %v", s.draft(), s.sent)
		}
	})
}

// TestAllValuesAfterEdit: V opens all values, not the text of an earlier edit.
func TestAllValuesAfterEdit(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: new\n", inspect.Edited{}, nil)
		if s.press("esc", "V"); s.draft() != "word: old\nother: 1\n" {
			t.Errorf("the draft is %q", s.draft())
		}
	})
}

// TestReviewOfManyObjects: a change that many objects have in common is shown once.
func TestReviewOfManyObjects(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		made := inspect.Edited{Lines: []string{"revision 2: 41 to change"}, Changes: []inspect.Change{wordChanges}}
		for i := range 40 {
			made.Changes = append(made.Changes, inspect.Change{Group: fmt.Sprint("shop:g", i%3), Object: plan.Object{Group: "apps", Kind: "Deployment", Name: fmt.Sprint("d", i)},
				Action: inspect.Modify, Fields: []inspect.Field{{In: "spec", Lines: []string{"-replicas: 1", "+replicas: 2"}}}})
		}
		s := edited(t, "word: new\n", made, nil)
		s.shows(t, "40 Deployments (d0, d1, d2 and 37 more)  1 field", "+ replicas: 2", "shop:words", "ConfigMap/word  1 field", "+ word: new")
		if n := strings.Count(s.text(), "replicas: 2"); n != 1 {
			t.Errorf("the change is shown %d times:\n%s", n, s.text())
		}
	})
}

// TestEditPausesDegraded: while something is degraded, e pauses the run and opens the values at once.
func TestEditPausesDegraded(t *testing.T) { // R46
	s := with("sandbox-install", 63, "", editable)(t)
	s.showsNot(t, "edit values")
	for _, n := range s.Graph.Nodes {
		if n.Status == event.Running {
			o := n.Objects[slices.IndexFunc(n.Objects, func(o *event.ObjectState) bool { return !o.Done() })].Object
			s.feed(event.Event{Kind: event.KindDiagnosis, Phase: n.Phase, Group: n.ID, Object: &o, Cause: "image cannot be pulled", Status: event.Degraded, Time: s.State.Now})
			break
		}
	}
	s.shows(t, "e pause, edit values")
	if s.press("e"); !s.edits() || len(s.sent) != 1 || s.sent[0].Name != event.Pause {
		t.Errorf("e sent %v, edits: %t", s.sent, s.edits())
	}
}

// TestEditResumes: a run that was paused only for an edit goes on after it: the edited revision, or the same one if nothing was
// applied. A run that the user paused stays paused.
func TestEditResumes(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		degraded := func(byUser bool) *rig {
			made := inspect.Edited{Lines: []string{"revision 2"}, Changes: []inspect.Change{wordChanges}}
			s := with("sandbox-install", 63, "", func(o *Options) { o.Editor = &fakeEditor{made: made} })(t)
			n := s.Graph.Nodes[slices.IndexFunc(s.Graph.Nodes, func(n *graph.Node) bool { return n.Status == event.Running })]
			o := n.Objects[slices.IndexFunc(n.Objects, func(o *event.ObjectState) bool { return !o.Done() })].Object
			s.feed(event.Event{Kind: event.KindDiagnosis, Phase: n.Phase, Group: n.ID, Object: &o, Cause: "image cannot be pulled", Status: event.Degraded, Time: s.State.Now})
			if byUser {
				s.press("p")
				s.feed(event.Event{Kind: event.KindRun, Status: event.Paused, Time: s.State.Now})
			}
			s.press("e")
			s.feed(event.Event{Kind: event.KindRun, Status: event.Paused, Time: s.State.Now})
			return s
		}
		names := func(s *rig) (names []event.CommandName) {
			for _, c := range s.sent {
				names = append(names, c.Name)
			}
			return names
		}
		for _, byUser := range []bool{false, true} {
			s := degraded(byUser)
			s.send(edit.EditorClosed{Values: "word: new\n"})
			s.settle()
			s.shows(t, map[bool]string{false: "↵ apply, resume", true: "↵ apply  "}[byUser])
			s.press("enter")
			op := s.State.Operation
			op.Revision++
			s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Time: s.State.Now})
			want := []event.CommandName{event.Pause, event.Edit}
			if got := names(s); !slices.Equal(got, want) {
				t.Errorf("before the new revision: sent %v, want %v", got, want)
			}
			s.feed(event.Event{Kind: event.KindRun, Status: event.Replacing, Time: s.State.Now})
			s.feed(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &op, Time: s.State.Now})
			s.feed(event.Event{Kind: event.KindRun, Status: event.Paused, Time: s.State.Now})
			if !byUser {
				want = append(want, event.Resume)
			}
			if got := names(s); !slices.Equal(got, want) {
				t.Errorf("paused by the user: %t: sent %v, want %v", byUser, got, want)
			}
			s = degraded(byUser)
			s.send(edit.EditorClosed{Values: "word: old\n"})
			want = slices.DeleteFunc(want, func(n event.CommandName) bool { return n == event.Edit })
			if got := names(s); !slices.Equal(got, want) {
				t.Errorf("unchanged, paused by the user: %t: sent %v, want %v", byUser, got, want)
			}
		}
	})
}

func TestEditWithoutChange(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: [\n", inspect.Edited{}, errors.New("read the edited values: yaml: line 1: did not find expected node content"))
		s.shows(t, "invalid edit", "did not find expected node content")
		if s.press("enter"); len(s.sent) > 0 {
			t.Errorf("enter sent %v", s.sent)
		}
		if s.press("e"); !s.edits() || s.draft() != "word: [\n" {
			t.Error("the draft was lost")
		}
		if s := edited(t, "word: old\n", inspect.Edited{}, nil); s.edits() {
			t.Error("unchanged values became a draft")
		} else {
			s.shows(t, "nothing changed")
		}
	})
}

// TestCannotEdit: the screen says why a run cannot be edited: it is running, another process runs it,
// it has nothing to edit, or it rolls back.
func TestCannotEdit(t *testing.T) { // R46
	for want, s := range map[string]*rig{
		"press p to pause the run first": with("sandbox-install", 63, "", editable)(t),
		"lockstep ctl RELEASE":           with("sandbox-held", 0, "", attached)(t),
		"takes neither values nor":       with("sandbox-held", 0, "")(t),
		"a rollback cannot be edited":    with("sandbox-rollback", 140, "", editable)(t),
	} {
		for _, key := range []string{"e", "E"} {
			if s.press(key); s.edits() {
				t.Errorf("%s: e opened the editor", want)
			}
			s.shows(t, want)
		}
	}
}

// TestConnectionLost: an attached screen whose run was killed does not show it as running.
func TestConnectionLost(t *testing.T) { // R47
	s := with("sandbox-held", 0, "", attached)(t)
	s.send(batchMsg{}) // the last one
	s.shows(t, "connection lost  the run continues, or its process was killed")
	s = with("sandbox-install", 0, "", attached)(t)
	s.send(batchMsg{})
	s.showsNot(t, "connection lost")
}

// TestNoFileBeforeEditorRuns: the screen may end before the editor starts, so there is no file yet.
func TestNoFileBeforeEditorRuns(t *testing.T) { // R46
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := with("sandbox-held", 0, "", editable)(t)
	s.press("e")
	if left, err := os.ReadDir(dir); !s.edits() || len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// TestReviewLooksLikeDiff: the review and the inspector show a change with the same lines and roles,
// and a review longer than its box has a scroll bar.
func TestReviewLooksLikeDiff(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: new\n", inspect.Edited{Changes: []inspect.Change{wordChanges}}, nil)
		s.shows(t, "shop:words", "ConfigMap/word  1 field", "    data", "    - word: old", "    + word: new")
		bar := s.Theme.Lines.Heavy[5] + s.Theme.Lines.Light[5] // inside of the frame
		s.showsNot(t, bar)
		long := inspect.Edited{}
		for n := range 60 {
			c := wordChanges
			c.Object.Name, c.Message = fmt.Sprint("word", n), fmt.Sprint("change ", n)
			long.Changes = append(long.Changes, c)
		}
		s = edited(t, "word: new\n", long, nil)
		s.shows(t, bar)
	})
}

// TestEmptyEdit has nothing to apply. A held failure can be retried instead.
func TestEmptyEdit(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: old # same\n", inspect.Edited{Lines: []string{"no object changes: nothing to apply"}, Empty: true}, nil)
		s.shows(t, "nothing to apply", "e edit again", "ctrl-s save values", "esc discard", "no object changes", "R (retry)", "A (re-check)")
		s.showsNot(t, "↵ apply")
		if s.press("enter"); len(s.sent) > 0 {
			t.Errorf("enter sent %v", s.sent)
		}
		s.shows(t, "nothing to apply")
		s.press("ctrl+s")
		s.shows(t, "values saved to values-shop.yaml")
	})
}

// TestSaveEditedValues: w saves the values and says where, or why not.
func TestSaveEditedValues(t *testing.T) { // R46
	inBubble(t, func(t *testing.T) {
		s := edited(t, "word: new\n", inspect.Edited{Lines: []string{"revision 2: 1 to change"}}, nil)
		s.shows(t, "ctrl-s save")
		s.press("ctrl+s")
		s.shows(t, "values saved to values-shop.yaml")
		s.press("ctrl+s")
		s.shows(t, "cannot save the values: the disk is full")
		s.press("esc")
		s = edited(t, "word: [\n", inspect.Edited{}, errors.New("no YAML"))
		s.press("ctrl+s")
		s.shows(t, "the edit is invalid")
		s = edited(t, "word: old\n", inspect.Edited{}, nil)
		s.press("E")
		s.settle()
		s.press("ctrl+s")
		s.shows(t, "only the chart changed")
	})
}

// TestAttachedScreenEdits: an attached screen can edit if the process of the run supports it.
func TestAttachedScreenEdits(t *testing.T) { // R46, R47
	s := with("sandbox-held", 0, "", editable, attached)(t)
	if s.press("e"); !s.edits() {
		t.Errorf("e did not open the editor:\n%s", s.text())
	}
}
