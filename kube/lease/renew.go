package lease

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// retryDelay is the delay after a failed attempt to renew, recreate or delete the Lease, and between attempts to recreate
// it while its namespace is gone.
const retryDelay = time.Second

// renewLoop renews the Lease until ctx ends or the lock is lost.
func (l *Lease) renewLoop(ctx context.Context) {
	defer close(l.stopped)
	interval := l.duration / 3
	renewNow, next := l.renewNow, interval
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewNow:
		case <-time.After(next):
		}
		attemptCtx, cancel := context.WithTimeout(ctx, interval)
		err := l.renew(attemptCtx)
		cancel()
		switch renewNow, next = l.renewNow, interval; {
		case l.latest.lastCondition() == lost:
			return
		case err != nil: // ignore renewNow until the retry
			renewNow, next = nil, retryDelay
		case l.latest.lastCondition() == namespaceGone:
			next = retryDelay
		}
	}
}

// renew renews the Lease once, or finds out what happened to it. After an error, the caller tries again.
func (l *Lease) renew(ctx context.Context) error {
	if l.latest.lastCondition() == namespaceGone {
		return l.recreate(ctx)
	}
	sent, object := time.Now(), l.object.DeepCopy()
	now := metav1.NewMicroTime(sent)
	object.Spec.RenewTime = &now
	l.unconfirmed = append(l.unconfirmed, sent)
	renewed, err := l.client.Update(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		return l.confirmHeld(ctx, renewed, sent)
	case apierrors.IsConflict(err): // a renewal succeeded but its response was lost, or somebody else changed the Lease
		return l.reread(ctx)
	case isUnavailable(err):
		return l.continueWithoutLease(ctx, err)
	case apierrors.IsNotFound(err):
		return l.recreate(ctx)
	}
	return err
}

// reread gets the Lease after a conflict, or when it already exists, and acts on its state: ours, another run's, deleted
// or unavailable.
func (l *Lease) reread(ctx context.Context) error {
	current, err := l.client.Get(ctx, Name(l.params.Release), metav1.GetOptions{})
	switch {
	case isUnavailable(err):
		return l.continueWithoutLease(ctx, err)
	case apierrors.IsNotFound(err):
		return l.recreate(ctx)
	case err != nil:
		return err
	case !l.ours(current):
		l.setTakenOver(current)
		return nil
	}
	return l.confirmHeld(ctx, current, l.whenSent(current.Spec.RenewTime))
}

// whenSent returns when this run sent the write with the given RenewTime, with the reading of the monotonic clock, which
// the Lease does not store. For a RenewTime that is not from an unconfirmed write, it returns the time of the last
// observation.
func (l *Lease) whenSent(renewTime *metav1.MicroTime) time.Time {
	for _, sent := range l.unconfirmed {
		if renewTime != nil && sent.Truncate(time.Microsecond).Equal(renewTime.Truncate(time.Microsecond)) {
			return sent
		}
	}
	o, _ := l.latest.get()
	return o.at
}

// confirmHeld records that the Lease is ours; sent is when the request that confirmed it was sent. If this run may have been
// without its Lease before, it first checks that no other run has changed the release records.
func (l *Lease) confirmHeld(ctx context.Context, object *coordinationv1.Lease, sent time.Time) error {
	l.object = object
	if o, _ := l.latest.get(); o.conditionAt(sent, l.duration) != held {
		if err := l.checkRecords(ctx); err != nil {
			return err
		}
	}
	if l.latest.lastCondition() != lost {
		l.setHeld(sent)
	}
	return nil
}

// checkRecords marks the lock as lost, and returns nil, if somebody else has changed the release records. It returns an
// error if they cannot be read.
func (l *Lease) checkRecords(ctx context.Context) error {
	if l.params.CheckRecords == nil {
		return nil
	}
	err := l.params.CheckRecords(ctx)
	if found := (*LostError)(nil); errors.As(err, &found) {
		l.setLost(found)
		return nil
	}
	return err
}

// continueWithoutLease lets the run continue while Leases are unavailable, as long as the release records are as this run
// left them and, if the Lease can be read, no other run holds it.
func (l *Lease) continueWithoutLease(ctx context.Context, why error) error {
	sent := time.Now()
	if current, err := l.client.Get(ctx, Name(l.params.Release), metav1.GetOptions{}); err == nil && !l.ours(current) {
		l.setTakenOver(current)
		return nil
	}
	if err := l.checkRecords(ctx); err != nil {
		return err
	}
	if l.latest.lastCondition() == lost {
		return nil
	}
	l.latest.set(observation{condition: unavailable, at: sent})
	if !l.unavailableReported && l.params.OnUnavailable != nil {
		l.params.OnUnavailable(State{Status: Unavailable, Err: why})
	}
	l.unavailableReported = true
	return nil
}

// recreate creates the Lease again after somebody deleted it or its namespace. If only the Lease was deleted, writes
// wait until it exists again and the release records are checked. While there is no namespace, they do not wait, because
// no other run can hold a Lease in it. If the Lease has expired by now, another run may have held it in between, so the
// lock is lost; this does not apply while the namespace is gone.
func (l *Lease) recreate(ctx context.Context) error {
	o, _ := l.latest.get()
	if o.condition != namespaceGone && !within(o.at, time.Now(), l.duration) {
		l.setLostBecause("it was not renewed in time and was deleted; another run may have changed the release")
		return nil
	}
	if o.condition != namespaceGone {
		l.latest.set(observation{condition: unknown, at: o.at})
	}
	sent := time.Now()
	object, err := l.write(ctx, nil)
	switch {
	case err == nil:
		return l.confirmHeld(ctx, object, sent)
	case apierrors.IsAlreadyExists(err):
		return l.reread(ctx)
	case isUnavailable(err):
		return l.continueWithoutLease(ctx, err)
	case namespaceTerminating(err), apierrors.IsNotFound(err):
		l.latest.set(observation{condition: namespaceGone, at: sent})
		return nil
	}
	return err
}

func (l *Lease) setTakenOver(current *coordinationv1.Lease) {
	if ptr.Deref(current.Spec.HolderIdentity, "") == "" {
		l.setLostBecause("its Lease has no holder any more; something other than lockstep released it")
		return
	}
	l.setLostBecause("another run took it over: " + HolderOf(current).String())
}

func (l *Lease) setLostBecause(why string) {
	l.setLost(&LostError{Release: l.params.Release, Namespace: l.params.Namespace, Why: why})
}

func (l *Lease) setLost(err *LostError) {
	l.latest.set(observation{condition: lost, lostErr: err})
	close(l.lost)
}
