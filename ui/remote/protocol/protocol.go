// Package protocol defines the messages between a run and its clients on the run's socket
// (R47). Only ui/remote imports it.
//
// A run writes its events as -o json prints them, an empty line after all past events, and
// Replies. A client writes one Order per line: a Command or a Question. Version fixes the
// meaning of both. New fields do not need a new version: unknown ones are ignored.
package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Version is the version of the orders. A run refuses orders of later versions.
const Version = 1

// Order is a line of a client: a Question if Ask is set, else a Command.
type Order struct {
	// Version 0 means 1.
	Version int `json:"version,omitempty"`
	Command
	Question
	// ID is repeated in the reply, and in the event that answers a command.
	ID string `json:"id,omitempty"`
	// By says who sends it, where that is not the user of the run.
	By string `json:"by,omitempty"`
	// Phase and Group name the unit.
	Phase string `json:"phase,omitempty"`
	Group string `json:"group,omitempty"`
}

// Command steers a run; event.Command documents the fields.
type Command struct {
	Name          event.CommandName `json:"command,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	KnowsRollback bool              `json:"told,omitempty"`
	Values        string            `json:"values,omitempty"`
	// Edit is the answer to a question about an edit.
	Edit event.EditID `json:"edit,omitempty"`
}

// Question is about an object, or about an edit with the order's Values.
type Question struct {
	Ask    Ask             `json:"ask,omitempty"`
	All    bool            `json:"all,omitempty"`  // all values, chart defaults included
	Kind   event.PhaseKind `json:"kind,omitempty"` // of the phase
	Object plan.Object     `json:"object,omitzero"`
}

// Ask is the kind of a question.
type Ask string

const (
	AskChange Ask = "change" // what the run changes in the object
	AskSent   Ask = "sent"   // the object as the run sends it, as YAML
	AskValues Ask = "values" // the values of the run for the user to edit, not masked
	AskGiven  Ask = "given"  // the edited values without chart defaults, not masked
	AskEdit   Ask = "edit"   // what a revision with the edited values would change
	AskRender Ask = "render" // what a revision with the reloaded chart would change
)

// Reply answers a question, or says why an order was not accepted. Only the client that
// sent the order gets it.
type Reply struct {
	ID string `json:"id"` // "" if the order could not be read
	// Command is the one that was not accepted.
	Command event.CommandName `json:"command,omitempty"`
	Change  Change            `json:"change,omitzero"`
	Text    string            `json:"text,omitempty"`
	Edited  Edited            `json:"edited,omitzero"`
	// Nothing says why there is nothing to show, Error what failed.
	Nothing string `json:"nothing,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Change is what a run changes in an object.
type Change struct {
	Action   string  `json:"action"`
	Message  string  `json:"message,omitempty"`
	Fields   []Field `json:"fields,omitempty"`
	Recorded bool    `json:"recorded,omitempty"`
}

// Edited is a revision that was prepared from an edit. A Command with its Edit applies it.
type Edited struct {
	Edit    event.EditID `json:"edit,omitempty"`
	Empty   bool         `json:"empty,omitempty"`
	Lines   []string     `json:"lines,omitempty"`
	Changes []Altered    `json:"changes,omitempty"`
}

// Altered is a change to an object in a group.
type Altered struct {
	Group  string      `json:"group"`
	Object plan.Object `json:"object"`
	Change Change      `json:"change"`
}

// Field is the path of a field's parent, and the lines of the difference.
type Field struct {
	In    string   `json:"in"`
	Lines []string `json:"lines"`
}

// OfCommand is the order for a command.
func OfCommand(c event.Command) Order {
	return Order{Version: Version, Command: Command{c.Name, c.Reason, c.KnowsRollback, c.Values, c.Edit}, ID: c.ID, By: c.By, Phase: c.Phase, Group: c.Group}
}

// Event returns the command for the engine.
func (o Order) Event() event.Command {
	return event.Command{Name: o.Name, Phase: o.Phase, Group: o.Group, Reason: o.Reason, KnowsRollback: o.KnowsRollback, ID: o.ID, Values: o.Values, Edit: o.Edit}
}

// Encode returns the line of an order, or a TooLongError.
func (o Order) Encode() ([]byte, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the message: %w", err)
	}
	if len(line) >= MaxOrder {
		return nil, &TooLongError{Length: len(line)}
	}
	return append(line, '\n'), nil
}

// replyPrefix is the start of a line that is not an event.
var replyPrefix = []byte(`{"reply":`)

type replyLine struct {
	Reply Reply `json:"reply"`
}

// Encode returns the line of a reply.
func (r Reply) Encode() ([]byte, error) {
	line, err := json.Marshal(replyLine{r})
	return append(line, '\n'), err
}

// DecodeReply decodes a line of a run. is reports whether the line is a reply.
func DecodeReply(line []byte) (r Reply, is bool, err error) {
	if !bytes.HasPrefix(line, replyPrefix) {
		return Reply{}, false, nil
	}
	var l replyLine
	err = json.Unmarshal(line, &l)
	return l.Reply, true, err
}
