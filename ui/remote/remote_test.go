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
	"lockstep/engine/plan"
	"lockstep/ui/board/inspector"
)

// served is a run that answers every command.
type served struct {
	*Server
	feed event.Feed
	dir  string
}

func serve(t *testing.T, dir string) *served {
	t.Helper()
	s := &served{dir: dir}
	s.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop", Namespace: "a"}})
	var err error
	s.Server, err = Serve(dir, &s.feed, func(c event.Command) {
		s.feed.Publish(event.Event{Kind: event.KindCommand, Command: c.Name, Group: c.Group, Answers: c.ID, Status: event.Accepted})
	}, knowing{}, editing{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end() })
	return s
}

// knowing knows what becomes of the objects of one group, and sleeps over those of
// another until nobody asks any more.
type knowing struct{}

func (knowing) Change(ctx context.Context, it inspector.Item) (inspector.Change, error) {
	switch it.Group {
	case "shop:db":
		return inspector.Change{Action: inspector.Alter, Message: it.Phase + " " + string(it.Kind), Fields: []inspector.Field{{In: "spec", Lines: []string{"-a: 1", "+a: " + it.Object.Name}}}}, nil
	case "shop:slow":
		<-ctx.Done()
		return inspector.Change{}, ctx.Err()
	}
	return inspector.Change{}, inspector.Nothing("not planned yet")
}

func (knowing) Sent(_ context.Context, it inspector.Item) (string, error) {
	if it.Group == "" {
		return "", errors.New("no route to host")
	}
	return "kind: " + it.Object.Kind + "\n", nil
}

// TestARunTellsWhatItDoes asks a run of another process what it does to objects (R47),
// many at a time, while it goes on.
func TestARunTellsWhatItDoes(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r := join(t, s.dir, 1)[0]
	item := func(group, name string) inspector.Item {
		return inspector.Item{Unit: event.Unit{Phase: "apply", Group: group}, Kind: event.PhaseApply, Object: plan.Object{Kind: "Job", Name: name}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var slow, all sync.WaitGroup
	slow.Go(func() {
		if _, err := r.Change(ctx, item("shop:slow", "x")); !errors.Is(err, context.Canceled) {
			t.Errorf("an answer that does not come ends with %v", err)
		}
	})
	for n := range 50 {
		all.Go(func() {
			name := strings.Repeat("n", n)
			c, err := r.Change(t.Context(), item("shop:db", name))
			if err != nil || c.Action != inspector.Alter || c.Message != "apply apply" || len(c.Fields) != 1 || c.Fields[0].Lines[1] != "+a: "+name {
				t.Errorf("%d: %+v, %v", n, c, err)
			}
		})
		s.feed.Publish(event.Event{Kind: event.KindLog, Lines: []string{"on and on"}})
	}
	all.Wait()
	cancel()
	slow.Wait()
	if text, err := r.Sent(t.Context(), item("shop:db", "x")); err != nil || text != "kind: Job\n" {
		t.Errorf("%q, %v", text, err)
	}
	none := inspector.Nothing("")
	if _, err := r.Change(t.Context(), item("shop:later", "x")); !errors.As(err, &none) || none != "not planned yet" {
		t.Errorf("nothing to tell is told as %v", err)
	}
	if _, err := r.Sent(t.Context(), item("", "x")); err == nil || errors.As(err, &none) || err.Error() != "no route to host" {
		t.Errorf("an error comes as %v", err)
	}
	if _, err := r.Ask(t.Context(), event.Command{Name: event.Pause}); err != nil {
		t.Errorf("a command after the questions: %v", err)
	}
	s.end()
	if _, err := r.Sent(t.Context(), item("shop:db", "x")); !errors.As(err, &none) {
		t.Errorf("after the end: %v", err)
	}
}

func (s *served) end() {
	s.over()
	s.Close()
}

// over ends the run: who reads learns of it.
func (s *served) over() {
	exit := 0
	s.feed.End(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit})
	s.feed.Close()
}

func join(t *testing.T, dir string, want int) []*Run {
	t.Helper()
	runs, err := Runs(dir)
	if err != nil || len(runs) != want {
		t.Fatalf("%d runs are found, want %d: %v", len(runs), want, err)
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

// TestTwoClientsSeeTheSame joins a run twice (R47): both get every event from the
// first one on, as the run has numbered and stamped it, and the answer to what
// one of them commands.
func TestTwoClientsSeeTheSame(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	one, two := join(t, s.dir, 1)[0], join(t, s.dir, 1)[0]
	if one.Operation.Release != "shop" {
		t.Errorf("the run is %s", one)
	}
	answer, err := one.Ask(t.Context(), event.Command{Name: event.Break, Group: "shop:db"})
	if err != nil || answer.Command != event.Break || answer.Group != "shop:db" || answer.Status != event.Accepted {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
	if now := two.Now(t.Context()); now.Operation.Release != "shop" {
		t.Errorf("it stands at %+v", now)
	}
	if s.Clients() != 2 {
		t.Errorf("%d clients", s.Clients())
	}
	s.end()
	want := s.feed.Events()
	for _, r := range []*Run{one, two} {
		got := all(t, r)
		if len(got) != len(want) || r.Err() != nil {
			t.Fatalf("%d of %d events, %v", len(got), len(want), r.Err())
		}
		for n := range got {
			if got[n].Seq != want[n].Seq || !got[n].Time.Equal(want[n].Time) || got[n].Kind != want[n].Kind {
				t.Errorf("event %d is %+v, was %+v", n, got[n], want[n])
			}
		}
	}
	if _, err := one.Ask(t.Context(), event.Command{Name: event.Pause}); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("a command after the end is answered with %v (R48)", err)
	}
	join(t, s.dir, 0)
}

// TestASlowClientSlowsNobody has a client that reads nothing: the run publishes, another
// client reads it to its end, and closing does not wait for the first.
func TestASlowClientSlowsNobody(t *testing.T) {
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
	s.over()
	if got := all(t, good); len(got) != 5002 {
		t.Errorf("the other client has %d events", len(got))
	}
	s.Close()
}

// TestLongPaths serves in a folder whose path is longer than that of a socket may
// be.
func TestLongPaths(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), strings.Repeat("long", 40), "live"))
	join(t, s.dir, 1)
	info, err := os.Lstat(s.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "lockstep-*", "d"))
	for _, l := range left {
		if to, _ := os.Readlink(l); to == s.dir {
			t.Errorf("%s is left", l)
		}
	}
}

// TestDeadSocketsAreRemoved proves that what a killed process has left is no run.
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

// TestAKilledRunIsLost ends the connection without a closing event.
func TestAKilledRunIsLost(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "live"))
	r := join(t, s.dir, 1)[0]
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	all(t, r)
	if !errors.Is(r.Err(), ErrLost) {
		t.Errorf("it ended with %v", r.Err())
	}
}

// TestFoldersOfOthersAreNotTrusted refuses a folder that others can get at, and
// what is no folder.
func TestFoldersOfOthersAreNotTrusted(t *testing.T) {
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
		if _, err := Serve(dir, &event.Feed{}, nil, nil, nil); err == nil {
			t.Errorf("%s is served from", dir)
		}
		if _, err := Runs(dir); err == nil {
			t.Errorf("%s is trusted", dir)
		}
	}
	if runs, err := Runs(filepath.Join(open, "none")); len(runs) > 0 || err != nil {
		t.Errorf("where there is no folder there are %v, %v", runs, err)
	}
}
