package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gofrs/flock"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Run is who takes a Lease, and what it is asked and told while it holds it.
type Run struct {
	Namespace, Release, Operation string
	// Intact looks whether the records of the release are as this run has left them. The error is a
	// *LostError where somebody else has changed them, another one where that cannot be found out. It is
	// asked when the Lease alone does not prove that nobody has come in between. Nil always says yes.
	Intact func(context.Context) error
	// Without, where set, is told once that the rights on Leases are gone, and the run goes on without.
	Without func(State)
}

// Lease is what a run holds. It is renewed until it is given back or lost.
type Lease struct {
	client   Client
	run      Run
	self     Holder
	duration time.Duration
	lock     *flock.Flock

	hurry chan struct{} // asks for a renewal at once
	lost  chan struct{} // closed when it is
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing is renewed any more

	object *coordinationv1.Lease // as the API server has it; of keep, once that runs

	mu      sync.Mutex
	hold    hold
	changed chan struct{} // closed when that has changed
}

// Rule R51: one run at a time; a second one is refused, and a dead one replaced
//
// Acquire takes the Lease of a release for a run, as that was found by Look. The
// error is a *HeldError where another run holds it. What is Unavailable in the
// result tells, without an error, that it has to be done without.
func Acquire(ctx context.Context, c Client, run Run, found State, opts Options) (*Lease, State, error) {
	l := &Lease{
		client: c, run: run, self: self(run.Operation), duration: opts.duration(),
		hurry: make(chan struct{}, 1), lost: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}),
	}
	l.lock = lock(opts.LockDir, l.self.Run)
	found, err := l.take(ctx, found, opts)
	if err != nil || found.Kind == Unavailable {
		if ctx.Err() != nil {
			l.withdraw()
		}
		unlock(l.lock, true)
		return nil, found, err
	}
	var renewing context.Context
	renewing, l.stop = context.WithCancel(context.Background())
	go l.keep(renewing)
	return l, State{}, nil
}

// take makes the Lease, or takes over that of a dead run, until one run or the
// other has it.
func (l *Lease) take(ctx context.Context, found State, opts Options) (State, error) {
	for {
		switch found.Kind {
		case Unavailable:
			return found, nil
		case Live:
			return found, &HeldError{l.run.Release, l.run.Namespace, found.Holder}
		}
		sent := time.Now()
		object, err := l.write(ctx, found.lease)
		switch {
		case err == nil:
			l.took(object, sent)
			return State{}, nil
		case unavailable(err):
			return State{Kind: Unavailable, Err: err}, nil
		case apierrors.IsAlreadyExists(err), found.lease != nil && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
		default:
			return State{}, fmt.Errorf("lock release %s: %w", l.run.Release, err)
		}
		// Something has come before: our own request, whose answer was lost, or
		// another run.
		there, err := l.client.Get(ctx, Name(l.run.Release), metav1.GetOptions{})
		if err == nil && l.ours(there) {
			l.took(there, sent)
			return State{}, nil
		}
		if found, err = Look(ctx, l.client, l.run.Release, opts); err != nil {
			return State{}, err
		}
	}
}

func (l *Lease) ours(object *coordinationv1.Lease) bool {
	return object.Spec.HolderIdentity != nil && *object.Spec.HolderIdentity == l.self.identity()
}

// write sends the Lease as ours: in place of another one, which has not changed
// since, or anew.
func (l *Lease) write(ctx context.Context, instead *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := metav1.NowMicro()
	holder, err := json.Marshal(l.self)
	if err != nil {
		return nil, err
	}
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Name(l.run.Release)}}
	if instead != nil {
		object = instead.DeepCopy()
	}
	metav1.SetMetaDataLabel(&object.ObjectMeta, "app.kubernetes.io/managed-by", "lockstep")
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, holderKey, string(holder))
	object.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(l.self.identity()), LeaseDurationSeconds: ptr.To(int32(l.duration / time.Second)),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To(ptr.Deref(object.Spec.LeaseTransitions, -1) + 1),
	}
	if instead != nil {
		return l.client.Update(ctx, object, metav1.UpdateOptions{})
	}
	return l.client.Create(ctx, object, metav1.CreateOptions{})
}

// took notes that the Lease is ours, by a request that was sent at a time.
func (l *Lease) took(object *coordinationv1.Lease, sent time.Time) {
	l.object = object
	l.become(hold{condition: held, proved: sent})
}

func (l *Lease) become(h hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = h
	close(l.changed)
	l.changed = make(chan struct{})
}

// now is what is known of the Lease, and what tells that this has changed.
func (l *Lease) now() (hold, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold, l.changed
}

// Lost is closed when somebody else has taken the Lease. Err says who.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err is a *LostError where the Lease is lost.
func (l *Lease) Err() error {
	if h, _ := l.now(); h.condition == lost {
		return h.lost
	}
	return nil
}

// Rule R51a: a run that does not know whether the release is its own writes nothing
//
// Guard lets a request that writes go while the Lease is held, or the run may do
// without. Where that has to be found out anew, as after an outage of the API
// server or a pause of this process, it waits until it is: somebody else may be at
// work. It returns an error where the Lease is lost, or ctx ends; with a ctx that
// has ended it does not wait.
func (l *Lease) Guard(ctx context.Context) error {
	for over := false; ; {
		h, changed := l.now()
		switch c := h.at(l.duration); {
		case c == lost:
			return h.lost
		case c != unknown:
			return nil
		case over:
			return errGivenBack
		}
		select {
		case l.hurry <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-l.ended:
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errGivenBack is why nothing is written once an operation is over.
var errGivenBack = errors.New("the release was unlocked")

// Release gives the Lease back, so that nothing of it remains; that of somebody else
// stays. Where that cannot be done before ctx ends, it is left to be found dead.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.ended
	err := l.remove(ctx)
	unlock(l.lock, err == nil)
	if err != nil {
		return fmt.Errorf("unlock release %s: %w", l.run.Release, err)
	}
	return nil
}

// withdraw takes away what a request has made that was not waited for.
func (l *Lease) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), l.duration/3)
	defer cancel()
	there, err := l.client.Get(ctx, Name(l.run.Release), metav1.GetOptions{})
	if err == nil && l.ours(there) {
		l.object = there
		_ = l.remove(ctx) // or else it is found dead
	}
}

// removeTime is how long one attempt to delete the Lease may take: there is not
// much time to give it back in, and a request may never be answered.
const removeTime = 1500 * time.Millisecond

// remove deletes the Lease if it is ours.
func (l *Lease) remove(ctx context.Context) error {
	for object := l.object; ; {
		there, err := l.delete(ctx, object)
		if there == nil && err == nil {
			return nil
		}
		if err == nil {
			object = there
			continue
		}
		if unavailable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryTime):
		}
	}
}

// delete deletes the Lease as it was last seen. Where it has changed since and is
// still ours, it returns what it is now: the answer to a renewal was lost.
func (l *Lease) delete(ctx context.Context, object *coordinationv1.Lease) (there *coordinationv1.Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	err = l.client.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}})
	if apierrors.IsConflict(err) {
		there, err = l.client.Get(ctx, object.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) || err == nil && (there == nil || !l.ours(there)) {
		return nil, nil
	}
	return there, err
}
