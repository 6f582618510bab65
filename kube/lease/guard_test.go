package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// records is a fake of the release records that CheckRecords checks.
type records struct {
	s                *store
	changed          atomic.Bool // by somebody else
	unreadable       atomic.Bool
	checks           atomic.Int32
	unavailableCalls atomic.Int32 // calls of OnUnavailable
}

func (r *records) params() Params {
	return Params{Namespace: "ns", Release: "r", Operation: "upgrade", CheckRecords: r.checkRecords, OnUnavailable: func(State) { r.unavailableCalls.Add(1) }}
}

func (r *records) checkRecords(context.Context) error {
	r.checks.Add(1)
	switch {
	case r.unreadable.Load():
		return errors.New("the records cannot be read")
	case r.changed.Load():
		return &LostError{Release: "r", Namespace: "ns", Why: "revision 3 (deployed) was created in the meantime", RecordChanged: true}
	}
	return nil
}

// canceledContext returns a canceled context, so that Guard does not wait.
func canceledContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// assertLost checks that a run has lost its lock for this reason and writes nothing more.
func assertLost(t *testing.T, l *Lease, why string) {
	t.Helper()
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("error %v, want %q", err, why)
	}
	if err := l.Guard(t.Context()); err == nil {
		t.Error("Guard allowed a write")
	}
}

// TestLeaseIsRecreated: the release records show whether another run was active while there was no Lease
// (R51a).
func TestLeaseIsRecreated(t *testing.T) {
	t.Run("records unchanged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &records{s: newStore()}
			l := acquire(t, r.s, r.params(), Options{})
			r.s.deleteByHand("r")
			time.Sleep(6 * time.Second)
			if err := l.Guard(canceledContext(t)); err != nil || r.checks.Load() != 1 || !l.ours(r.s.lease("r")) {
				t.Errorf("error %v, %d checks of the records", err, r.checks.Load())
			}
			release(t, l)
		})
	})
	t.Run("records changed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &records{s: newStore()}
			l := acquire(t, r.s, r.params(), Options{})
			r.s.deleteByHand("r")
			r.changed.Store(true)
			time.Sleep(6 * time.Second)
			assertLost(t, l, "revision 3 (deployed) was created in the meantime")
			release(t, l)
			if r.s.lease("r") != nil {
				t.Error("Lease still exists after Release")
			}
		})
	})
	t.Run("records unreadable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &records{s: newStore()}
			l := acquire(t, r.s, r.params(), Options{})
			r.s.deleteByHand("r")
			r.unreadable.Store(true)
			time.Sleep(10 * time.Second)
			if err := l.Guard(canceledContext(t)); err == nil || l.Err() != nil {
				t.Errorf("Guard with unreadable records: %v; Err: %v", err, l.Err())
			}
			r.unreadable.Store(false)
			if err := l.Guard(t.Context()); err != nil {
				t.Error(err)
			}
			release(t, l)
		})
	})
}

// TestRenewalIsRefused: if a policy, a webhook or a quota refuses the renewals, the run continues with one warning, as without
// permission, and does not wait until its timeout; an answer after which another try may help is none (R51, R53).
func TestRenewalIsRefused(t *testing.T) {
	kind := coordinationv1.SchemeGroupVersion.WithKind("Lease").GroupKind()
	for name, c := range map[string]struct {
		refusal error
		warns   int32
	}{
		"policy":            {apierrors.NewInvalid(kind, "l", nil), 1},
		"webhook":           {apierrors.NewBadRequest("denied"), 1},
		"expired token":     {apierrors.NewUnauthorized("expired"), 0},
		"too many requests": {apierrors.NewTooManyRequestsError("later"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &records{s: newStore()}
				l := acquire(t, r.s, r.params(), Options{})
				r.s.refuse(c.refusal)
				time.Sleep(2*time.Minute + retryDelay/2) // between two renewals
				err := l.Guard(canceledContext(t))
				if (err == nil) != (c.warns > 0) || r.unavailableCalls.Load() != c.warns {
					t.Errorf("error %v, OnUnavailable called %d times, want %d", err, r.unavailableCalls.Load(), c.warns)
				}
				r.s.refuse(nil)
				release(t, l)
			})
		})
	}
}

// TestPermissionIsRevoked: a run continues without permission for Leases, with one warning, as long as the release
// records are unchanged (R51).
func TestPermissionIsRevoked(t *testing.T) {
	withoutPermission := func(t *testing.T) (*records, *Lease) {
		r := &records{s: newStore()}
		l := acquire(t, r.s, r.params(), Options{})
		r.s.deny(true)
		time.Sleep(2*time.Minute + retryDelay/2) // between two renewals
		if err := l.Guard(canceledContext(t)); err != nil || r.unavailableCalls.Load() != 1 {
			t.Errorf("error %v, OnUnavailable called %d times, want 1", err, r.unavailableCalls.Load())
		}
		return r, l
	}
	t.Run("release", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, l := withoutPermission(t)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := l.Release(ctx); !isUnavailable(err) || time.Since(start) > 0 {
				t.Errorf("error %v after %s", err, time.Since(start))
			}
		})
	})
	t.Run("permission restored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := withoutPermission(t)
			r.s.deny(false)
			time.Sleep(6 * time.Second)
			if o, _ := l.latest.get(); o.conditionAt(time.Now(), l.duration) != held {
				t.Errorf("condition %v", o)
			}
			release(t, l)
		})
	})
	t.Run("records changed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := withoutPermission(t)
			r.changed.Store(true)
			time.Sleep(6 * time.Second)
			assertLost(t, l, "was created in the meantime")
			r.s.deny(false)
			release(t, l)
		})
	})
	t.Run("another run started", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := withoutPermission(t)
			current := r.s.lease("r")
			r.s.deny(false)
			other, _, err := Acquire(t.Context(), r.s, Params{Namespace: "ns", Release: "r"}, State{Status: Dead, lease: current}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r.s.deny(true)
			time.Sleep(6 * time.Second)
			assertLost(t, l, other.self.String())
			r.s.deny(false)
			release(t, l)
			release(t, other)
		})
	})
}

// TestWarnsOncePerLoss: if the Lease is deleted and the run has permission to update but not to create it, the run warns
// once, and once more only after it has held the Lease again (R51).
func TestWarnsOncePerLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &records{s: newStore()}
		l := acquire(t, r.s, r.params(), Options{})
		loseLease := func(wantCalls int32) {
			t.Helper()
			r.s.denyCreate()
			r.s.deleteByHand("r")
			time.Sleep(time.Minute + retryDelay/2) // between two renewals
			if err := l.Guard(canceledContext(t)); err != nil || r.unavailableCalls.Load() != wantCalls {
				t.Errorf("error %v, OnUnavailable called %d times, want %d", err, r.unavailableCalls.Load(), wantCalls)
			}
		}
		loseLease(1)
		r.s.allowCreate()
		time.Sleep(6 * time.Second)
		if o, _ := l.latest.get(); o.condition != held {
			t.Errorf("condition %v after Create is allowed again, want held", o.condition)
		}
		loseLease(2)
		release(t, l)
	})
}

// TestNamespaceIsRecreated: writes continue while the namespace of the release is terminating or gone.
// Once it exists again, another run may have started (R51a).
func TestNamespaceIsRecreated(t *testing.T) {
	gone := func(t *testing.T) (*records, *Lease) {
		r := &records{s: newStore()}
		l := acquire(t, r.s, r.params(), Options{})
		for _, why := range []error{errNamespaceTerminating, errNamespaceGone} {
			r.s.deleteNamespace(why)
			time.Sleep(time.Minute)
			if err := l.Guard(t.Context()); err != nil {
				t.Errorf("%v: %v", why, err)
			}
		}
		synctest.Wait() // the renewal of this instant has failed; the next one comes later
		r.s.allowCreate()
		return r, l
	}
	t.Run("no other run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := gone(t)
			time.Sleep(2 * time.Second)
			if o, _ := l.latest.get(); o.conditionAt(time.Now(), l.duration) != held || r.checks.Load() != 1 {
				t.Errorf("condition %v, %d checks", o, r.checks.Load())
			}
			release(t, l)
		})
	})
	t.Run("another run started", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := gone(t)
			other, _, err := Acquire(t.Context(), r.s, Params{Namespace: "ns", Release: "r"}, State{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			assertLost(t, l, other.self.String())
			release(t, l)
			if HolderOf(r.s.lease("r")) != other.self {
				t.Error("release deleted or changed the Lease of another run")
			}
			release(t, other)
		})
	})
}

// TestNeverTwoWriters causes outages, revoked and restored permission, deletions by hand, and a namespace that is
// deleted and created again, while a second run tries to take the Lease of the first. Once the second has
// run for longer than the first needs to notice, at most one of them may write (R51a).
func TestNeverTwoWriters(t *testing.T) {
	for seed := range uint64(300) {
		if violation := simulateTwoRuns(t, rand.New(rand.NewPCG(seed, 1))); violation != "" {
			t.Fatalf("seed %d: %s", seed, violation)
		}
	}
}

func simulateTwoRuns(t *testing.T, random *rand.Rand) (violation string) {
	synctest.Test(t, func(t *testing.T) {
		r := &records{s: newStore()}
		l := acquire(t, r.s, r.params(), Options{})
		var other *Lease
		// how long the second run has been active with the API server reachable and the namespace present
		var secondActive time.Duration
		var gone bool
		var outageEnd time.Duration
		var steps []string
		for now := time.Duration(0); now < 2*time.Minute; now += time.Second {
			if random.IntN(6) == 0 {
				do := []string{"delete Lease", "outage", "deny", "allow", "delete namespace", "create namespace"}[random.IntN(6)]
				steps = append(steps, fmt.Sprintf("%s %s", now, do))
				switch do {
				case "delete Lease":
					r.s.deleteByHand("r")
				case "outage":
					outageEnd = now + time.Duration(random.IntN(30))*time.Second
				case "deny", "allow":
					r.s.deny(do == "deny")
				case "delete namespace":
					r.s.deleteNamespace(errNamespaceGone)
					gone, secondActive = true, 0 // nobody can hold a Lease in it
				case "create namespace":
					r.s.allowCreate()
					gone = false
				}
			}
			r.s.setUnreachable(now < outageEnd)
			if other == nil {
				ctx, cancel := context.WithTimeout(t.Context(), 16500*time.Millisecond)
				if found, err := Look(ctx, r.s, "r", Options{}); err == nil && found.Status != Live && found.Status != Unavailable {
					if o, _, err := Acquire(ctx, r.s, Params{Namespace: "ns", Release: "r"}, found, Options{}); err == nil && o != nil {
						other = o
						r.changed.Store(true) // it creates a revision
						steps = append(steps, fmt.Sprintf("%s the second run starts", now))
					}
				}
				cancel()
			}
			time.Sleep(time.Second)
			if other != nil && now > outageEnd && !gone {
				secondActive += time.Second
			}
			if secondActive > 9*time.Second && l.Guard(canceledContext(t)) == nil && other.Guard(canceledContext(t)) == nil {
				violation = strings.Join(append(steps, fmt.Sprintf("%s both write", now)), "; ")
				break
			}
		}
		r.s.setUnreachable(false)
		kill(l)
		if other != nil {
			kill(other)
		}
	})
	return violation
}
