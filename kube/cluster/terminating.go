package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/metadata"

	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
)

// Terminating reports whether an object exists and is being deleted.
func (s Session) Terminating(ctx context.Context, i *resource.Info) bool {
	live, err := s.Client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	return err == nil && live.GetDeletionTimestamp() != nil
}

// terminating reports whether an object is being deleted, given the error of its apply. The API server accepts changes to
// such an object, but they are lost. The response's WaitGone waits until the object is gone.
func (t *Target) terminating(ctx context.Context, i *resource.Info, err error) (out run.Response, terminating bool) {
	if i.Mapping == nil || i.Name == "" {
		return run.Response{}, false
	}
	var old metav1.Object
	switch {
	case err == nil:
		old, err = meta.Accessor(i.Object)
	case apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err), apierrors.IsConflict(err), errors.As(err, new(*createdMeanwhile)):
		old, err = t.metadataOf(i).Get(ctx, i.Name, metav1.GetOptions{})
	}
	if err != nil || old.GetDeletionTimestamp() == nil {
		return run.Response{}, false
	}
	return t.blockedBy(i, old), true
}

// deletePrevious deletes the object before its next incarnation is applied, and a Job with its pods: two must not run at once. The
// response has WaitGone if it has not gone yet; the engine then shows the wait, and sends the request again.
func (t *Target) deletePrevious(ctx context.Context, i *resource.Info, obj plan.Object) (run.Response, error) {
	found, kept, err := t.session.Delete(ctx, i, Removal{Policy: withPods(metav1.DeletePropagationBackground, i)})
	if kept != "" {
		if err := t.session.CheckOwner(i); err != nil {
			return run.Response{}, err
		}
		t.session.Warn(plan.Warning{Rule: "R31a", Object: &obj, Message: fmt.Sprintf("the previous %s stays, and the new one is applied over it: %s", obj, kept)})
		t.session.Builder.Fact(i).Replaces = false
		return run.Response{}, nil
	}
	if err != nil || !found {
		return run.Response{}, err
	}
	t.attempts[obj].replaces.Store(true)
	return t.stillThere(ctx, i), nil
}

// stillThere returns the response for an object that has been deleted, with WaitGone if it has not gone yet.
func (t *Target) stillThere(ctx context.Context, i *resource.Info) run.Response {
	old, err := t.metadataOf(i).Get(ctx, i.Name, metav1.GetOptions{})
	if err != nil || old.GetDeletionTimestamp() == nil { // it is gone, or the apply finds out
		return run.Response{}
	}
	return t.blockedBy(i, old)
}

func (t *Target) metadataOf(i *resource.Info) metadata.ResourceInterface {
	return t.session.Client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace)
}

// blockedBy returns the response for an object whose name is not free, because the old object is being deleted.
func (t *Target) blockedBy(i *resource.Info, old metav1.Object) run.Response {
	out := run.Response{Message: "terminating", Finalizers: old.GetFinalizers()}
	if len(out.Finalizers) > 0 {
		out.Message = "waiting for " + text.Named("finalizer", out.Finalizers)
	}
	client, uid := t.metadataOf(i), old.GetUID()
	out.WaitGone = func(ctx context.Context) {
		// Until, since ExponentialBackoffWithContext returns once Cap is reached.
		pace := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Cap: 500 * time.Millisecond, Steps: math.MaxInt32}
		_ = pace.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			now, err := client.Get(ctx, i.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid, nil
		})
	}
	return out
}
