package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Release stops the renewals and deletes the Lease, unless it is another run's. If that
// keeps failing until ctx ends, the Lease expires.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.stopped
	err := l.remove(ctx)
	unlock(l.lock, err == nil)
	if err != nil {
		return fmt.Errorf("unlock release %s: %w", l.run.Release, err)
	}
	return nil
}

// deleteTimeout limits one attempt to delete the Lease, because a request may hang.
const deleteTimeout = 1500 * time.Millisecond

// remove deletes the Lease if it is ours.
func (l *Lease) remove(ctx context.Context) error {
	for object := l.object; ; {
		current, err := l.delete(ctx, object)
		if current == nil && err == nil {
			return nil
		}
		if err == nil {
			object = current
			continue
		}
		if unavailable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryDelay):
		}
	}
}

// delete deletes the Lease as last seen. If it is still ours but has changed, because the
// response to a renewal was lost, delete returns the current one.
func (l *Lease) delete(ctx context.Context, object *coordinationv1.Lease) (current *coordinationv1.Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	err = l.client.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}})
	if apierrors.IsConflict(err) {
		current, err = l.client.Get(ctx, object.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) || err == nil && (current == nil || !l.ours(current)) {
		return nil, nil
	}
	return current, err
}
