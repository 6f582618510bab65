package lease

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Release stops the renewals and deletes the Lease, unless it is another run's. Guard fails once the
// renewals have stopped. If the Lease cannot be deleted before ctx ends, it expires.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.stopped
	if l.latest.lastCondition() != lost {
		l.latest.set(observation{condition: released})
	}
	err := l.deleteOwn(ctx)
	releaseLockFile(l.lockFile, err == nil)
	if err != nil {
		return fmt.Errorf("could not delete the lock of release %s: %w; it expires within %s", l.params.Release, err, l.duration)
	}
	return nil
}

// deleteTimeout limits one attempt to delete the Lease, because a request may hang.
const deleteTimeout = 1500 * time.Millisecond

// deleteOwn deletes the Lease if it is ours. It retries until ctx ends, unless Leases are unavailable.
func (l *Lease) deleteOwn(ctx context.Context) error {
	var last error
	for {
		done, err := l.tryDelete(ctx)
		switch {
		case done:
			return nil
		case isUnavailable(err):
			return err
		case err != nil && ctx.Err() != nil:
			return cmp.Or(last, err) // an answer says more than that ctx ended
		case err != nil:
			select {
			case <-ctx.Done():
				return err
			case <-time.After(retryDelay):
			}
		}
		last = err
	}
}

// tryDelete deletes the Lease as last seen. done means that the Lease is gone or another run's. If it is still ours
// but has changed, because the response to a renewal was lost, the next attempt deletes the changed one.
func (l *Lease) tryDelete(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	var current *coordinationv1.Lease
	if err = deleteUnchanged(ctx, l.client, l.object); apierrors.IsConflict(err) {
		current, err = l.client.Get(ctx, l.object.Name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case current == nil || !l.ours(current):
		return true, nil
	}
	l.object = current
	return false, nil
}

// deleteUnchanged deletes a Lease if nobody has changed it since it was read.
func deleteUnchanged(ctx context.Context, c Client, object *coordinationv1.Lease) error {
	return c.Delete(ctx, object.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion},
	})
}
