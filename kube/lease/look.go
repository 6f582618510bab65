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

// Kind is what there is of a Lease.
type Kind int

const (
	None        Kind = iota // nobody holds the release
	Live                    // a run is at work
	Dead                    // the run that held it is dead; who comes next takes its Lease over
	Unavailable             // nobody knows: without rights on Leases, or where there are none
)

// State is what is known of the Lease of a release.
type State struct {
	Kind   Kind
	Holder Holder // of what is Live or Dead
	// Err is why Leases are Unavailable.
	Err error

	lease *coordinationv1.Lease // that is Dead
}

// Warning says what it means that Leases are Unavailable.
func (s State) Warning() plan.Warning {
	return plan.Warning{Rule: "R51", Message: fmt.Sprintf("no Lease: only Helm's pending status prevents concurrent runs: %v", s.Err)}
}

// Bury takes a dead Lease away, where nobody is to hold it next.
func (s State) Bury(ctx context.Context, c Client) error {
	if s.Kind != Dead {
		return nil
	}
	err := c.Delete(ctx, s.lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.lease.UID, ResourceVersion: &s.lease.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // somebody else has taken it away, or over
		return nil
	}
	return err
}

// Look reads who holds a release. Where it cannot be known at once whether the
// holder is alive, it waits until the holder renews its Lease, or has not done
// so for the Lease's duration.
func Look(ctx context.Context, c Client, release string, opts Options) (State, error) {
	o := observer{client: c, name: Name(release), opts: opts}
	s, err := o.look(ctx)
	if err != nil {
		return State{}, fmt.Errorf("check the lock of release %s: %w", release, err)
	}
	return s, nil
}

// pollTime is how often a Lease is looked at that may be renewed.
const pollTime = time.Second

// observer watches one Lease until it is known whether its holder is alive.
//
// Safe: a Lease is dead once the observer's monotonic clock has counted the Lease's duration while every
// look found it unchanged. Every renewal changes the resourceVersion, so the last one was sent before the
// first look, and the holder, by its own clocks, has stopped writing (Guard) when the duration is over. The
// clocks of two machines are never compared. How often the observer looked does not matter: the write that
// takes the Lease over names the resourceVersion, so it fails where the holder was faster. A machine that
// was suspended counts too little, since its monotonic clock stood still.
//
// Fair: whatever kept the observer from looking (an API server that was away, a process that was stopped)
// may have kept the holder from renewing. So the time between two looks counts for no more than a quarter
// of the duration. A living holder renewed a third of the duration before an outage at most, so after it
// there is time left to renew.
//
// It finishes: every look counts something, and four always suffice, however slow they are.
type observer struct {
	client Client
	name   string
	opts   Options

	first   *coordinationv1.Lease // as it was first seen
	last    time.Time             // when it was last seen so
	counted time.Duration         // for how long, as far as that counts
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
		case <-time.After(pollTime):
		}
	}
}

// judge says of a Lease, as it is at a time, whether its holder is alive, where
// that is known.
func (o *observer) judge(l *coordinationv1.Lease, now time.Time) (s State, known bool) {
	h := holderOf(l)
	live, dead := State{Kind: Live, Holder: h}, State{Kind: Dead, Holder: h, lease: l}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return dead, true // it was let go, not by a run
	}
	if isDead, known := o.opts.dead(h); known && isDead {
		return dead, true
	} else if known {
		return live, true
	}
	if o.first == nil {
		o.first, o.last = l, now
		if o.opts.Waits != nil {
			o.opts.Waits(fmt.Sprintf("waiting up to %s to see if this run is still alive: %s", durationOf(l), h))
		}
		return State{}, false
	}
	if l.UID != o.first.UID || l.ResourceVersion != o.first.ResourceVersion {
		return live, true
	}
	duration := durationOf(l)
	o.counted += min(now.Sub(o.last), max(duration/4, 2*pollTime))
	o.last = now
	if o.counted >= duration {
		return dead, true
	}
	return State{}, false
}

// durationOf is how long a Lease counts that is not renewed.
func durationOf(l *coordinationv1.Lease) time.Duration {
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
		return time.Duration(*d) * time.Second
	}
	return defaultDuration
}
