// Package loop runs the reconcile loops of the sandbox's simulated controllers.
package loop

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Each calls f for every object of an informer until ctx is done: when the object changes, when f failed, and
// after the duration that f returns, if that is not 0. It never calls f concurrently for one object; f must
// not modify the object. NotFound and Conflict are not failures: the informer delivers the new object.
//
// Each does not block; the workers end with ctx.
func Each[T metav1.Object](ctx context.Context, inf cache.SharedIndexInformer, workers int, f func(context.Context, T) (time.Duration, error)) error {
	q := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Second))
	add := func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			q.Add(key)
		}
	}
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }}); err != nil {
		return err
	}
	context.AfterFunc(ctx, q.ShutDown)
	syncOne := func(key string) {
		defer q.Done(key)
		o, ok, err := inf.GetIndexer().GetByKey(key)
		if err != nil || !ok {
			q.Forget(key)
			return
		}
		again, err := f(ctx, o.(T))
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			klog.ErrorS(err, "Sync failed", "type", fmt.Sprintf("%T", o), "object", key)
			q.AddRateLimited(key)
			return
		}
		q.Forget(key)
		if err == nil && again > 0 {
			q.AddAfter(key, again)
		}
	}
	for range workers {
		go func() {
			for {
				key, quit := q.Get()
				if quit {
					return
				}
				syncOne(key)
			}
		}()
	}
	return nil
}

// Deleted returns a DeleteFunc that calls f with a deleted object, also if the informer missed the deletion.
func Deleted[T any](f func(T)) func(any) {
	return func(o any) {
		if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = missed.Obj
		}
		if t, ok := o.(T); ok {
			f(t)
		}
	}
}
