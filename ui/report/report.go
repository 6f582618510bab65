// Package report shows operations without a screen: as a text log (Display.Operation, Summary), as NDJSON
// events, and as records of runs (RunLog, Record). A Display also shows the results of other commands (View) as
// text or JSON. Package reportfile, which this package does not import, writes the files of --report; format has
// the words that both share. The package imports neither kube nor the screen.
package report

import (
	"context"
	_ "embed"

	"lockstep/engine/event"
)

// Consumer takes every event of one operation, in order, from one goroutine. It must not wait for the user.
type Consumer interface {
	Consume(event.Event)
}

// Follow passes events to the consumers until the feed is closed, and returns the final state.
func Follow(feed *event.Feed, consumers ...Consumer) *event.State {
	return Watch(context.Background(), feed, consumers...)
}

// Watch is like Follow, but also returns when ctx is done.
func Watch(ctx context.Context, feed *event.Feed, consumers ...Consumer) *event.State {
	state := &event.State{}
	for e := range feed.Reader().All(ctx) {
		consume(state, e, consumers)
	}
	return state
}

// Replay passes recorded events to the consumers and returns the final state.
func Replay(events []event.Event, consumers ...Consumer) *event.State {
	state := &event.State{}
	for _, e := range events {
		consume(state, e, consumers)
	}
	return state
}

func consume(state *event.State, e event.Event, consumers []Consumer) {
	state.Apply(e)
	for _, c := range consumers {
		c.Consume(e)
	}
}

// EventsDoc documents every field and kind of event, as Markdown.
//
//go:embed events.md
var EventsDoc string

// EventsSchema is the JSON schema of an event. A test generates it from event.Event and EventsDoc.
//
//go:embed events.schema.json
var EventsSchema string
