package remote

import (
	"context"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/ui/remote/protocol"
)

// editTimeout is how long rendering and planning an edit may take.
const editTimeout = 5 * time.Minute

// withoutValues is an Editor that returns no values, because other users can read the replies.
type withoutValues struct{ inspect.Editor }

var errValuesHidden = inspect.Unavailable("a run in the cluster does not send its values, because they would be in its log; read them with " + text.Program + " get values, and edit them with " + text.Program + " ctl RELEASE edit")

func (withoutValues) Values(context.Context, bool) (string, error) { return "", errValuesHidden }
func (withoutValues) UserValues(context.Context, string, bool) (string, error) {
	return "", errValuesHidden
}

var editQueries = []protocol.QueryType{protocol.QueryValues, protocol.QueryUserValues, protocol.QueryEdit, protocol.QueryReload}

// answerEdit answers a query about an edit. ok reports whether q is such a query.
func (s *Server) answerEdit(ctx context.Context, q protocol.Request) (r protocol.Reply, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	r.ID = q.ID
	var err error
	switch {
	case !slices.Contains(editQueries, q.Type):
		return r, false
	case s.editor == nil:
		err = inspect.Unavailable("nothing to edit: this operation takes neither values nor a chart")
	case q.Type == protocol.QueryValues:
		r.Text, err = s.editor.Values(ctx, q.All)
	case q.Type == protocol.QueryUserValues:
		r.Text, err = s.editor.UserValues(ctx, q.Values, q.All)
	case q.Type == protocol.QueryEdit:
		r.Edited, err = s.editor.Edit(ctx, q.Values, q.All)
	default:
		r.Edited, err = s.editor.Reload(ctx)
	}
	for n := range r.Edited.Changes {
		r.Edited.Changes[n].Diff = "" // Fields have it all
	}
	return withError(r, err), true
}

// Values returns the values of the run for editing, unmasked.
func (r *Run) Values(ctx context.Context, all bool) (string, error) {
	reply, err := r.queryEdit(ctx, protocol.QueryValues, "", all)
	return reply.Text, err
}

// UserValues returns edited values without chart defaults, unmasked.
func (r *Run) UserValues(ctx context.Context, values string, all bool) (string, error) {
	reply, err := r.queryEdit(ctx, protocol.QueryUserValues, values, all)
	return reply.Text, err
}

// Edit makes the run render and plan a revision with edited values.
func (r *Run) Edit(ctx context.Context, values string, all bool) (inspect.Edited, error) {
	reply, err := r.queryEdit(ctx, protocol.QueryEdit, values, all)
	return reply.Edited, err
}

// Reload makes the run load its chart again, and render and plan a revision with it.
func (r *Run) Reload(ctx context.Context) (inspect.Edited, error) {
	reply, err := r.queryEdit(ctx, protocol.QueryReload, "", false)
	return reply.Edited, err
}

func (r *Run) queryEdit(ctx context.Context, query protocol.QueryType, values string, all bool) (protocol.Reply, error) {
	return r.query(ctx, protocol.Request{Command: event.Command{Values: values}, Query: protocol.Query{Type: query, All: all}})
}
