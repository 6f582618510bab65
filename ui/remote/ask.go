package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/inspector"
)

// question asks what a run does to an object; a client sends it as a line of its own.
type question struct {
	Ask    string          `json:"ask"` // change or sent
	ID     string          `json:"id"`
	Phase  string          `json:"phase"`
	Group  string          `json:"group"`
	Kind   event.PhaseKind `json:"kind"` // of the phase
	Object plan.Object     `json:"object"`
}

const askChange, askSent = "change", "sent"

// reply answers a question; only who has asked reads it, between two events.
type reply struct {
	ID     string           `json:"id"`
	Change inspector.Change `json:"change,omitzero"`
	Text   string           `json:"text,omitempty"`
	// Nothing says why there is no answer, Error what went wrong.
	Nothing string `json:"nothing,omitempty"`
	Error   string `json:"error,omitempty"`
}

type replyLine struct {
	Reply reply `json:"reply"`
}

// replies is how a line begins that is no event.
var replies = []byte(`{"reply":`)

const (
	// answerTime is how long an answer may take.
	answerTime = 15 * time.Second
	// answersAtOnce is how many are looked for at a time for one client.
	answersAtOnce = 8
)

// answer looks up what is asked.
func (s *Server) answer(ctx context.Context, q question) (r reply) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	it := inspector.Item{Unit: event.Unit{Phase: q.Phase, Group: q.Group}, Kind: q.Kind, Object: q.Object}
	var err error
	switch {
	case s.ahead == nil:
		err = inspector.Nothing("the run does not tell")
	case q.Ask == askChange:
		r.Change, err = s.ahead.Change(ctx, it)
	case q.Ask == askSent:
		r.Text, err = s.ahead.Sent(ctx, it)
	default:
		err = inspector.Nothing("the run, of another version of lockstep, does not know what is asked")
	}
	r.ID = q.ID
	if none := inspector.Nothing(""); errors.As(err, &none) {
		r.Nothing = string(none)
	} else if err != nil {
		r.Error = err.Error()
	}
	return r
}

// Change asks the run what it does to an object. The error is inspector.Nothing where
// there is nothing to tell, ErrLost, or that of ctx.
func (r *Run) Change(ctx context.Context, it inspector.Item) (inspector.Change, error) {
	a, err := r.ask(ctx, askChange, it)
	return a.Change, err
}

// Sent asks the run for an object as it is sent.
func (r *Run) Sent(ctx context.Context, it inspector.Item) (string, error) {
	a, err := r.ask(ctx, askSent, it)
	return a.Text, err
}

func (r *Run) ask(ctx context.Context, what string, it inspector.Item) (reply, error) {
	q := question{Ask: what, ID: rand.Text(), Phase: it.Phase, Group: it.Group, Kind: it.Kind, Object: it.Object}
	answer := make(chan reply, 1)
	r.mu.Lock()
	r.asked[q.ID] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, q.ID)
	}()
	if err := r.orders.put(q); err != nil {
		return reply{}, err
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
		return reply{}, context.Cause(ctx)
	case <-r.ended:
		return reply{}, inspector.Nothing("the run is over, and tells no more")
	}
}

// replied takes a line that is a reply, and reports whether it is one.
func (r *Run) replied(line []byte) bool {
	if !bytes.HasPrefix(line, replies) {
		return false
	}
	var l replyLine
	if json.Unmarshal(line, &l) != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer := r.asked[l.Reply.ID]; answer != nil {
		answer <- l.Reply // there is room for the one that comes
		delete(r.asked, l.Reply.ID)
	}
	return true
}
