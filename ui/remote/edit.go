package remote

import (
	"context"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/inspector"
	"lockstep/ui/remote/protocol"
)

// editTimeout is how long rendering and planning an edit may take.
const editTimeout = 5 * time.Minute

// Editor edits a run for its clients (R46). It has the methods of edit.Editor that the run's process must
// execute; the client handles files.
type Editor interface {
	Values(all bool) (string, error)
	Edit(ctx context.Context, values string, all bool) (edit.Result, error)
	Reload(ctx context.Context) (edit.Result, error)
	// UserValues returns edited values without chart defaults, as YAML.
	UserValues(values string, all bool) (string, error)
}

// withoutValues is an Editor that returns no values, because other users can read the replies.
type withoutValues struct{ Editor }

const errValuesHidden = inspector.Unavailable("a run in the cluster does not send its values, because they would be in its log; read them with lockstep get values, and edit them with lockstep ctl RELEASE edit")

func (withoutValues) Values(bool) (string, error)             { return "", errValuesHidden }
func (withoutValues) UserValues(string, bool) (string, error) { return "", errValuesHidden }

var editQueries = []protocol.QueryType{protocol.QueryValues, protocol.QueryUserValues, protocol.QueryEdit, protocol.QueryReload}

// answerEdit answers a query about an edit. ok reports whether q is such a query.
func (s *Server) answerEdit(ctx context.Context, q protocol.Request) (r protocol.Reply, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	r.ID = q.ID
	var err error
	var edited edit.Result
	switch {
	case !slices.Contains(editQueries, q.Type):
		return r, false
	case s.editor == nil:
		err = inspector.Unavailable("nothing to edit: this operation takes neither values nor a chart")
	case q.Type == protocol.QueryValues:
		r.Text, err = s.editor.Values(q.All)
	case q.Type == protocol.QueryUserValues:
		r.Text, err = s.editor.UserValues(q.Values, q.All)
	case q.Type == protocol.QueryEdit:
		edited, err = s.editor.Edit(ctx, q.Values, q.All)
	default:
		edited, err = s.editor.Reload(ctx)
	}
	r.Edited = protocol.Edited{Edit: edited.Command.Edit, Empty: edited.Empty, Lines: edited.Lines}
	for _, c := range edited.Changes {
		r.Edited.Changes = append(r.Edited.Changes, protocol.Altered{Group: c.Group, Object: c.Object, Change: encodeChange(c.Change)})
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
func (r *Run) Edit(ctx context.Context, values string, all bool) (edit.Result, error) {
	return edited(r.queryEdit(ctx, protocol.QueryEdit, values, all))
}

// Reload makes the run load its chart again, and render and plan a revision with it.
func (r *Run) Reload(ctx context.Context) (edit.Result, error) {
	return edited(r.queryEdit(ctx, protocol.QueryReload, "", false))
}

func (r *Run) queryEdit(ctx context.Context, query protocol.QueryType, values string, all bool) (protocol.Reply, error) {
	return r.query(ctx, protocol.Request{Command: protocol.Command{Values: values}, Query: protocol.Query{Type: query, All: all}})
}

// edited returns the prepared revision in a reply.
func edited(reply protocol.Reply, err error) (edit.Result, error) {
	from := reply.Edited
	out := edit.Result{Lines: from.Lines, Empty: from.Empty, Command: event.Command{Name: event.Edit, Edit: from.Edit}}
	for _, c := range from.Changes {
		out.Changes = append(out.Changes, edit.ObjectChange{Group: c.Group, Object: c.Object, Change: decodeChange(c.Change)})
	}
	return out, err
}
