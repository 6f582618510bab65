package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/remote/protocol"
)

const (
	queryTimeout = 15 * time.Second
	maxQueries   = 8 // of one client at a time
)

// answer answers a query.
func (s *Server) answer(ctx context.Context, q protocol.Request) protocol.Reply {
	if r, ok := s.answerEdit(ctx, q); ok {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	it := inspect.Item{Unit: event.Unit{Phase: q.Phase, Group: q.Group}, Kind: q.Kind, Object: q.Object}
	r := protocol.Reply{ID: q.ID}
	var err error
	switch {
	case s.changes == nil:
		err = inspect.Unavailable("not available from this run")
	case q.Type == protocol.QueryChange:
		r.Change, err = s.changes.Change(ctx, it)
		r.Change.Diff = "" // Fields have it all
	case q.Type == protocol.QuerySent:
		r.Text, err = s.changes.Sent(ctx, it)
	case q.Type == protocol.QueryCluster:
		if c, ok := s.changes.(Identified); ok {
			r.Text, err = c.Cluster(ctx)
		}
	default:
		err = inspect.Unavailable("the run uses another version of lockstep, which does not know this query")
	}
	return withError(r, err)
}

// Identified is a ChangeSource that knows what identifies its cluster.
type Identified interface {
	Cluster(context.Context) (string, error)
}

// Cluster asks the run what identifies its cluster.
func (r *Run) Cluster(ctx context.Context) (string, error) {
	reply, err := r.query(ctx, protocol.Request{Query: protocol.Query{Type: protocol.QueryCluster}})
	return reply.Text, err
}

// withError adds an error, or inspect.Unavailable, to a reply.
func withError(r protocol.Reply, err error) protocol.Reply {
	if none := inspect.Unavailable(""); errors.As(err, &none) {
		r.Nothing = string(none)
	} else if err != nil {
		r.Error = err.Error()
	}
	return r
}

// Change asks the run what it changes in an object. The error is inspect.Unavailable if there is
// nothing to show.
func (r *Run) Change(ctx context.Context, it inspect.Item) (inspect.Change, error) {
	reply, err := r.queryObject(ctx, protocol.QueryChange, it)
	return reply.Change, err
}

// Sent asks the run for an object as it sends it to the API server.
func (r *Run) Sent(ctx context.Context, it inspect.Item) (string, error) {
	reply, err := r.queryObject(ctx, protocol.QuerySent, it)
	return reply.Text, err
}

func (r *Run) queryObject(ctx context.Context, query protocol.QueryType, it inspect.Item) (protocol.Reply, error) {
	return r.query(ctx, protocol.Request{Command: event.Command{Phase: it.Phase, Group: it.Group}, Query: protocol.Query{Type: query, Kind: it.Kind, Object: it.Object}})
}

// query sends a query and waits for its reply.
func (r *Run) query(ctx context.Context, q protocol.Request) (protocol.Reply, error) {
	q.Version, q.ID = protocol.Version, rand.Text()
	replies := make(chan protocol.Reply, 1)
	r.mu.Lock()
	r.pending[q.ID] = replies
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
	case reply := <-replies:
		switch {
		case reply.Nothing != "":
			return reply, inspect.Unavailable(reply.Nothing)
		case reply.Error != "":
			return reply, errors.New(reply.Error)
		}
		return reply, nil
	case <-ctx.Done():
		return protocol.Reply{}, context.Cause(ctx)
	case <-r.ended:
		if err := r.Err(); err != nil {
			return protocol.Reply{}, err
		}
		return protocol.Reply{}, inspect.Unavailable("the run has ended and no longer answers")
	}
}

// handleReply passes a reply to its query. A reply to a command, or to an unreadable request, says why the
// run did not accept it; handleReply adds it to the feed as a refusal. It ignores late replies, and those to
// the queries of other clients.
func (r *Run) handleReply(reply protocol.Reply) {
	r.mu.Lock()
	query := r.pending[reply.ID]
	delete(r.pending, reply.ID)
	r.mu.Unlock()
	switch {
	case query != nil:
		query <- reply // never blocks: the channel has a buffer for the only reply
	case reply.Error != "" && (reply.Command != "" || reply.ID == ""):
		r.refuse(event.Command{ID: reply.ID, Name: reply.Command}, reply.Error)
	}
}
