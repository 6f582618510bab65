// Package protocol defines the messages between a run and its clients (R47). Only ui/remote imports
// it. The central types are Request and Reply.
//
// A run writes one event per line, as -o json prints them, an empty line after all past events, and
// Replies. A client writes one Request per line, which is a Command or a Query. New fields do not need
// a new Version, because unknown fields are ignored.
package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
)

// Version is the version of requests. A run refuses requests of later versions.
const Version = 1

// Request is a line of a client: a Query if Type is set, otherwise a Command. The ID is repeated in the
// reply, or in the event with the result of a command.
type Request struct {
	// Version 0 means 1.
	Version int `json:"version,omitempty"`
	event.Command
	Query
	// By names the sender if that is not the user of the run.
	By string `json:"by,omitempty"`
	// Edit is from the reply to a query about an edit.
	Edit event.EditID `json:"edit,omitempty"`
}

// Query asks about an object, or about an edit with the request's Values.
type Query struct {
	Type   QueryType       `json:"ask,omitempty"`
	All    bool            `json:"all,omitempty"`  // all values, chart defaults included
	Kind   event.PhaseKind `json:"kind,omitempty"` // of the phase
	Object plan.Object     `json:"object,omitzero"`
}

// QueryType says what a query asks for.
type QueryType string

const (
	QueryChange     QueryType = "change"        // the change of the object
	QuerySent       QueryType = "sent"          // the object as the run sends it to the API server, as YAML
	QueryCluster    QueryType = "cluster"       // what identifies the cluster of the run
	QueryValues     QueryType = "values"        // the values of the run for editing, not masked
	QueryUserValues QueryType = "given"         // the edited values without chart defaults, not masked
	QueryEdit       QueryType = "edit"          // prepares a revision with the edited values
	ScreenOpen      QueryType = "screen-open"   // not answered: a screen shows the run; its ID is that of the request
	ScreenClosed    QueryType = "screen-closed" // not answered
	QueryReload     QueryType = "render"        // prepares a revision with the chart, loaded again
)

// Reply answers a query, or says why a request was not accepted. From a socket, only the client that sent
// the request receives it; from a run in the cluster, all clients do.
type Reply struct {
	ID string `json:"id"` // "" if the request could not be read
	// Command is the command that was not accepted.
	Command event.CommandName `json:"command,omitempty"`
	Change  inspect.Change    `json:"change,omitzero"`
	Text    string            `json:"text,omitempty"`
	Edited  inspect.Edited    `json:"edited,omitzero"`
	// Nothing says why there is nothing to show. Error is an error message.
	Nothing string `json:"nothing,omitempty"`
	Error   string `json:"error,omitempty"`
}

// CommandRequest returns the request for a command.
func CommandRequest(c event.Command) Request {
	return Request{Version: Version, Command: c, By: c.By, Edit: c.Edit}
}

// EventCommand returns the command for the engine.
func (r Request) EventCommand() event.Command {
	r.Command.Edit = r.Edit
	return r.Command
}

// Encode returns the line of a request, or an error if it is too long.
func (r Request) Encode() ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return append(line, '\n'), checkLength(len(line))
}

// replyPrefix is the start of the line of a reply.
var replyPrefix = []byte(`{"reply":`)

type replyLine struct {
	Reply Reply `json:"reply"`
}

// Encode returns the line of a reply.
func (r Reply) Encode() ([]byte, error) {
	line, err := json.Marshal(replyLine{r})
	return append(line, '\n'), err
}

// DecodeReply decodes a line of a run. ok reports whether the line is a reply.
func DecodeReply(line []byte) (r Reply, ok bool, err error) {
	if !bytes.HasPrefix(line, replyPrefix) {
		return Reply{}, false, nil
	}
	var l replyLine
	err = json.Unmarshal(line, &l)
	return l.Reply, true, err
}
