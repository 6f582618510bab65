//go:build unix

package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
)

// testServer is a run that accepts every command.
type testServer struct {
	*Server
	feed event.Feed
	dir  string
}

func serve(t *testing.T, dir string) *testServer {
	t.Helper()
	s := &testServer{dir: dir}
	s.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop", Namespace: "a"}})
	var err error
	s.Server, err = Serve(dir, &s.feed, NewScreens(&s.feed, false), func(c event.Command) {
		s.feed.Publish(event.Event{Kind: event.KindCommand, Command: c.Name, Group: c.Group, Answers: c.ID, Status: event.Accepted})
	}, fakeChanges{}, fakeEditor{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end() })
	return s
}

// fakeChanges has a change for the group shop:db. For shop:slow it blocks until ctx ends.
type fakeChanges struct{}

func (fakeChanges) Change(ctx context.Context, it inspect.Item) (inspect.Change, error) {
	switch it.Group {
	case "shop:db":
		return inspect.Change{Action: inspect.Modify, Message: it.Phase + " " + string(it.Kind), Fields: []inspect.Field{{In: "spec", Lines: []string{"-a: 1", "+a: " + it.Object.Name}}}}, nil
	case "shop:slow":
		<-ctx.Done()
		return inspect.Change{}, ctx.Err()
	}
	return inspect.Change{}, inspect.Unavailable("not planned yet")
}

func (fakeChanges) Sent(_ context.Context, it inspect.Item) (string, error) {
	if it.Group == "" {
		return "", errors.New("no route to host")
	}
	return "kind: " + it.Object.Kind + "\n", nil
}

// TestQueries sends many concurrent queries to a run while it publishes events (R47).
func TestQueries(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r := join(t, s.dir, 1)[0]
	item := func(group, name string) inspect.Item {
		return inspect.Item{Unit: event.Unit{Phase: "apply", Group: group}, Kind: event.PhaseApply, Object: plan.Object{Kind: "Job", Name: name}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var slow, all sync.WaitGroup
	slow.Go(func() {
		if _, err := r.Change(ctx, item("shop:slow", "x")); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled query: got %v", err)
		}
	})
	for n := range 50 {
		all.Go(func() {
			name := strings.Repeat("n", n)
			c, err := r.Change(t.Context(), item("shop:db", name))
			if err != nil || c.Action != inspect.Modify || c.Message != "apply apply" || len(c.Fields) != 1 || c.Fields[0].Lines[1] != "+a: "+name {
				t.Errorf("%d: %+v, %v", n, c, err)
			}
		})
		s.feed.Publish(event.Event{Kind: event.KindLog, Lines: []string{"a line"}})
	}
	all.Wait()
	cancel()
	slow.Wait()
	if text, err := r.Sent(t.Context(), item("shop:db", "x")); err != nil || text != "kind: Job\n" {
		t.Errorf("%q, %v", text, err)
	}
	none := inspect.Unavailable("")
	if _, err := r.Change(t.Context(), item("shop:later", "x")); !errors.As(err, &none) || none != "not planned yet" {
		t.Errorf("a change that is not planned: got %v", err)
	}
	if _, err := r.Sent(t.Context(), item("", "x")); err == nil || errors.As(err, &none) || err.Error() != "no route to host" {
		t.Errorf("an error: got %v", err)
	}
	if _, err := r.Do(t.Context(), event.Command{Name: event.Pause}); err != nil {
		t.Errorf("a command after the queries: %v", err)
	}
	s.end()
	if _, err := r.Sent(t.Context(), item("shop:db", "x")); !errors.As(err, &none) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := r.Do(t.Context(), event.Command{Name: event.Pause}); err == nil || err.Error() != "the command came too late: install shop succeeded" {
		t.Errorf("a command after the end: %v", err)
	}
}

func (s *testServer) end() {
	s.endFeed()
	s.Close()
}

// endFeed ends the feed of the run.
func (s *testServer) endFeed() {
	exit := 0
	s.feed.End(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit})
	s.feed.Close()
}

func join(t *testing.T, dir string, want int) []*Run {
	t.Helper()
	runs, err := Runs(dir)
	if err != nil || len(runs) != want {
		t.Fatalf("found %d runs, want %d: %v", len(runs), want, err)
	}
	for _, r := range runs {
		t.Cleanup(r.Close)
	}
	return runs
}

// all reads a run to its end.
func all(t *testing.T, r *Run) (out []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for reader := r.Feed().Reader(); ; {
		events, more := reader.Next(ctx)
		if !more {
			if ctx.Err() != nil {
				t.Error("the run does not end")
			}
			return out
		}
		out = append(out, events...)
	}
}

// TestTwoClients: both clients of a run receive all its events unchanged, including the results
// of each other's commands (R47).
func TestTwoClients(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	one, two := join(t, s.dir, 1)[0], join(t, s.dir, 1)[0]
	if one.Operation.Release != "shop" {
		t.Errorf("the run is %s", one)
	}
	answer, err := one.Do(t.Context(), event.Command{Name: event.Break, Group: "shop:db"})
	if err != nil || answer.Command != event.Break || answer.Group != "shop:db" || answer.Status != event.Accepted {
		t.Errorf("result of the command: %+v, %v", answer, err)
	}
	if now := two.Now(t.Context()); now.Operation.Release != "shop" {
		t.Errorf("state: %+v", now)
	}
	s.end()
	want := s.feed.Events()
	for _, r := range []*Run{one, two} {
		got := all(t, r)
		if len(got) != len(want) || r.Err() != nil {
			t.Fatalf("got %d of %d events, %v", len(got), len(want), r.Err())
		}
		for n := range got {
			if got[n].Seq != want[n].Seq || !got[n].Time.Equal(want[n].Time) || got[n].Kind != want[n].Kind {
				t.Errorf("event %d: got %+v, want %+v", n, got[n], want[n])
			}
		}
	}
	if _, err := one.Do(t.Context(), event.Command{Name: event.Pause}); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("a command after the end: got %v (R48)", err)
	}
	join(t, s.dir, 0)
}

// TestSlowClient: a client that reads nothing delays neither the run, nor other clients, nor Close.
func TestSlowClient(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	path, done, err := shortPath(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	deaf, err := net.Dial("unix", filepath.Join(path, filepath.Base(s.path)))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	good := join(t, s.dir, 1)[0]
	line := strings.Repeat("x", 1000)
	for range 5000 { // more than a socket holds
		s.feed.Publish(event.Event{Kind: event.KindLog, Lines: []string{line}})
	}
	s.endFeed()
	if got := all(t, good); len(got) != 5002 {
		t.Errorf("the other client got %d events, want 5002", len(got))
	}
	s.Close()
}

// TestLongPaths serves in a directory whose path is too long for a socket.
func TestLongPaths(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), strings.Repeat("long", 40), "live"))
	join(t, s.dir, 1)
	info, err := os.Lstat(s.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "lockstep-*", "d"))
	for _, l := range left {
		if to, _ := os.Readlink(l); to == s.dir {
			t.Errorf("%s was not removed", l)
		}
	}
}

// TestDeadSocketsAreRemoved: Runs removes the socket of a killed process.
func TestDeadSocketsAreRemoved(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(s.dir, "1-dead.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	join(t, s.dir, 1)
	if _, err := os.Lstat(filepath.Join(s.dir, "1-dead.sock")); !os.IsNotExist(err) {
		t.Errorf("the dead socket is still there: %v", err)
	}
}

// TestLostConnection: a connection that ends before the run is lost.
func TestLostConnection(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r := join(t, s.dir, 1)[0]
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	all(t, r)
	if !errors.Is(r.Err(), ErrLost) {
		t.Errorf("got %v, want ErrLost", r.Err())
	}
	if _, err := r.Sent(t.Context(), inspect.Item{}); !errors.Is(err, ErrLost) {
		t.Errorf("a query: got %v, want ErrLost", err)
	}
}

// TestSharedDirectoriesAreRefused: the directory of sockets must be a directory that only the user
// can access.
func TestSharedDirectoriesAreRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link} {
		if _, err := Serve(dir, &event.Feed{}, nil, nil, nil, nil); err == nil {
			t.Errorf("Serve accepts %s", dir)
		}
		if _, err := Runs(dir); err == nil {
			t.Errorf("Runs accepts %s", dir)
		}
	}
	if runs, err := Runs(filepath.Join(open, "none")); len(runs) > 0 || err != nil {
		t.Errorf("in a missing directory: got %v, %v", runs, err)
	}
}
