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
)

// records stand for the release records that CheckRecords checks.
type records struct {
	s             *store
	changed       atomic.Bool // by somebody else
	broken        atomic.Bool // unreadable
	looks         atomic.Int32
	withoutRights atomic.Int32 // calls of OnForbidden
}

func (r *records) run() Run {
	return Run{Namespace: "ns", Release: "r", Operation: "upgrade", CheckRecords: r.checkRecords, OnForbidden: func(State) { r.withoutRights.Add(1) }}
}

func (r *records) checkRecords(context.Context) error {
	r.looks.Add(1)
	switch {
	case r.broken.Load():
		return errors.New("the records cannot be read")
	case r.changed.Load():
		return &LostError{"r", "ns", "revision 3 (deployed) was created meanwhile"}
	}
	return nil
}

// hold acquires the Lease, which must be free.
func (r *records) hold(t *testing.T) *Lease {
	t.Helper()
	l, _, err := Acquire(t.Context(), r.s, r.run(), State{}, Options{})
	if err != nil || l == nil {
		t.Fatalf("lease %v, error %v", l, err)
	}
	return l
}

// over is a context that has ended, so that Guard does not wait.
func over(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// mustBeLost checks that a run writes nothing more, and why.
func mustBeLost(t *testing.T, l *Lease, why string) {
	t.Helper()
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("error %v, want %q", err, why)
	}
	if err := l.Guard(t.Context()); err == nil {
		t.Error("a write was let go")
	}
}

// TestLeaseIsCreatedAgain: the release records decide whether another run worked while there was no Lease
// (R51a).
func TestLeaseIsCreatedAgain(t *testing.T) {
	t.Run("nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &records{s: newStore()}
			l := r.hold(t)
			r.s.drop("r")
			time.Sleep(6 * time.Second)
			if err := l.Guard(over(t)); err != nil || r.looks.Load() != 1 || !l.ours(r.s.of("r")) {
				t.Errorf("error %v, %d looks at the records", err, r.looks.Load())
			}
			release(t, l)
		})
	})
	t.Run("somebody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &records{s: newStore()}
			l := r.hold(t)
			r.s.drop("r")
			r.changed.Store(true)
			time.Sleep(6 * time.Second)
			mustBeLost(t, l, "revision 3 (deployed) was created meanwhile")
			release(t, l)
			if r.s.of("r") != nil {
				t.Error("the Lease was left")
			}
		})
	})
	t.Run("unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &records{s: newStore()}
			l := r.hold(t)
			r.s.drop("r")
			r.broken.Store(true)
			time.Sleep(10 * time.Second)
			if err := l.Guard(over(t)); err == nil || l.Err() != nil {
				t.Errorf("while nobody knows: %v, lost %v", err, l.Err())
			}
			r.broken.Store(false)
			if err := l.Guard(t.Context()); err != nil {
				t.Error(err)
			}
			release(t, l)
		})
	})
}

// TestRightsAreRevoked: a run continues without rights on Leases, with one warning, as long as the release
// records are unchanged (R51).
func TestRightsAreRevoked(t *testing.T) {
	withoutRights := func(t *testing.T) (*records, *Lease) {
		r := &records{s: newStore()}
		l := r.hold(t)
		r.s.deny(true)
		time.Sleep(2 * time.Minute)
		if err := l.Guard(over(t)); err != nil || r.withoutRights.Load() != 1 {
			t.Errorf("error %v, told %d times", err, r.withoutRights.Load())
		}
		return r, l
	}
	t.Run("given back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, l := withoutRights(t)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := l.Release(ctx); !unavailable(err) || time.Since(start) > 0 {
				t.Errorf("error %v after %s", err, time.Since(start))
			}
		})
	})
	t.Run("rights again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := withoutRights(t)
			r.s.deny(false)
			time.Sleep(6 * time.Second)
			if h, _ := l.proof.get(); h.now(l.duration) != held {
				t.Errorf("condition %v", h)
			}
			release(t, l)
		})
	})
	t.Run("somebody in the records", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := withoutRights(t)
			r.changed.Store(true)
			time.Sleep(6 * time.Second)
			mustBeLost(t, l, "was created meanwhile")
			r.s.deny(false)
			release(t, l)
		})
	})
	t.Run("somebody with the Lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := withoutRights(t)
			current := r.s.of("r")
			r.s.deny(false)
			other, _, err := Acquire(t.Context(), r.s, Run{Namespace: "ns", Release: "r"}, State{Kind: Dead, lease: current}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r.s.deny(true)
			time.Sleep(6 * time.Second)
			mustBeLost(t, l, other.self.String())
			r.s.deny(false)
			release(t, l)
			release(t, other)
		})
	})
}

// TestNamespaceIsCreatedAgain: writes continue while the namespace of the release is terminating or gone.
// Once it exists again, another run may have started (R51a).
func TestNamespaceIsCreatedAgain(t *testing.T) {
	gone := func(t *testing.T) (*records, *Lease) {
		r := &records{s: newStore()}
		l := r.hold(t)
		for _, why := range []error{errLeaving, errGone} {
			r.s.namespace(why)
			time.Sleep(time.Minute)
			if err := l.Guard(t.Context()); err != nil {
				t.Errorf("%v: %v", why, err)
			}
		}
		r.s.namespace(nil)
		return r, l
	}
	t.Run("nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := gone(t)
			time.Sleep(2 * time.Second)
			if h, _ := l.proof.get(); h.now(l.duration) != held || r.looks.Load() != 1 {
				t.Errorf("condition %v, %d looks", h, r.looks.Load())
			}
			release(t, l)
		})
	})
	t.Run("somebody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := gone(t)
			other, _, err := Acquire(t.Context(), r.s, Run{Namespace: "ns", Release: "r"}, State{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			mustBeLost(t, l, other.self.String())
			release(t, l)
			if holderOf(r.s.of("r")) != other.self {
				t.Error("the Lease of another run was touched")
			}
			release(t, other)
		})
	})
}

// TestTwoNeverWrite causes outages, revoked and restored rights, deletions by hand, and a namespace that is
// deleted and created again, while a second run tries to take the Lease of the first. Once the second has
// run for longer than the first needs to notice, the first writes nothing more (R51a).
func TestTwoNeverWrite(t *testing.T) {
	for seed := range uint64(300) {
		if wrong := twoRuns(t, rand.New(rand.NewPCG(seed, 1))); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

func twoRuns(t *testing.T, random *rand.Rand) (wrong string) {
	synctest.Test(t, func(t *testing.T) {
		r := &records{s: newStore()}
		l := r.hold(t)
		var other *Lease
		var since time.Duration // the second run is active, the API server is reachable, and the namespace exists
		var gone bool
		var outage time.Duration
		var story []string
		for now := time.Duration(0); now < 2*time.Minute; now += time.Second {
			if random.IntN(6) == 0 {
				do := []string{"drop", "outage", "deny", "allow", "namespace goes", "namespace is there"}[random.IntN(6)]
				story = append(story, fmt.Sprintf("%s %s", now, do))
				switch do {
				case "drop":
					r.s.drop("r")
				case "outage":
					outage = now + time.Duration(random.IntN(30))*time.Second
				case "deny", "allow":
					r.s.deny(do == "deny")
				case "namespace goes":
					r.s.namespace(errGone)
					gone, since = true, 0 // nobody can hold a Lease in it
				case "namespace is there":
					r.s.namespace(nil)
					gone = false
				}
			}
			r.s.set(now < outage, false)
			if other == nil {
				ctx, cancel := context.WithTimeout(t.Context(), 16500*time.Millisecond)
				if found, err := Look(ctx, r.s, "r", Options{}); err == nil && found.Kind != Live && found.Kind != Unavailable {
					if o, _, err := Acquire(ctx, r.s, Run{Namespace: "ns", Release: "r"}, found, Options{}); err == nil && o != nil {
						other = o
						r.changed.Store(true) // it creates a revision
						story = append(story, fmt.Sprintf("%s the second run begins", now))
					}
				}
				cancel()
			}
			time.Sleep(time.Second)
			if other != nil && now > outage && !gone {
				since += time.Second
			}
			if since > 9*time.Second && l.Guard(over(t)) == nil && other.Guard(over(t)) == nil {
				wrong = strings.Join(append(story, fmt.Sprintf("%s both write", now)), "; ")
				break
			}
		}
		r.s.set(false, false)
		killed(l)
		if other != nil {
			killed(other)
		}
	})
	return wrong
}
