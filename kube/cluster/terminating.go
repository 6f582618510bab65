package cluster

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
)

// terminating is an object that has to go before one of its name can be there.
type terminating struct {
	message string
	await   func(context.Context)
}

// terminating reports whether an apply has met an object that is being deleted, nil
// where it has not: the API server takes changes of one, which are lost with it.
func (t *Target) terminating(ctx context.Context, i *resource.Info, err error) *terminating {
	if i.Mapping == nil || i.Name == "" {
		return nil
	}
	client := t.s.Client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace)
	var old metav1.Object
	switch {
	case err == nil:
		old, err = meta.Accessor(i.Object)
	case apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err), apierrors.IsConflict(err):
		old, err = client.Get(ctx, i.Name, metav1.GetOptions{})
	}
	if err != nil || old.GetDeletionTimestamp() == nil {
		return nil
	}
	uid, message := old.GetUID(), "terminating"
	if f := old.GetFinalizers(); len(f) > 0 {
		message = "waiting for finalizers " + strings.Join(f, ", ")
	}
	return &terminating{message, func(ctx context.Context) {
		_ = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			now, err := client.Get(ctx, i.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid, nil
		})
	}}
}
