package lease

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryTime is how long after a renewal that failed the next one is tried.
const retryTime = time.Second

// keep renews the Lease until ctx ends, or it is lost.
func (l *Lease) keep(ctx context.Context) {
	defer close(l.ended)
	every := l.duration / 3
	hurry, next := l.hurry, every
	for {
		select {
		case <-ctx.Done():
			return
		case <-hurry:
		case <-time.After(next):
		}
		try, cancel := context.WithTimeout(ctx, every)
		err := l.renew(try)
		cancel()
		h, _ := l.now()
		switch hurry, next = l.hurry, every; {
		case h.condition == lost:
			return
		case err != nil: // whoever is in a hurry waits as well
			hurry, next = nil, retryTime
		case h.condition == moot:
			next = retryTime
		}
	}
}

// renew finds out once what has become of the Lease, and renews it. An error says
// nothing about that.
func (l *Lease) renew(ctx context.Context) error {
	if h, _ := l.now(); h.condition == moot {
		return l.again(ctx)
	}
	sent, object := time.Now(), l.object.DeepCopy()
	now := metav1.NewMicroTime(sent)
	object.Spec.RenewTime = &now
	renewed, err := l.client.Update(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		return l.settle(ctx, renewed, sent)
	case apierrors.IsConflict(err): // the answer to a renewal was lost, or it is somebody else's
		return l.read(ctx)
	case unavailable(err):
		return l.without(ctx, err)
	case apierrors.IsNotFound(err):
		return l.again(ctx)
	}
	return err
}

// read goes on with the Lease as it is.
func (l *Lease) read(ctx context.Context) error {
	there, err := l.client.Get(ctx, Name(l.run.Release), metav1.GetOptions{})
	switch {
	case unavailable(err):
		return l.without(ctx, err)
	case apierrors.IsNotFound(err):
		return l.again(ctx)
	case err != nil:
		return err
	case !l.ours(there):
		l.takenBy(there)
		return nil
	}
	at := time.Time{}
	if there.Spec.RenewTime != nil {
		at = there.Spec.RenewTime.Time // by our own clock
	}
	return l.settle(ctx, there, at)
}

// settle notes that the Lease is ours, by a request that was sent at a time. Where
// there was a time without it, another run may have come and gone: the records of
// the release tell.
func (l *Lease) settle(ctx context.Context, object *coordinationv1.Lease, sent time.Time) error {
	l.object = object
	if h, _ := l.now(); h.condition != held {
		if err := l.intact(ctx); err != nil {
			return err
		}
	}
	if h, _ := l.now(); h.condition != lost {
		l.took(object, sent)
	}
	return nil
}

// intact looks at the records of the release, and loses the Lease where somebody
// else has changed them.
func (l *Lease) intact(ctx context.Context) error {
	if l.run.Intact == nil {
		return nil
	}
	err := l.run.Intact(ctx)
	if found := (*LostError)(nil); errors.As(err, &found) {
		l.lose(found)
		return nil
	}
	return err
}

// without goes on without rights on Leases, as long as the records of the release
// are as this run has left them, and nobody else is seen to hold the Lease.
func (l *Lease) without(ctx context.Context, why error) error {
	sent := time.Now()
	if there, err := l.client.Get(ctx, Name(l.run.Release), metav1.GetOptions{}); err == nil && !l.ours(there) {
		l.takenBy(there)
		return nil
	}
	if err := l.intact(ctx); err != nil {
		return err
	}
	h, _ := l.now()
	if h.condition == lost {
		return nil
	}
	l.become(hold{condition: forbidden, proved: sent})
	if h.condition != forbidden && l.run.Without != nil {
		l.run.Without(State{Kind: Unavailable, Err: why})
	}
	return nil
}

// again makes the Lease anew that somebody has deleted, or that went with its
// namespace. Writes wait until it is there, and the records of the release have
// proved that nobody came in between. Where it was too late to renew it, that is
// not tried.
func (l *Lease) again(ctx context.Context) error {
	h, _ := l.now()
	if h.condition != moot && !within(h.proved, l.duration) {
		l.loseIt("its Lease was not renewed in time and was deleted; another run may have changed the release")
		return nil
	}
	if h.condition != moot {
		l.become(hold{condition: unknown, proved: h.proved})
	}
	sent := time.Now()
	object, err := l.write(ctx, nil)
	switch {
	case err == nil:
		return l.settle(ctx, object, sent)
	case apierrors.IsAlreadyExists(err):
		return l.read(ctx)
	case unavailable(err):
		return l.without(ctx, err)
	case namespaceEnds(err), apierrors.IsNotFound(err):
		l.become(hold{condition: moot, proved: sent})
		return nil
	}
	return err
}

func (l *Lease) takenBy(there *coordinationv1.Lease) {
	l.loseIt("its Lease was taken over: " + holderOf(there).String())
}

func (l *Lease) loseIt(why string) { l.lose(&LostError{l.run.Release, l.run.Namespace, why}) }

func (l *Lease) lose(err *LostError) {
	l.become(hold{condition: lost, lost: err})
	close(l.lost)
}
