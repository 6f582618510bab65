package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gofrs/flock"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Params describe the run that acquires a lock.
type Params struct {
	Namespace, Release, Operation string
	// Job is the Job whose pod executes this run, as namespace/name, or "".
	Job string
	// Stack is the name of the stack that this run belongs to, or "".
	Stack string
	// CheckRecords checks that the release records are as this run left them. It is called when the Lease
	// alone cannot prove that nobody else changed the release. It returns a *LostError if somebody did, and
	// another error if it cannot tell. If it is nil, the records are not checked.
	CheckRecords func(context.Context) error
	// OnUnavailable, if set, is called once when the run can no longer use Leases and continues without them,
	// and again only if it has held its Lease in between.
	OnUnavailable func(State)
}

// Lease is the lock of a run on its release. It is renewed until it is released or lost.
type Lease struct {
	client   Client
	params   Params
	self     Holder
	duration time.Duration
	lockFile *flock.Flock // nil if there is none

	renewNow chan struct{} // asks for a renewal now
	lost     chan struct{} // closed when the lock is lost
	stop     context.CancelFunc
	stopped  chan struct{} // closed when renewLoop has returned

	latest latestObservation
	renewal
}

// renewal is what Acquire, then only renewLoop, and then Release use.
type renewal struct {
	object              *coordinationv1.Lease // as last seen
	unavailableReported bool                  // OnUnavailable was called since the Lease was last held
	unconfirmed         []time.Time           // when writes were sent that may have succeeded since the Lease was last held
}

// Acquire locks a release; found is the State that Look returned. It returns a *LockedError if another run holds the
// lock. If the returned State is Unavailable, the *Lease is nil and the caller runs without a lock.
//
// Rule R51: a second run is refused; the lock of a dead run is taken over.
func Acquire(ctx context.Context, c Client, params Params, found State, opts Options) (*Lease, State, error) {
	l := &Lease{
		client: c, params: params, self: newHolder(params), duration: opts.duration(),
		renewNow: make(chan struct{}, 1), lost: make(chan struct{}), stopped: make(chan struct{}),
		latest: latestObservation{changed: make(chan struct{})},
	}
	l.lockFile = acquireLockFile(opts.LockDir, l.self.RunID)
	found, err := l.take(ctx, found, opts)
	if err != nil || found.Status == Unavailable {
		if ctx.Err() != nil {
			l.undoAcquire()
		}
		releaseLockFile(l.lockFile, true)
		return nil, found, err
	}
	var renewing context.Context
	renewing, l.stop = context.WithCancel(context.Background())
	go l.renewLoop(renewing)
	return l, State{}, nil
}

// take creates the Lease, or takes over a dead run's. It tries again if somebody else changed the Lease first.
func (l *Lease) take(ctx context.Context, found State, opts Options) (State, error) {
	for {
		switch found.Status {
		case Unavailable:
			return found, nil
		case Live:
			return found, &LockedError{Lock{l.params.Release, l.params.Namespace, found.Holder}}
		}
		sent := time.Now()
		object, err := l.write(ctx, found.lease)
		switch {
		case err == nil:
			l.object = object
			l.setHeld(sent)
			return State{}, nil
		case isUnavailable(err), namespaceTerminating(err) && l.params.Operation == "uninstall": // which creates nothing else either
			return State{Status: Unavailable, Err: err}, nil
		case apierrors.IsAlreadyExists(err), found.lease != nil && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
		default:
			return State{}, fmt.Errorf("lock release %s: %w", l.params.Release, err)
		}
		// Somebody else changed or deleted the Lease first, or our request succeeded, but its response was lost and it was retried.
		current, err := l.client.Get(ctx, Name(l.params.Release), metav1.GetOptions{})
		if err == nil && l.ours(current) {
			l.object = current
			l.setHeld(sent)
			return State{}, nil
		}
		if found, err = Look(ctx, l.client, l.params.Release, opts); err != nil {
			return State{}, err
		}
	}
}

func (l *Lease) ours(object *coordinationv1.Lease) bool {
	return ptr.Deref(object.Spec.HolderIdentity, "") == l.self.identity()
}

// write creates the Lease with this run as its holder, or overwrites previous if it has not changed.
func (l *Lease) write(ctx context.Context, previous *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	sent := time.Now()
	now := metav1.NewMicroTime(sent)
	holder, err := json.Marshal(l.self)
	if err != nil {
		return nil, err
	}
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Name(l.params.Release)}}
	if previous != nil {
		object = previous.DeepCopy()
	}
	metav1.SetMetaDataLabel(&object.ObjectMeta, managedBy, "lockstep")
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, holderKey, string(holder))
	object.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new(l.self.identity()), LeaseDurationSeconds: new(int32(l.duration / time.Second)),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(ptr.Deref(object.Spec.LeaseTransitions, -1) + 1),
	}
	l.unconfirmed = append(l.unconfirmed, sent)
	if previous != nil {
		return l.client.Update(ctx, object, metav1.UpdateOptions{})
	}
	return l.client.Create(ctx, object, metav1.CreateOptions{})
}

// setHeld records that the Lease is ours; sent is when the request that confirmed it was sent.
func (l *Lease) setHeld(sent time.Time) {
	l.unavailableReported, l.unconfirmed = false, nil
	l.latest.set(observation{condition: held, at: sent})
}

// undoAcquire deletes the Lease that a cancelled request may have created.
func (l *Lease) undoAcquire() {
	ctx, cancel := context.WithTimeout(context.Background(), l.duration/3)
	defer cancel()
	current, err := l.client.Get(ctx, Name(l.params.Release), metav1.GetOptions{})
	if err == nil && l.ours(current) {
		l.object = current
		_ = l.deleteOwn(ctx) // if this fails, the Lease expires
	}
}
