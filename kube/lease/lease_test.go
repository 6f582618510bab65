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

	"github.com/gofrs/flock"
)

// upgrade is a run that never checks the release records.
var upgrade = Params{Namespace: "ns", Release: "r", Operation: "upgrade"}

// acquire locks release r, which must not be locked.
func acquire(t *testing.T, s *store, params Params, opts Options) *Lease {
	t.Helper()
	found, err := Look(t.Context(), s, "r", opts)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := Acquire(t.Context(), s, params, found, opts)
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

// kill stops renewing without releasing the Lease, as if the process had been killed.
func kill(l *Lease) {
	l.stop()
	<-l.stopped
}

func TestAShortRunSendsThreeRequests(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{LockDir: t.TempDir()})
		h := HolderOf(s.lease("r"))
		if h != l.self || h.Operation != "upgrade" || h.Process != os.Getpid() || !strings.Contains(h.String(), "upgrade by "+h.User) {
			t.Errorf("the holder is %s", h)
		}
		release(t, l)
		if got := s.requests(); !slices.Equal(got, []string{"get", "create", "delete"}) || s.lease("r") != nil {
			t.Errorf("requests %v", got)
		}
	})
}

// TestUninstallInATerminatingNamespace (R51): an uninstall creates nothing else in the namespace, so it continues without a lock.
func TestUninstallInATerminatingNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, operation := range []string{"uninstall", "upgrade"} {
			s := newStore()
			s.createErr = errNamespaceTerminating
			params := upgrade
			params.Operation = operation
			l, found, err := Acquire(t.Context(), s, params, State{}, Options{LockDir: t.TempDir()})
			if unlocked := l == nil && err == nil && found.Status == Unavailable && !strings.Contains(found.Warning().Message, "permission"); unlocked != (operation == "uninstall") {
				t.Errorf("%s: %v, %v, %v", operation, l, found, err)
			}
		}
	})
}

func TestAcquireRefusedWhileHolderRenews(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		var waits []string
		start := time.Now()
		found, err := Look(t.Context(), s, "r", Options{OnWait: func(m string) { waits = append(waits, m) }})
		if err != nil || found.Status != Live || found.Holder != l.self {
			t.Errorf("found %v, error %v", found, err)
		}
		if elapsed := time.Since(start); elapsed > 6*time.Second {
			t.Errorf("Look took %s to see a renewal, want at most 6s", elapsed)
		}
		if len(waits) != 1 || !strings.Contains(waits[0], l.self.String()) {
			t.Errorf("OnWait messages: %q", waits)
		}
		_, _, err = Acquire(t.Context(), s, Params{Namespace: "ns", Release: "r", Operation: "rollback"}, State{}, Options{})
		var locked *LockedError
		if !errors.As(err, &locked) || locked.Holder != l.self {
			t.Errorf("error %v", err)
		}
		release(t, l)
	})
}

func TestTakeoverAfterLeaseExpires(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		kill(acquire(t, s, upgrade, Options{Duration: 30 * time.Second}))
		start := time.Now()
		found, err := Look(t.Context(), s, "r", Options{})
		if elapsed := time.Since(start); err != nil || found.Status != Dead || elapsed < 30*time.Second || elapsed > 32*time.Second {
			t.Fatalf("found %v after %s, error %v", found, elapsed, err)
		}
		l, _, err := Acquire(t.Context(), s, upgrade, found, Options{})
		if err != nil || HolderOf(s.lease("r")) != l.self || *s.lease("r").Spec.LeaseTransitions != 1 {
			t.Fatalf("error %v, lease %v", err, s.lease("r"))
		}
		release(t, l)
		if s.lease("r") != nil {
			t.Error("Lease still exists after Release")
		}
	})
}

func TestReadGapDoesNotExpireLease(t *testing.T) { // R51: an outage long enough to delay our read may have stopped the holder from renewing too
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		o := observer{client: s, name: Name("r")}
		now := time.Now()
		if _, known := o.judge(s.lease("r"), now); known {
			t.Fatal("judge decided on the first read")
		}
		if found, known := o.judge(s.lease("r"), now.Add(20*time.Second)); known {
			t.Errorf("found %v after a gap", found)
		}
		release(t, l)
	})
}

// TestLookWithSlowAPIServer: Look finds a dead run after at most five slow reads, however long each takes (R51).
func TestLookWithSlowAPIServer(t *testing.T) {
	for latency, atMost := range map[time.Duration]time.Duration{0: 16 * time.Second, 4 * time.Second: 25 * time.Second, 20 * time.Second: 105 * time.Second} {
		t.Run(latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				kill(acquire(t, s, upgrade, Options{}))
				s.latency = latency
				start := time.Now()
				found, err := Look(t.Context(), s, "r", Options{})
				if elapsed := time.Since(start); err != nil || found.Status != Dead || elapsed < defaultDuration || elapsed > atMost {
					t.Errorf("found %v after %s, error %v", found, elapsed, err)
				}
			})
		})
	}
}

// TestHolderSurvivesOutage: a run keeps its Lease through an outage that affects both it and the run that
// observes it, whenever the outage starts and however long it lasts (R51).
func TestHolderSurvivesOutage(t *testing.T) {
	for after := range 6 {
		for _, outage := range []time.Duration{4 * time.Second, 16 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%ds %s", after, outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					l := acquire(t, s, upgrade, Options{})
					time.AfterFunc(time.Duration(after)*time.Second-retryDelay/2, func() { s.setBlocked(true) })
					time.AfterFunc(time.Duration(after)*time.Second+outage, func() { s.setBlocked(false) })
					found, err := Look(t.Context(), s, "r", Options{})
					if err != nil || found.Status != Live {
						t.Errorf("found %v, error %v", found, err)
					}
					release(t, l)
				})
			})
		}
	}
}

func TestLockFileShowsDeadHolder(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s, opts := newStore(), Options{LockDir: filepath.Join(t.TempDir(), "locks")}
		l := acquire(t, s, upgrade, opts)
		info, err := os.Stat(l.lockFile.Path())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("lock file %v, %v", info, err)
		}
		if info, err := os.Stat(opts.LockDir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("directory %v, %v", info, err)
		}
		start := time.Now()
		if found, err := Look(t.Context(), s, "r", opts); err != nil || found.Status != Live || time.Since(start) > 0 {
			t.Errorf("while it is alive: %v, error %v, after %s", found, err, time.Since(start))
		}
		kill(l)
		if err := l.lockFile.Close(); err != nil { // like the end of the process
			t.Fatal(err)
		}
		found, err := Look(t.Context(), s, "r", opts)
		if err != nil || found.Status != Dead || time.Since(start) > 0 {
			t.Errorf("once it is dead: %v, error %v, after %s", found, err, time.Since(start))
		}
		if found, _ := Look(t.Context(), s, "r", Options{LockDir: t.TempDir()}); found.Status != Dead || time.Since(start) < defaultDuration {
			t.Errorf("without its lock file: %v after %s", found, time.Since(start))
		}
	})
}

func TestLockFileIsRemovedIfLockingFails(t *testing.T) { // an unlocked file would show that its run is dead
	dir := t.TempDir()
	path := filepath.Join(dir, "abcdefgh"+lockFileSuffix)
	other := flock.New(path)
	if locked, err := other.TryLock(); !locked || err != nil {
		t.Fatal(locked, err)
	}
	if f := acquireLockFile(dir, "abcdefgh"); f != nil {
		t.Error("locked a file that is already locked")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("lock file still exists: %v", err)
	}
}

func TestLostLeaseWithoutHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		s.clearHolder("r")
		time.Sleep(6 * time.Second)
		assertLost(t, l, "its Lease has no holder any more; something other than lockstep released it")
		release(t, l)
	})
}

func TestOnlyOneTakeoverSucceeds(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		kill(acquire(t, s, upgrade, Options{}))
		found, err := Look(t.Context(), s, "r", Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := Acquire(t.Context(), s, upgrade, found, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Acquire(t.Context(), s, upgrade, found, Options{})
		var locked *LockedError
		if !errors.As(err, &locked) || locked.Holder != first.self {
			t.Errorf("error %v", err)
		}
		release(t, first)
	})
}

func TestLostResponsesDoNotLoseTheLease(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		s.setDropResponses(true)
		time.Sleep(6 * time.Second)
		s.setDropResponses(false)
		time.Sleep(30 * time.Second)
		if err := l.Err(); err != nil || !l.ours(s.lease("r")) {
			t.Errorf("error %v", err)
		}
		s.setDropResponses(true)
		time.AfterFunc(2*time.Second, func() { s.setDropResponses(false) })
		release(t, l)
		if s.lease("r") != nil {
			t.Error("Lease still exists after Release")
		}
	})
}

// TestLostResponseKeepsBothClocks: if the response to a renewal was lost, the Lease is held from when it was sent, by the
// monotonic clock too (R51a). It uses real time: times in a synctest bubble have no reading of that clock.
func TestLostResponseKeepsBothClocks(t *testing.T) {
	s := newStore()
	l := acquire(t, s, upgrade, Options{})
	kill(l)
	s.setDropResponses(true)
	before := time.Now()
	if err := l.renew(t.Context()); err == nil {
		t.Fatal("no response was lost")
	}
	after := time.Now()
	s.setDropResponses(false)
	if err := l.renew(t.Context()); err != nil { // a conflict: the API server has the first renewal
		t.Fatal(err)
	}
	if o, _ := l.latest.get(); o.condition != held || o.at.Before(before) || o.at.After(after) || o.at == o.at.Round(0) {
		t.Errorf("condition %d, held from %v, want a time between %v and %v, by both clocks", o.condition, o.at, before, after)
	}
}

func TestWritesWaitForARenewalAfterAnOutage(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		s.setUnreachable(true)
		time.Sleep(10 * time.Second)
		if err := l.Guard(t.Context()); err != nil {
			t.Errorf("Guard failed before the Lease expired: %v", err)
		}
		time.Sleep(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := l.Guard(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Guard after expiry: got %v, want deadline exceeded", err)
		}
		s.setUnreachable(false)
		if err := l.Guard(t.Context()); err != nil {
			t.Errorf("Guard after the outage: %v", err)
		}
		release(t, l)
	})
}

func TestGuardFailsAfterTakeover(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		taken := s.lease("r")
		s.setUnreachable(true)
		time.Sleep(20*time.Second + retryDelay/2) // between two attempts
		s.setUnreachable(false)
		other, _, err := Acquire(t.Context(), s, Params{Namespace: "ns", Release: "r", Operation: "rollback"}, State{Status: Dead, lease: taken}, Options{})
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
		if got := HolderOf(s.lease("r")); got != other.self {
			t.Errorf("release deleted or changed the Lease of another run: %s", got)
		}
		release(t, other)
	})
}

// TestGuardFailsAfterRelease: no write starts after Release, even if it waited for a renewal (R51a).
func TestGuardFailsAfterRelease(t *testing.T) {
	const want = "already released its lock"
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := acquire(t, newStore(), upgrade, Options{})
			release(t, l)
			if err := l.Guard(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Guard after Release: got %v, want %q", err, want)
			}
			if err := l.Err(); err != nil {
				t.Errorf("Err after Release: %v", err)
			}
		})
	})
	t.Run("while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			l := acquire(t, s, upgrade, Options{})
			s.setUnreachable(true)
			time.Sleep(20 * time.Second)
			guarded := make(chan error)
			go func() { guarded <- l.Guard(t.Context()) }()
			synctest.Wait()
			go func() { _ = l.Release(canceledContext(t)) }()
			if err := <-guarded; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Guard during Release: got %v, want %q", err, want)
			}
		})
	})
}

func TestLeaseDeletedByHand(t *testing.T) { // R51
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := acquire(t, s, upgrade, Options{})
		s.deleteByHand("r")
		time.Sleep(6 * time.Second)
		if l.Err() != nil || s.lease("r") == nil || !l.ours(s.lease("r")) {
			t.Errorf("Lease was not recreated: %v", l.Err())
		}
		s.setUnreachable(true)
		time.Sleep(20 * time.Second)
		s.deleteByHand("r")
		s.setUnreachable(false)
		time.Sleep(6 * time.Second)
		if l.Err() == nil || s.lease("r") != nil {
			t.Error("Lease was recreated after it had expired, want it lost")
		}
		release(t, l)
	})
}
