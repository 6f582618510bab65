//go:build unix

package remote

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/remote/protocol"
)

// fakeEditor edits values with one word.
type fakeEditor struct{}

var secondEdit = inspect.Edited{
	Edit: 2, Lines: []string{"revision 2: 1 to change"},
	Changes: []inspect.Change{{Group: "shop:db", Object: plan.Object{Kind: "Job", Name: "x"},
		Action: inspect.Modify, Fields: []inspect.Field{{In: "spec", Lines: []string{"-a: 1", "+a: 2"}}}}},
}

func (fakeEditor) Values(_ context.Context, all bool) (string, error) {
	if all {
		return "word: old\nother: 1\n", nil
	}
	return "word: old\n", nil
}

func (fakeEditor) UserValues(_ context.Context, values string, all bool) (string, error) {
	if !all {
		return values, nil
	}
	return "word: new\n", nil
}

func (fakeEditor) Edit(_ context.Context, values string, all bool) (inspect.Edited, error) {
	if values != "word: new\n" || all {
		return inspect.Edited{}, errors.New("which word?")
	}
	return secondEdit, nil
}

func (fakeEditor) Reload(context.Context) (inspect.Edited, error) {
	return inspect.Edited{Empty: true, Edit: 3}, nil
}

// TestEdit reads and edits values over the socket. The command to apply the edit has its ID.
func TestEdit(t *testing.T) { // R46, R47
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r, ctx := join(t, s.dir, 1)[0], t.Context()
	for all, want := range map[bool]string{false: "word: old\n", true: "word: old\nother: 1\n"} {
		if got, err := r.Values(ctx, all); got != want || err != nil {
			t.Errorf("values: got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := r.UserValues(ctx, "word: new\nother: 1\n", true); got != "word: new\n" || err != nil {
		t.Errorf("user values: got %q, %v", got, err)
	}
	made, err := r.Edit(ctx, "word: new\n", false)
	if err != nil || !reflect.DeepEqual(made, secondEdit) {
		t.Errorf("edit: got %+v, %v", made, err)
	}
	if o := protocol.CommandRequest(event.Command{Name: event.Edit, Edit: made.Edit}).EventCommand(); o.Edit != 2 {
		t.Errorf("the command has edit %d, want 2", o.Edit)
	}
	if _, err := r.Edit(ctx, "word: [", false); err == nil || err.Error() != "which word?" {
		t.Errorf("an invalid edit: %v", err)
	}
	if made, err := r.Reload(ctx); err != nil || !made.Empty || made.Edit != 3 {
		t.Errorf("reload: got %+v, %v", made, err)
	}
}

// TestEditUnavailable: a run that cannot be edited says so.
func TestEditUnavailable(t *testing.T) { // R46
	s := &Server{}
	for _, what := range []protocol.QueryType{protocol.QueryValues, protocol.QueryUserValues, protocol.QueryEdit, protocol.QueryReload} {
		if r := s.answer(t.Context(), protocol.Request{Query: protocol.Query{Type: what}}); r.Nothing == "" || r.Text != "" {
			t.Errorf("%s: got the reply %+v", what, r)
		}
	}
}
