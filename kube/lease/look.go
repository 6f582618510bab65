package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
)

// Kind tells whether a release is locked.
type Kind int

const (
	None        Kind = iota // nobody holds the release
	Live                    // a run holds it
	Dead                    // the run that held it is dead; the next run takes its Lease over
	Unavailable             // unknown: no rights on Leases, or the cluster does not serve them
)

// State is the state of a release's Lease.
type State struct {
	Kind   Kind
	Holder Holder // if Live or Dead
	// Err is why Leases are Unavailable.
	Err error

	lease *coordinationv1.Lease // if Dead
}

// Warning is the warning for a run whose Leases are Unavailable.
func (s State) Warning() plan.Warning {
	return plan.Warning{Rule: "R51", Message: fmt.Sprintf("no Lease: only Helm's pending status prevents concurrent runs: %v", s.Err)}
}

// DeleteStale deletes the Lease of a dead run.
func (s State) DeleteStale(ctx context.Context, c Client) error {
	if s.Kind != Dead {
		return nil
	}
	err := c.Delete(ctx, s.lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.lease.UID, ResourceVersion: &s.lease.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another run has deleted it or taken it over
		return nil
	}
	return err
}

// Look finds out who holds a release. If it is not clear at once whether the holder is
// alive, Look waits until the Lease is renewed or its duration is over.
func Look(ctx context.Context, c Client, release string, opts Options) (State, error) {
	o := observer{client: c, name: Name(release), opts: opts}
	s, err := o.look(ctx)
	if err != nil {
		return State{}, fmt.Errorf("check the lock of release %s: %w", release, err)
	}
	return s, nil
}

// pollInterval is the delay between two reads while waiting for a renewal.
const pollInterval = time.Second

// observer watches one Lease until it is known whether its holder is alive.
//
// Safe: a Lease is dead once the observer's monotonic clock has counted the Lease's duration and every read
// found it unchanged. Every renewal changes the resourceVersion, so the last one was sent before the first
// read, and the holder, by its own clocks, has stopped writing (Guard) when the duration is over. Clocks of
// two machines are never compared. The write that takes the Lease over names the resourceVersion, so it fails
// if the holder renewed first. A suspended machine counts too little: its monotonic clock stops.
//
// Fair: whatever kept the observer from reading (an unreachable API server, a stopped process) may have kept
// the holder from renewing. So the time between two reads counts as a quarter of the duration at most. A live
// holder renewed at most a third of the duration before an outage, so it has time left after it.
//
// Terminates: every read counts something, and four suffice, however slow they are.
type observer struct {
	client Client
	name   string
	opts   Options

	first   *coordinationv1.Lease // as first read
	last    time.Time             // when it was last read unchanged
	counted time.Duration         // how long it counts as unchanged
}

func (o *observer) look(ctx context.Context) (State, error) {
	for {
		l, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
		switch {
		case unavailable(err):
			return State{Kind: Unavailable, Err: err}, nil
		case apierrors.IsNotFound(err):
			return State{}, nil
		case err != nil:
			return State{}, err
		}
		if s, known := o.judge(l, time.Now()); known {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return State{}, context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
}

// judge decides whether the holder of a Lease that was read at that time is alive, if that
// is known.
func (o *observer) judge(l *coordinationv1.Lease, now time.Time) (s State, known bool) {
	h := holderOf(l)
	live, dead := State{Kind: Live, Holder: h}, State{Kind: Dead, Holder: h, lease: l}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return dead, true // released by something other than lockstep
	}
	if isDead, known := o.opts.dead(h); known && isDead {
		return dead, true
	} else if known {
		return live, true
	}
	if o.first == nil {
		o.first, o.last = l, now
		if o.opts.OnWait != nil {
			o.opts.OnWait(fmt.Sprintf("waiting up to %s to see if this run is still alive: %s", durationOf(l), h))
		}
		return State{}, false
	}
	if l.UID != o.first.UID || l.ResourceVersion != o.first.ResourceVersion {
		return live, true
	}
	duration := durationOf(l)
	o.counted += min(now.Sub(o.last), max(duration/4, 2*pollInterval))
	o.last = now
	if o.counted >= duration {
		return dead, true
	}
	return State{}, false
}

// durationOf is how long a Lease is valid after a renewal.
func durationOf(l *coordinationv1.Lease) time.Duration {
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
		return time.Duration(*d) * time.Second
	}
	return defaultDuration
}
