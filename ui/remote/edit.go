package remote

import (
	"context"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/inspector"
	"lockstep/ui/remote/protocol"
)

// editTimeout is how long rendering and planning an edit may take.
const editTimeout = 5 * time.Minute

// Editor edits a run for its clients (R46). It is package edit's Editor without the files,
// which a client has on its own side.
type Editor interface {
	Values(all bool) (string, error)
	Edit(ctx context.Context, values string, all bool) (edit.Edited, error)
	Again(ctx context.Context) (edit.Edited, error)
	// Given returns edited values without chart defaults, as YAML.
	Given(values string, all bool) (string, error)
}

// withoutValues is an Editor whose answers may be read by anybody.
type withoutValues struct{ Editor }

const valuesKept = inspector.Nothing("the run is in the cluster, where its answers are in a log: read the values with lockstep get values, and send changes with lockstep ctl RELEASE edit")

func (withoutValues) Values(bool) (string, error)        { return "", valuesKept }
func (withoutValues) Given(string, bool) (string, error) { return "", valuesKept }

// answerEdit answers a question about an edit. is reports whether q is one.
func (s *Server) answerEdit(ctx context.Context, q protocol.Order) (r protocol.Reply, is bool) {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	r.ID = q.ID
	var err error
	var made edit.Edited
	switch q.Ask {
	case protocol.AskValues, protocol.AskGiven, protocol.AskEdit, protocol.AskRender:
	default:
		return r, false
	}
	switch {
	case s.editor == nil:
		err = inspector.Nothing("nothing to edit: this operation takes neither values nor a chart")
	case q.Ask == protocol.AskValues:
		r.Text, err = s.editor.Values(q.All)
	case q.Ask == protocol.AskGiven:
		r.Text, err = s.editor.Given(q.Values, q.All)
	case q.Ask == protocol.AskEdit:
		made, err = s.editor.Edit(ctx, q.Values, q.All)
	default:
		made, err = s.editor.Again(ctx)
	}
	r.Edited = protocol.Edited{Edit: made.Order.Edit, Empty: made.Empty, Lines: made.Lines}
	for _, c := range made.Changes {
		r.Edited.Changes = append(r.Edited.Changes, protocol.Altered{Group: c.Group, Object: c.Object, Change: changeOut(c.Change)})
	}
	return failed(r, err), true
}

// Values returns the values of the run for the user to edit. They are not masked.
func (r *Run) Values(ctx context.Context, all bool) (string, error) {
	a, err := r.ask(ctx, protocol.Order{Question: protocol.Question{Ask: protocol.AskValues, All: all}})
	return a.Text, err
}

// Given returns edited values without chart defaults. They are not masked.
func (r *Run) Given(ctx context.Context, values string, all bool) (string, error) {
	a, err := r.ask(ctx, edits(protocol.AskGiven, values, all))
	return a.Text, err
}

// Edit has the run render and plan a revision with edited values.
func (r *Run) Edit(ctx context.Context, values string, all bool) (edit.Edited, error) {
	return r.edited(ctx, edits(protocol.AskEdit, values, all))
}

// Again has the run load its chart again, and render and plan a revision with it.
func (r *Run) Again(ctx context.Context) (edit.Edited, error) {
	return r.edited(ctx, edits(protocol.AskRender, "", false))
}

// edits is a question about an edit.
func edits(what protocol.Ask, values string, all bool) protocol.Order {
	return protocol.Order{Command: protocol.Command{Values: values}, Question: protocol.Question{Ask: what, All: all}}
}

func (r *Run) edited(ctx context.Context, q protocol.Order) (edit.Edited, error) {
	a, err := r.ask(ctx, q)
	out := edit.Edited{Lines: a.Edited.Lines, Empty: a.Edited.Empty, Order: event.Command{Name: event.Edit, Edit: a.Edited.Edit}}
	for _, c := range a.Edited.Changes {
		out.Changes = append(out.Changes, edit.Altered{Group: c.Group, Object: c.Object, Change: changeIn(c.Change)})
	}
	return out, err
}
