//go:build unix

package remote

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/remote/protocol"
)

// awaitScreens waits until a feed says how many screens there are.
func awaitScreens(t *testing.T, feed *event.Feed, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var state event.State
	for reader := feed.Reader(); ; {
		events, more := reader.Next(ctx)
		for _, e := range events {
			state.Apply(e)
		}
		if state.Screens == want {
			return
		}
		if !more {
			t.Fatalf("%d screens, want %d", state.Screens, want)
		}
	}
}

// TestScreens: a run knows how many screens show it; each of them learns it, and connections without a screen do not count.
func TestScreens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "live")
	s := serve(t, dir)
	s.screens.own = true
	s.screens.Consume(event.Event{Kind: event.KindOperation, Status: event.Running})
	awaitScreens(t, &s.feed, 1)
	connect := func() *Run {
		runs, err := Runs(dir)
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d runs, error %v", len(runs), err)
		}
		t.Cleanup(runs[0].Close)
		return runs[0]
	}
	first, second, ctl := connect(), connect(), connect()
	if e, err := ctl.Do(t.Context(), event.Command{Name: event.Pause}); err != nil || e.Status != event.Accepted {
		t.Fatalf("%+v, error %v", e, err)
	}
	first.OpenScreen()
	awaitScreens(t, &s.feed, 2)
	closed := second.OpenScreen()
	awaitScreens(t, first.Feed(), 3)
	closed()
	awaitScreens(t, first.Feed(), 2)
	s.screens.OwnClosed()
	awaitScreens(t, second.Feed(), 1)
	first.Close() // as if its process were killed
	awaitScreens(t, &s.feed, 0)
}

// TestScreensInTheCluster: a screen without a connection counts until it says that it has closed, or gives no sign of life.
func TestScreensInTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var feed event.Feed
		s := NewScreens(&feed, false)
		server := &Server{screens: s}
		requests := func(ids ...string) {
			for _, id := range ids {
				request := protocol.Request{Command: event.Command{ID: id}, Query: protocol.Query{Type: protocol.ScreenOpen}}
				line, err := request.Encode()
				if err != nil {
					t.Fatal(err)
				}
				server.handle(t.Context(), bytes.NewReader(line), nil, false)
			}
		}
		requests("a", "b")
		for range 4 {
			time.Sleep(screenEvery)
			requests("a")
		}
		if n := s.count(); n != 1 {
			t.Errorf("%d screens, although only a is alive", n)
		}
		s.gone("a")
		if n := len(feed.Events()); n != 4 {
			t.Errorf("%d events, want one for each change", n)
		}
	})
}
