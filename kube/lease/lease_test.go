package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// acquired acquires the Lease of release r, which must be free.
func acquired(t *testing.T, s *store, opts Options) *Lease {
	t.Helper()
	found, err := Look(t.Context(), s, "r", opts)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := Acquire(t.Context(), s, Run{Namespace: "ns", Release: "r", Operation: "upgrade"}, found, opts)
	if err != nil || l == nil {
		t.Fatalf("lease %v, error %v", l, err)
	}
	return l
}

func release(t *testing.T, l *Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
}

// killed ends the renewals of a run without a release of its Lease.
func killed(l *Lease) {
	l.stop()
	<-l.stopped
}

func TestAShortRunSendsThreeRequests(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{LockDir: t.TempDir()})
		h := holderOf(s.of("r"))
		if h != l.self || h.Operation != "upgrade" || h.Process != os.Getpid() || !strings.Contains(h.String(), "upgrade by "+h.User) {
			t.Errorf("the holder is %s", h)
		}
		release(t, l)
		if got := s.requests(); !slices.Equal(got, []string{"get", "create", "delete"}) || s.of("r") != nil {
			t.Errorf("requests %v", got)
		}
	})
}

func TestAHolderThatRenewsIsNotDisturbed(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{})
		var waits []string
		start := time.Now()
		found, err := Look(t.Context(), s, "r", Options{OnWait: func(m string) { waits = append(waits, m) }})
		if err != nil || found.Kind != Live || found.Holder != l.self {
			t.Errorf("found %v, error %v", found, err)
		}
		if setHeld := time.Since(start); setHeld > 6*time.Second {
			t.Errorf("it took %s to see a renewal", setHeld)
		}
		if len(waits) != 1 || !strings.Contains(waits[0], l.self.String()) {
			t.Errorf("told %q", waits)
		}
		_, _, err = Acquire(t.Context(), s, Run{Namespace: "ns", Release: "r", Operation: "rollback"}, State{}, Options{})
		var held *HeldError
		if !errors.As(err, &held) || held.Holder != l.self {
			t.Errorf("error %v", err)
		}
		release(t, l)
	})
}

func TestAHolderThatDoesNotRenewIsDead(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		killed(acquired(t, s, Options{Duration: 30 * time.Second}))
		start := time.Now()
		found, err := Look(t.Context(), s, "r", Options{})
		if setHeld := time.Since(start); err != nil || found.Kind != Dead || setHeld < 30*time.Second || setHeld > 32*time.Second {
			t.Fatalf("found %v after %s, error %v", found, setHeld, err)
		}
		l, _, err := Acquire(t.Context(), s, Run{Namespace: "ns", Release: "r", Operation: "upgrade"}, found, Options{})
		if err != nil || holderOf(s.of("r")) != l.self || *s.of("r").Spec.LeaseTransitions != 1 {
			t.Fatalf("error %v, lease %v", err, s.of("r"))
		}
		release(t, l)
		if s.of("r") != nil {
			t.Error("it is still there")
		}
	})
}

func TestAnOutageIsNoProofOfDeath(t *testing.T) { // R51: the holder could not renew either
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{})
		o := observer{client: s, name: Name("r")}
		now := time.Now()
		if _, known := o.judge(s.of("r"), now); known {
			t.Fatal("it is known at once")
		}
		if found, known := o.judge(s.of("r"), now.Add(20*time.Second)); known {
			t.Errorf("found %v after a gap", found)
		}
		release(t, l)
	})
}

// TestSlowAPIServerDoesNotKeepTheDeadAlive: a dead Lease is taken over after at most four reads, however
// long each takes (R51).
func TestSlowAPIServerDoesNotKeepTheDeadAlive(t *testing.T) {
	for look, atMost := range map[time.Duration]time.Duration{0: 16 * time.Second, 4 * time.Second: 25 * time.Second, 20 * time.Second: 105 * time.Second} {
		t.Run(look.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				killed(acquired(t, s, Options{}))
				s.slow = look
				start := time.Now()
				found, err := Look(t.Context(), s, "r", Options{})
				if setHeld := time.Since(start); err != nil || found.Kind != Dead || setHeld < defaultDuration || setHeld > atMost {
					t.Errorf("found %v after %s, error %v", found, setHeld, err)
				}
			})
		})
	}
}

// TestAnOutageDoesNotKillTheLiving: a run keeps its Lease through an outage that affects it and the run
// that observes its Lease, whenever it starts and however long it lasts (R51).
func TestAnOutageDoesNotKillTheLiving(t *testing.T) {
	for after := range 6 {
		for _, outage := range []time.Duration{4 * time.Second, 16 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%ds %s", after, outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					l := acquired(t, s, Options{})
					time.AfterFunc(time.Duration(after)*time.Second-retryDelay/2, func() { s.hold(true) })
					time.AfterFunc(time.Duration(after)*time.Second+outage, func() { s.hold(false) })
					found, err := Look(t.Context(), s, "r", Options{})
					if err != nil || found.Kind != Live {
						t.Errorf("found %v, error %v", found, err)
					}
					release(t, l)
				})
			})
		}
	}
}

func TestADeadHolderOfThisMachineIsKnownAtOnce(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s, opts := newStore(), Options{LockDir: filepath.Join(t.TempDir(), "locks")}
		l := acquired(t, s, opts)
		info, err := os.Stat(l.lock.Path())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("lock file %v, %v", info, err)
		}
		if info, err := os.Stat(opts.LockDir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("folder %v, %v", info, err)
		}
		start := time.Now()
		if found, err := Look(t.Context(), s, "r", opts); err != nil || found.Kind != Live || time.Since(start) > 0 {
			t.Errorf("while it lives: %v, error %v, after %s", found, err, time.Since(start))
		}
		killed(l)
		if err := l.lock.Close(); err != nil { // like the end of the process
			t.Fatal(err)
		}
		found, err := Look(t.Context(), s, "r", opts)
		if err != nil || found.Kind != Dead || time.Since(start) > 0 {
			t.Errorf("once it is dead: %v, error %v, after %s", found, err, time.Since(start))
		}
		if found, _ := Look(t.Context(), s, "r", Options{LockDir: t.TempDir()}); found.Kind != Dead || time.Since(start) < defaultDuration {
			t.Errorf("without its lock file: %v after %s", found, time.Since(start))
		}
	})
}

func TestOneOfTwoWhoTakeOverWins(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		killed(acquired(t, s, Options{}))
		found, err := Look(t.Context(), s, "r", Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := Acquire(t.Context(), s, Run{Namespace: "ns", Release: "r", Operation: "upgrade"}, found, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Acquire(t.Context(), s, Run{Namespace: "ns", Release: "r", Operation: "upgrade"}, found, Options{})
		var held *HeldError
		if !errors.As(err, &held) || held.Holder != first.self {
			t.Errorf("error %v", err)
		}
		release(t, first)
	})
}

func TestLostResponsesDoNotLoseTheLease(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{})
		s.set(false, true)
		time.Sleep(6 * time.Second)
		s.set(false, false)
		time.Sleep(30 * time.Second)
		if err := l.Err(); err != nil || !l.ours(s.of("r")) {
			t.Errorf("error %v", err)
		}
		s.set(false, true)
		time.AfterFunc(2*time.Second, func() { s.set(false, false) })
		release(t, l)
		if s.of("r") != nil {
			t.Error("it is still there")
		}
	})
}

func TestWritesWaitForARenewalAfterAnOutage(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{})
		s.set(true, false)
		time.Sleep(10 * time.Second)
		if err := l.Guard(t.Context()); err != nil {
			t.Errorf("while nobody can have taken it: %v", err)
		}
		time.Sleep(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := l.Guard(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while it may have been taken: %v", err)
		}
		s.set(false, false)
		if err := l.Guard(t.Context()); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		release(t, l)
	})
}

func TestALostLeaseBlocksAllWrites(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{})
		taken := s.of("r")
		s.set(true, false)
		time.Sleep(20*time.Second + retryDelay/2) // between two attempts
		s.set(false, false)
		other, _, err := Acquire(t.Context(), s, Run{Namespace: "ns", Release: "r", Operation: "rollback"}, State{Kind: Dead, lease: taken}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = l.Guard(t.Context())
		var lost *LostError
		if !errors.As(err, &lost) || !strings.Contains(err.Error(), other.self.String()) {
			t.Errorf("error %v", err)
		}
		<-l.Lost()
		release(t, l)
		if got := holderOf(s.of("r")); got != other.self {
			t.Errorf("the Lease of another run was touched: %s", got)
		}
		release(t, other)
	})
}

func TestALeaseThatSomebodyDeletes(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquired(t, s, Options{})
		s.drop("r")
		time.Sleep(6 * time.Second)
		if l.Err() != nil || s.of("r") == nil || !l.ours(s.of("r")) {
			t.Errorf("in time it is made again: %v", l.Err())
		}
		s.set(true, false)
		time.Sleep(20 * time.Second)
		s.drop("r")
		s.set(false, false)
		time.Sleep(6 * time.Second)
		if l.Err() == nil || s.of("r") != nil {
			t.Error("too late, another run may have come and gone: it is lost")
		}
		release(t, l)
	})
}

func TestALeaseOfAnotherProgram(t *testing.T) { // R51
	for _, run := range []string{"", "../../etc/passwd", "x", strings.Repeat("a", 400)} {
		if _, known := (Options{LockDir: t.TempDir()}).dead(Holder{Host: hostname(t), Run: run}); known {
			t.Errorf("run %q is known", run)
		}
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	h, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return h
}
