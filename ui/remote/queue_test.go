//go:build unix

package remote

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/engine/event"
	"lockstep/ui/remote/protocol"
)

// TestLargeEdit: a run accepts an edit of several MiB. A larger one than the limit is refused
// without closing the connection.
func TestLargeEdit(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r := join(t, s.dir, 1)[0]
	for size, want := range map[int]string{1 << 20: "", 8 << 20: "", 16 << 20: "the limit is 16 MiB"} {
		answer, err := r.Do(t.Context(), event.Command{Name: event.Edit, Values: "a: " + strings.Repeat("x", size)})
		if want == "" && (err != nil || answer.Status != event.Accepted) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v, %v", size, answer.Status, err)
		}
	}
	if _, err := r.Do(t.Context(), event.Command{Name: event.Pause}); err != nil {
		t.Errorf("a command after that: %v", err)
	}
}

// TestNoCommandIsDropped: commands sent faster than the run handles them all arrive in order (R45).
func TestNoCommandIsDropped(t *testing.T) {
	const many = 5000
	dir := filepath.Join(t.TempDir(), "live")
	given, all := make(chan struct{}), make(chan struct{})
	var feed event.Feed
	feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop"}})
	var got []string
	s, err := Serve(dir, &feed, NewScreens(&feed, false), func(c event.Command) {
		<-given
		if got = append(got, c.Group); len(got) == many {
			close(all)
		}
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Cleanup(feed.Close)
	r := join(t, dir, 1)[0]
	long := strings.Repeat("x", 200)
	for n := range many {
		r.Command(event.Command{Name: event.Break, Group: long + string(rune('a'+n%26))})
	}
	close(given)
	select {
	case <-all:
	case <-r.ended:
		t.Fatalf("%d of %d commands arrived", len(got), many)
	}
	for n, group := range got {
		if group != long+string(rune('a'+n%26)) {
			t.Fatalf("command %d: got %q", n, group)
		}
	}
}

// TestFullQueue: if a stopped process does not read commands, those that do not fit into the queue
// are refused (R45).
func TestFullQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			line, _ := json.Marshal(event.Event{Seq: 7, Kind: event.KindOperation, Operation: &event.Operation{Release: "shop"}})
			_, err = c.Write(append(line, '\n'))
		}
		if err != nil {
			t.Error(err)
		}
		accepted <- c // never read from
	}()
	r, err := dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer func() { _ = (<-accepted).Close() }()
	edit := event.Command{Name: event.Edit, Values: strings.Repeat("x", protocol.MaxRequest-1<<10)}
	const many = 2*maxQueued/(protocol.MaxRequest-1<<10) + 1 // half of them may be in the socket's buffers
	for range many {
		r.Command(edit)
	}
	events := r.Feed().Events()
	if last := events[len(events)-1]; last.Kind != event.KindCommand || last.Status != event.Refused || !strings.Contains(last.Message, "the run does not respond: ") {
		t.Errorf("after %d commands: %+v", many, last)
	}
	if _, err := r.Do(t.Context(), edit); err == nil || !strings.Contains(err.Error(), "the run does not respond: ") {
		t.Errorf("another command: %v", err)
	}
}

// TestInvalidRequestsAreRefused: a run refuses lines that are malformed, too long or of a later
// version, and handles the next one (R45).
func TestInvalidRequestsAreRefused(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r := join(t, s.dir, 1)[0]
	for _, tc := range []struct{ line, want string }{
		{"pause", "a JSON object on one line"},
		{`{"command":"edit","values":"` + strings.Repeat("x", protocol.MaxRequest) + `"}`, "the command is 16.0 MiB; the limit is 16 MiB"},
		{`{"command":"pause","id":"1","version":9}`, "version 9"},
	} {
		reader := r.Feed().Reader()
		if err := send(r.conn, []byte(tc.line+"\n")); err != nil {
			t.Fatal(err)
		}
		for refused := false; !refused; {
			events, more := reader.Next(t.Context())
			if !more {
				t.Fatalf("%.50s ends the connection", tc.line)
			}
			for _, e := range events {
				refused = refused || e.Status == event.Refused && strings.Contains(e.Message, tc.want)
			}
		}
	}
	if a, err := r.Do(t.Context(), event.Command{Name: event.Pause}); err != nil || a.Status != event.Accepted {
		t.Errorf("a command after that: %+v, %v", a, err)
	}
}

// TestCloseWhileClientsConnect: Close waits for connected clients and accepts no more.
func TestCloseWhileClientsConnect(t *testing.T) {
	for range 30 {
		s := serve(t, filepath.Join(t.TempDir(), "live"))
		path, done, err := shortPath(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		var served atomic.Int64
		for range 8 {
			clients.Go(func() {
				for {
					c, err := net.Dial("unix", filepath.Join(path, filepath.Base(s.path)))
					if err != nil {
						return
					}
					served.Add(1)
					_ = c.Close()
				}
			})
		}
		for served.Load() == 0 {
		}
		s.end()
		clients.Wait()
		done()
	}
}
