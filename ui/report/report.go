// Package report tells about an operation without a screen: as text for people
// who read a log (Text, Summary), as events for programs (JSON), as a record
// that can be read again (RunLog, Read); and it draws the DAG of a chart (Dag).
// What other commands have to say a Display shows, for people or programs (New).
// Everything it knows comes from events and from what it is given. It has a file
// for each thing that is told, which makes many files and over 2,000 lines: text
// and JSON of one thing stand side by side, rather than in a package for each.
package report

import (
	"context"

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
