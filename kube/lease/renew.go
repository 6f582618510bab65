package lease

import (
	"context"
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
		if l.over() {
			return
		}
		if hurry, next = l.hurry, every; err != nil { // whoever is in a hurry waits as well
			hurry, next = nil, retryTime
		}
	}
}

// over reports whether there is nothing more to renew.
func (l *Lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moot || l.err != nil
}

// renew renews the Lease once, or finds that it is lost. An error says nothing
// about that.
func (l *Lease) renew(ctx context.Context) error {
	sent, object := time.Now(), l.object.DeepCopy() // nobody else writes it meanwhile
	now := metav1.NewMicroTime(sent)
	object.Spec.RenewTime = &now
	renewed, err := l.client.Update(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		l.took(renewed, sent)
		return nil
	case apierrors.IsConflict(err): // the answer to a renewal was lost, or it is somebody else's
		there, err := l.client.Get(ctx, object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return l.again(ctx)
		}
		if err != nil {
			return err
		}
		return l.found(there)
	case apierrors.IsNotFound(err):
		return l.again(ctx)
	}
	return err
}

// found goes on with the Lease as it was found, if it is ours.
func (l *Lease) found(there *coordinationv1.Lease) error {
	if !l.ours(there) {
		l.lose("was taken over: " + holderOf(there).String())
		return nil
	}
	at := time.Time{}
	if there.Spec.RenewTime != nil {
		at = there.Spec.RenewTime.Time // by our own clock
	}
	l.took(there, at)
	return nil
}

// again makes the Lease anew that somebody has deleted. Where it was too late to
// renew it, another run may have come and gone meanwhile.
func (l *Lease) again(ctx context.Context) error {
	l.mu.Lock()
	fresh := l.fresh()
	l.mu.Unlock()
	if !fresh {
		l.lose("is gone since, so another run may have come and gone")
		return nil
	}
	sent := time.Now()
	object, err := l.write(ctx, nil)
	switch {
	case err == nil:
		l.took(object, sent)
		return nil
	case apierrors.IsAlreadyExists(err):
		if object, err = l.client.Get(ctx, Name(l.release), metav1.GetOptions{}); err == nil {
			return l.found(object)
		}
	case namespaceEnds(err), apierrors.IsNotFound(err):
		l.change(func() { l.moot = true })
		return nil
	}
	return err
}

func (l *Lease) lose(why string) {
	l.change(func() { l.err = &LostError{l.release, l.namespace, why} })
	close(l.lost)
}
