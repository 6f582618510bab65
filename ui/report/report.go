// Package report tells about an operation without a screen: as text for people
// who read a log (Text, Summary), as events for programs (JSON), as a record
// that can be read again (RunLog, Read); and it draws the DAG of a chart (Dag).
// What other commands result in are values (View), which a Display shows to people
// as text or to programs as JSON. Everything it knows comes from events and from what
// it is given; it imports neither kube nor the screen.
package report

import (
	"context"
	_ "embed"

	"lockstep/engine/event"
)

// Consumer takes every event of one operation, in order, from one goroutine. It
// must not keep the operation waiting for a person.
type Consumer interface {
	Consume(event.Event)
}

// Follow hands the events of the feed to the consumers until the feed is closed
// and returns the picture they draw.
func Follow(feed *event.Feed, consumers ...Consumer) *event.State {
	return Watch(context.Background(), feed, consumers...)
}

// Watch is Follow that ends with ctx, too.
func Watch(ctx context.Context, feed *event.Feed, consumers ...Consumer) *event.State {
	state := &event.State{}
	reader := feed.Reader()
	for {
		batch, ok := reader.Next(ctx)
		if !ok {
			return state
		}
		for _, e := range batch {
			state.Apply(e)
			for _, c := range consumers {
				c.Consume(e)
			}
		}
	}
}

// Replay hands recorded events to the consumers, all at once, and returns the
// picture they draw.
func Replay(events []event.Event, consumers ...Consumer) *event.State {
	state := &event.State{}
	for _, e := range events {
		state.Apply(e)
		for _, c := range consumers {
			c.Consume(e)
		}
	}
	return state
}

// EventsDoc documents every field and kind of event, as Markdown.
//
//go:embed events.md
var EventsDoc string

// EventsSchema is the JSON schema of an event. It is made from event.Event and
// EventsDoc by a test.
//
//go:embed events.schema.json
var EventsSchema string
