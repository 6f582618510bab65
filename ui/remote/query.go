package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/board/inspector"
	"lockstep/ui/remote/protocol"
)

const (
	queryTimeout = 15 * time.Second
	maxQueries   = 8 // at the same time, for one client
)

// answer answers a query.
func (s *Server) answer(ctx context.Context, q protocol.Request) protocol.Reply {
	if r, ok := s.answerEdit(ctx, q); ok {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	it := inspector.Item{Unit: event.Unit{Phase: q.Phase, Group: q.Group}, Kind: q.Kind, Object: q.Object}
	r := protocol.Reply{ID: q.ID}
	var err error
	switch {
	case s.changes == nil:
		err = inspector.Nothing("not available from this run")
	case q.Type == protocol.QueryChange:
		var c inspector.Change
		c, err = s.changes.Change(ctx, it)
		r.Change = encodeChange(c)
	case q.Type == protocol.QuerySent:
		r.Text, err = s.changes.Sent(ctx, it)
	default:
		err = inspector.Nothing("the run uses another version of lockstep, which does not know this query")
	}
	return withError(r, err)
}

// withError adds an error, or inspector.Nothing, to a reply.
func withError(r protocol.Reply, err error) protocol.Reply {
	if none := inspector.Nothing(""); errors.As(err, &none) {
		r.Nothing = string(none)
	} else if err != nil {
		r.Error = err.Error()
	}
	return r
}

func encodeChange(c inspector.Change) protocol.Change {
	out := protocol.Change{Action: string(c.Action), Message: c.Message, Recorded: c.Recorded}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, protocol.Field(f))
	}
	return out
}

func decodeChange(c protocol.Change) inspector.Change {
	in := inspector.Change{Action: inspector.Action(c.Action), Message: c.Message, Recorded: c.Recorded}
	for _, f := range c.Fields {
		in.Fields = append(in.Fields, inspector.Field(f))
	}
	return in
}

// Change asks the run what it changes in an object. The error is inspector.Nothing if the run
// cannot say, or that of ctx.
func (r *Run) Change(ctx context.Context, it inspector.Item) (inspector.Change, error) {
	a, err := r.queryObject(ctx, protocol.QueryChange, it)
	return decodeChange(a.Change), err
}

// Sent asks the run for an object as it sends it to the API server.
func (r *Run) Sent(ctx context.Context, it inspector.Item) (string, error) {
	a, err := r.queryObject(ctx, protocol.QuerySent, it)
	return a.Text, err
}

func (r *Run) queryObject(ctx context.Context, query protocol.QueryType, it inspector.Item) (protocol.Reply, error) {
	return r.query(ctx, protocol.Request{Phase: it.Phase, Group: it.Group, Query: protocol.Query{Type: query, Kind: it.Kind, Object: it.Object}})
}

// query sends a query and waits for its reply.
func (r *Run) query(ctx context.Context, q protocol.Request) (protocol.Reply, error) {
	q.Version, q.ID = protocol.Version, rand.Text()
	answer := make(chan protocol.Reply, 1)
	r.mu.Lock()
	r.pending[q.ID] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.pending, q.ID)
	}()
	if err := r.requests.put(q); err != nil {
		return protocol.Reply{}, err
	}
	select {
	case a := <-answer:
		switch {
		case a.Nothing != "":
			return a, inspector.Nothing(a.Nothing)
		case a.Error != "":
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return protocol.Reply{}, context.Cause(ctx)
	case <-r.ended:
		return protocol.Reply{}, inspector.Nothing("the run has ended and no longer answers")
	}
}

// handleReply passes a reply to its query. A reply to a command says why the run did not accept it,
// and becomes a refusal in the feed.
func (r *Run) handleReply(a protocol.Reply) {
	r.mu.Lock()
	answer := r.pending[a.ID]
	delete(r.pending, a.ID)
	r.mu.Unlock()
	switch {
	case answer != nil:
		answer <- a // buffered
	case a.Error != "":
		r.refuse(event.Command{ID: a.ID, Name: a.Command}, a.Error)
	}
}
