package remote

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/inspector"
	"lockstep/ui/remote/protocol"
)

// editing edits values that have a word.
type editing struct{}

var secondEdit = edit.Edited{
	Lines: []string{"revision 2: 1 to change"}, Order: event.Command{Name: event.Edit, Edit: 2},
	Changes: []edit.Altered{{Group: "shop:db", Object: plan.Object{Kind: "Job", Name: "x"}, Change: inspector.Change{
		Action: inspector.Alter, Fields: []inspector.Field{{In: "spec", Lines: []string{"-a: 1", "+a: 2"}}}}}},
}

func (editing) Values(all bool) (string, error) {
	if all {
		return "word: old\nother: 1\n", nil
	}
	return "word: old\n", nil
}

func (editing) Given(values string, all bool) (string, error) {
	if !all {
		return values, nil
	}
	return "word: new\n", nil
}

func (editing) Edit(_ context.Context, values string, all bool) (edit.Edited, error) {
	if values != "word: new\n" || all {
		return edit.Edited{}, errors.New("which word?")
	}
	return secondEdit, nil
}

func (editing) Again(context.Context) (edit.Edited, error) {
	return edit.Edited{Empty: true, Order: event.Command{Name: event.Edit, Edit: 3}}, nil
}

// TestARunIsEditedFromElsewhere: its values come over the socket, and what it makes of
// edited ones. The command to apply them names what the run has prepared.
func TestARunIsEditedFromElsewhere(t *testing.T) { // R46, R47
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r, ctx := join(t, s.dir, 1)[0], t.Context()
	for all, want := range map[bool]string{false: "word: old\n", true: "word: old\nother: 1\n"} {
		if got, err := r.Values(ctx, all); got != want || err != nil {
			t.Errorf("the values are %q, %v", got, err)
		}
	}
	if got, err := r.Given(ctx, "word: new\nother: 1\n", true); got != "word: new\n" || err != nil {
		t.Errorf("the given values are %q, %v", got, err)
	}
	made, err := r.Edit(ctx, "word: new\n", false)
	if err != nil || !reflect.DeepEqual(made, secondEdit) {
		t.Errorf("the edit comes to %+v, %v", made, err)
	}
	if o := protocol.OfCommand(made.Order).Event(); o.Edit != 2 {
		t.Errorf("the command names edit %d", o.Edit)
	}
	if _, err := r.Edit(ctx, "word: [", false); err == nil || err.Error() != "which word?" {
		t.Errorf("an invalid edit: %v", err)
	}
	if made, err := r.Again(ctx); err != nil || !made.Empty || made.Order.Edit != 3 {
		t.Errorf("the chart comes to %+v, %v", made, err)
	}
}

// TestARunThatCannotBeEditedSaysSo instead of its values.
func TestARunThatCannotBeEditedSaysSo(t *testing.T) { // R46
	s := &Server{}
	for _, what := range []protocol.Ask{protocol.AskValues, protocol.AskGiven, protocol.AskEdit, protocol.AskRender} {
		if r := s.answer(t.Context(), protocol.Order{Question: protocol.Question{Ask: what}}); r.Nothing == "" || r.Text != "" {
			t.Errorf("%s is answered with %+v", what, r)
		}
	}
}
