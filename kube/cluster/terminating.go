package cluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/run"
	"lockstep/engine/text"
)

// terminating reports whether an object is being deleted, given the error of its apply. The API server accepts changes to
// such an object, but they are lost. The response's WaitGone waits until the object is gone.
func (t *Target) terminating(ctx context.Context, i *resource.Info, err error) (out run.Response, terminating bool) {
	if i.Mapping == nil || i.Name == "" {
		return run.Response{}, false
	}
	client := t.session.Client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace)
	var old metav1.Object
	switch {
	case err == nil:
		old, err = meta.Accessor(i.Object)
	case apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err), apierrors.IsConflict(err):
		old, err = client.Get(ctx, i.Name, metav1.GetOptions{})
	}
	if err != nil || old.GetDeletionTimestamp() == nil {
		return run.Response{}, false
	}
	uid := old.GetUID()
	out.Message = "terminating"
	if f := old.GetFinalizers(); len(f) > 0 {
		out.Message = "waiting for " + text.Named("finalizer", f)
	}
	out.WaitGone = func(ctx context.Context) {
		_ = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			now, err := client.Get(ctx, i.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid, nil
		})
	}
	return out, true
}
