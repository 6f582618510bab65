package lease

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryDelay is the delay before a failed renewal is retried.
const retryDelay = time.Second

// renewLoop renews the Lease until ctx ends or it is lost.
func (l *Lease) renewLoop(ctx context.Context) {
	defer close(l.stopped)
	every := l.duration / 3
	renewNow, next := l.renewNow, every
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewNow:
		case <-time.After(next):
		}
		try, cancel := context.WithTimeout(ctx, every)
		err := l.renew(try)
		cancel()
		switch renewNow, next = l.renewNow, every; {
		case l.proof.condition() == lost:
			return
		case err != nil: // requests for a renewal wait as well
			renewNow, next = nil, retryDelay
		case l.proof.condition() == namespaceGone:
			next = retryDelay
		}
	}
}

// renew renews the Lease once, or finds out what happened to it. An error leaves the
// condition unchanged.
func (l *Lease) renew(ctx context.Context) error {
	if l.proof.condition() == namespaceGone {
		return l.recreate(ctx)
	}
	sent, object := time.Now(), l.object.DeepCopy()
	now := metav1.NewMicroTime(sent)
	object.Spec.RenewTime = &now
	renewed, err := l.client.Update(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		return l.confirmHeld(ctx, renewed, sent)
	case apierrors.IsConflict(err): // the response to a renewal was lost, or another run has it
		return l.read(ctx)
	case unavailable(err):
		return l.continueWithoutRights(ctx, err)
	case apierrors.IsNotFound(err):
		return l.recreate(ctx)
	}
	return err
}

// read continues with the Lease that the API server has.
func (l *Lease) read(ctx context.Context) error {
	current, err := l.client.Get(ctx, Name(l.run.Release), metav1.GetOptions{})
	switch {
	case unavailable(err):
		return l.continueWithoutRights(ctx, err)
	case apierrors.IsNotFound(err):
		return l.recreate(ctx)
	case err != nil:
		return err
	case !l.ours(current):
		l.loseTo(current)
		return nil
	}
	at := time.Time{}
	if current.Spec.RenewTime != nil {
		at = current.Spec.RenewTime.Time // by our own clock
	}
	return l.confirmHeld(ctx, current, at)
}

// confirmHeld records that the Lease is ours, proved by a request sent at that time. If
// there was a time without it, the release records must prove that no other run changed
// the release meanwhile.
func (l *Lease) confirmHeld(ctx context.Context, object *coordinationv1.Lease, sent time.Time) error {
	l.object = object
	if l.proof.condition() != held {
		if err := l.checkRecords(ctx); err != nil {
			return err
		}
	}
	if l.proof.condition() != lost {
		l.setHeld(object, sent)
	}
	return nil
}

// checkRecords loses the Lease if somebody else has changed the release records.
func (l *Lease) checkRecords(ctx context.Context) error {
	if l.run.CheckRecords == nil {
		return nil
	}
	err := l.run.CheckRecords(ctx)
	if found := (*LostError)(nil); errors.As(err, &found) {
		l.lose(found)
		return nil
	}
	return err
}

// continueWithoutRights continues without rights on Leases, as long as the release
// records are as this run left them and no other run is seen to hold the Lease.
func (l *Lease) continueWithoutRights(ctx context.Context, why error) error {
	sent := time.Now()
	if current, err := l.client.Get(ctx, Name(l.run.Release), metav1.GetOptions{}); err == nil && !l.ours(current) {
		l.loseTo(current)
		return nil
	}
	if err := l.checkRecords(ctx); err != nil {
		return err
	}
	before := l.proof.condition()
	if before == lost {
		return nil
	}
	l.proof.set(proof{condition: forbidden, at: sent})
	if before != forbidden && l.run.OnForbidden != nil {
		l.run.OnForbidden(State{Kind: Unavailable, Err: why})
	}
	return nil
}

// recreate creates the Lease again after it was deleted, alone or with its namespace.
// Writes wait until it exists and the release records have proved that no other run
// changed the release meanwhile. If the Lease had already expired, it is lost instead.
func (l *Lease) recreate(ctx context.Context) error {
	p, _ := l.proof.get()
	if p.condition != namespaceGone && !within(p.at, l.duration) {
		l.loseBecause("its Lease was not renewed in time and was deleted; another run may have changed the release")
		return nil
	}
	if p.condition != namespaceGone {
		l.proof.set(proof{condition: unknown, at: p.at})
	}
	sent := time.Now()
	object, err := l.write(ctx, nil)
	switch {
	case err == nil:
		return l.confirmHeld(ctx, object, sent)
	case apierrors.IsAlreadyExists(err):
		return l.read(ctx)
	case unavailable(err):
		return l.continueWithoutRights(ctx, err)
	case namespaceTerminating(err), apierrors.IsNotFound(err):
		l.proof.set(proof{condition: namespaceGone, at: sent})
		return nil
	}
	return err
}

func (l *Lease) loseTo(current *coordinationv1.Lease) {
	l.loseBecause("its Lease was taken over: " + holderOf(current).String())
}

func (l *Lease) loseBecause(why string) { l.lose(&LostError{l.run.Release, l.run.Namespace, why}) }

func (l *Lease) lose(err *LostError) {
	l.proof.set(proof{condition: lost, lost: err})
	close(l.lost)
}
