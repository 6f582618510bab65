package cluster

import (
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// TestFollow expects that a watch is reopened after a temporary error, including expired credentials (R53), but not
// without permission.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := []error{apierrors.NewUnauthorized("expired"), errors.New("connection refused"), nil, apierrors.NewForbidden(schema.GroupResource{}, "", nil)}
		opened := 0
		FollowWatch(t.Context(), func() (watch.Interface, error) {
			err := results[opened]
			opened++
			w := watch.NewFake()
			w.Stop()
			return w, err
		}, func(watch.Event) {})
		if opened != len(results) {
			t.Errorf("opened %d times, want %d", opened, len(results))
		}
	})
}
