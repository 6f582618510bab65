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
	answerTimeout = 15 * time.Second
	maxAnswers    = 8 // at the same time, for one client
)

// answer answers a question.
func (s *Server) answer(ctx context.Context, q protocol.Order) protocol.Reply {
	if r, is := s.answerEdit(ctx, q); is {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	it := inspector.Item{Unit: event.Unit{Phase: q.Phase, Group: q.Group}, Kind: q.Kind, Object: q.Object}
	r := protocol.Reply{ID: q.ID}
	var err error
	switch {
	case s.ahead == nil:
		err = inspector.Nothing("not available from this run")
	case q.Ask == protocol.AskChange:
		var c inspector.Change
		c, err = s.ahead.Change(ctx, it)
		r.Change = changeOut(c)
	case q.Ask == protocol.AskSent:
		r.Text, err = s.ahead.Sent(ctx, it)
	default:
		err = inspector.Nothing("the run uses another version of lockstep, which does not know this query")
	}
	return failed(r, err)
}

// failed adds an error to a reply.
func failed(r protocol.Reply, err error) protocol.Reply {
	if none := inspector.Nothing(""); errors.As(err, &none) {
		r.Nothing = string(none)
	} else if err != nil {
		r.Error = err.Error()
	}
	return r
}

func changeOut(c inspector.Change) protocol.Change {
	out := protocol.Change{Action: string(c.Action), Message: c.Message, Recorded: c.Recorded}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, protocol.Field(f))
	}
	return out
}

func changeIn(c protocol.Change) inspector.Change {
	in := inspector.Change{Action: inspector.Action(c.Action), Message: c.Message, Recorded: c.Recorded}
	for _, f := range c.Fields {
		in.Fields = append(in.Fields, inspector.Field(f))
	}
	return in
}

// Change asks the run what it changes in an object. The error is inspector.Nothing if
// there is no answer, ErrLost, or that of ctx.
func (r *Run) Change(ctx context.Context, it inspector.Item) (inspector.Change, error) {
	a, err := r.ask(ctx, about(protocol.AskChange, it))
	return changeIn(a.Change), err
}

// Sent asks the run for an object as it sends it.
func (r *Run) Sent(ctx context.Context, it inspector.Item) (string, error) {
	a, err := r.ask(ctx, about(protocol.AskSent, it))
	return a.Text, err
}

// about is a question about an object.
func about(what protocol.Ask, it inspector.Item) protocol.Order {
	return protocol.Order{Phase: it.Phase, Group: it.Group, Question: protocol.Question{Ask: what, Kind: it.Kind, Object: it.Object}}
}

func (r *Run) ask(ctx context.Context, q protocol.Order) (protocol.Reply, error) {
	q.Version, q.ID = protocol.Version, rand.Text()
	answer := make(chan protocol.Reply, 1)
	r.mu.Lock()
	r.asked[q.ID] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, q.ID)
	}()
	if err := r.orders.put(q); err != nil {
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
		return protocol.Reply{}, inspector.Nothing("the run is over and no longer answers")
	}
}

// replied passes a reply to the question that it answers. Without one it says why a command
// was not accepted, and becomes a refusal in the feed.
func (r *Run) replied(a protocol.Reply) {
	r.mu.Lock()
	answer := r.asked[a.ID]
	delete(r.asked, a.ID)
	r.mu.Unlock()
	switch {
	case answer != nil:
		answer <- a // buffered
	case a.Error != "":
		r.refuse(event.Command{ID: a.ID, Name: a.Command}, a.Error)
	}
}
