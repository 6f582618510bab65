// Package protocol is what a run and those who watch and steer it say to each other
// through the run's socket (R47). Only ui/remote imports it.
//
// A run writes its events as the lines that -o json prints, an empty line where the
// present is reached for the first time, and Replies. A client writes an Order a line:
// a Command or a Question. What both mean is fixed by Version; fields may be added
// without a new one, since either side ignores those that it does not know.
package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Version is that of the orders. A run refuses orders of later versions.
const Version = 1

// Order is a line of a client's, a Command unless it asks something.
type Order struct {
	// Version is 0 where a client does not say, which means 1.
	Version int `json:"version,omitempty"`
	Command
	Question
	// ID is given back in the reply, and in the event that answers a command.
	ID string `json:"id,omitempty"`
	// Phase and Group name the unit that it is about.
	Phase string `json:"phase,omitempty"`
	Group string `json:"group,omitempty"`
}

// Command is what steers a run; event.Command says what the fields mean.
type Command struct {
	Name   event.CommandName `json:"command,omitempty"`
	Reason string            `json:"reason,omitempty"`
	Told   bool              `json:"told,omitempty"`
	Values string            `json:"values,omitempty"`
}

// Question asks what the run does to an object.
type Question struct {
	Ask    Ask             `json:"ask,omitempty"`
	Kind   event.PhaseKind `json:"kind,omitempty"` // of the phase
	Object plan.Object     `json:"object,omitzero"`
}

// Ask is what is asked.
type Ask string

const (
	AskChange Ask = "change" // what the run does to the object
	AskSent   Ask = "sent"   // the object as it is sent, as YAML
)

// Reply answers a question, or says why an order was not taken. Only the client that
// sent the order reads it, between two events.
type Reply struct {
	ID string `json:"id"` // "" where the order could not be read
	// Command is the one that was not taken.
	Command event.CommandName `json:"command,omitempty"`
	Change  Change            `json:"change,omitzero"`
	Text    string            `json:"text,omitempty"`
	// Nothing says why there is no answer, Error what went wrong.
	Nothing string `json:"nothing,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Change is what a run does to an object.
type Change struct {
	Action   string  `json:"action"`
	Message  string  `json:"message,omitempty"`
	Fields   []Field `json:"fields,omitempty"`
	Recorded bool    `json:"recorded,omitempty"`
}

// Field is a field that changes: where it is, and the lines of the difference.
type Field struct {
	In    string   `json:"in"`
	Lines []string `json:"lines"`
}

// OfCommand is the order that gives a command.
func OfCommand(c event.Command) Order {
	return Order{Version: Version, Command: Command{c.Name, c.Reason, c.Told, c.Values}, ID: c.ID, Phase: c.Phase, Group: c.Group}
}

// Event returns the command as the engine takes it.
func (o Order) Event() event.Command {
	return event.Command{Name: o.Name, Phase: o.Phase, Group: o.Group, Reason: o.Reason, Told: o.Told, ID: o.ID, Values: o.Values}
}

// Encode returns the line of an order, or says that it is longer than a run takes.
func (o Order) Encode() ([]byte, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write the order: %w", err)
	}
	if len(line) >= MaxOrder {
		return nil, &TooLongError{Length: len(line)}
	}
	return append(line, '\n'), nil
}

// replyPrefix is how a line begins that is no event.
var replyPrefix = []byte(`{"reply":`)

type replyLine struct {
	Reply Reply `json:"reply"`
}

// Encode returns the line of a reply.
func (r Reply) Encode() ([]byte, error) {
	line, err := json.Marshal(replyLine{r})
	return append(line, '\n'), err
}

// DecodeReply reads a line of a run's, and reports whether it is a reply.
func DecodeReply(line []byte) (r Reply, is bool, err error) {
	if !bytes.HasPrefix(line, replyPrefix) {
		return Reply{}, false, nil
	}
	var l replyLine
	err = json.Unmarshal(line, &l)
	return l.Reply, true, err
}
