package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/diagnose"
)

// Status says whether a release is locked.
type Status int

const (
	None        Status = iota // not locked
	Live                      // locked by another run
	Dead                      // the holder is dead, or the Lease has none; the next run takes the Lease over
	Unavailable               // unknown: no permission for Leases, or the cluster does not serve them
)

// State is the state of a release's lock.
type State struct {
	Status Status
	Holder Holder // if Live or Dead
	Err    error  // if Unavailable

	lease *coordinationv1.Lease // if Dead
}

// Warning returns the warning to print if Leases are Unavailable.
func (s State) Warning() plan.Warning {
	fix := ""
	if _, denied := diagnose.DeniedRequest(s.Err); denied { // against a quota, a policy or a webhook a permission does not help
		fix = "; to lock it, grant the permission for Leases that " + text.Program + " rbac prints"
	}
	return plan.Warning{Rule: "R51", Message: fmt.Sprintf("the release is not locked (%v); only Helm's pending status prevents concurrent runs%s", s.Err, fix)}
}

// DeleteStale deletes the Lease of a dead run.
func (s State) DeleteStale(ctx context.Context, c Client) error {
	if s.Status != Dead {
		return nil
	}
	err := deleteUnchanged(ctx, c, s.lease)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another run has deleted it or taken it over
		return nil
	}
	return err
}

// Look finds out whether a release is locked. If it is not clear at once whether the holder
// is alive, Look waits until the Lease is renewed or its duration is over.
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

// observer decides whether the holder of one Lease is alive.
//
// The holder counts as dead once the Lease has stayed unchanged for its full duration, by the monotonic clock of this
// machine. Each renewal changes the resourceVersion, so the holder sent its last renewal before the first read here. Its
// Guard allows no writes once the duration has passed since then, unless it can no longer use Leases (R51).
// Clocks of two machines are never compared. A takeover fails if the resourceVersion has changed since.
//
// An outage that delays reads here may also keep the holder from renewing. So the time between two reads counts as at
// most a quarter of the duration, or 2*pollInterval if that is longer. Five slow reads are therefore enough to decide.
type observer struct {
	client Client
	name   string
	opts   Options

	firstSeen  *coordinationv1.Lease // the first version read
	lastReadAt time.Time
	counted    time.Duration // how long the Lease counts as unchanged
}

func (o *observer) look(ctx context.Context) (State, error) {
	for {
		l, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
		switch {
		case isUnavailable(err):
			return State{Status: Unavailable, Err: err}, nil
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

// judge decides whether the holder of l is alive; now is when l was read. known is false if another read is needed.
func (o *observer) judge(l *coordinationv1.Lease, now time.Time) (s State, known bool) {
	h := HolderOf(l)
	live, dead := State{Status: Live, Holder: h}, State{Status: Dead, Holder: h, lease: l}
	if ptr.Deref(l.Spec.HolderIdentity, "") == "" {
		return dead, true // released by something other than lockstep
	}
	switch isDead, certain := o.opts.dead(h); {
	case certain && isDead:
		return dead, true
	case certain:
		return live, true
	}
	if o.firstSeen == nil {
		o.firstSeen, o.lastReadAt = l, now
		if o.opts.OnWait != nil {
			o.opts.OnWait(fmt.Sprintf("locked by another run: %s; waiting up to about %s to see whether it is still running", h, durationOf(l)))
		}
		return State{}, false
	}
	if l.UID != o.firstSeen.UID || l.ResourceVersion != o.firstSeen.ResourceVersion {
		return live, true
	}
	duration := durationOf(l)
	o.counted += min(now.Sub(o.lastReadAt), max(duration/4, 2*pollInterval))
	o.lastReadAt = now
	if o.counted >= duration {
		return dead, true
	}
	return State{}, false
}

// durationOf returns how long a Lease is valid after a renewal.
func durationOf(l *coordinationv1.Lease) time.Duration {
	if d := ptr.Deref(l.Spec.LeaseDurationSeconds, 0); d > 0 {
		return time.Duration(d) * time.Second
	}
	return defaultDuration
}
