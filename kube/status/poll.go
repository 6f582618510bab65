package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// pollers is how many objects are requested at the same time.
const pollers = 8

// poll replaces watching where that is not allowed: it lists at intervals or,
// where listing is not allowed either, gets each object that has a subscription.
func (s *source) poll(ctx context.Context, mayList bool) {
	every := s.stream.hub.options.Poll
	s.stream.notice(fmt.Sprintf("no right to watch %s, so it is asked for every %s instead", s.stream.key, every), true)
	for ctx.Err() == nil {
		var err error
		if mayList {
			_, err = s.list(ctx)
			mayList = !denied(err)
		} else {
			err = s.getAll(ctx)
		}
		switch {
		case denied(err):
		case err != nil && !apierrors.IsNotFound(err):
			s.pause(ctx, err)
		default:
			s.failed = 0
			s.recovered()
			s.rest(ctx, jitter(every))
		}
	}
}

// rest waits, but no longer than until a subscription joins.
func (s *source) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-s.wake:
	}
}

// getAll gets each object once. It returns one of the errors that may pass.
func (s *source) getAll(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failure error
	names := make(chan types.NamespacedName)
	for range pollers {
		wg.Go(func() {
			for name := range names {
				if err := s.get(ctx, name); err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
				}
			}
		})
	}
	for _, name := range s.stream.names() {
		names <- name
	}
	close(names)
	wg.Wait()
	return failure
}

// get reads one object and tells the stream. An error that it returns may pass;
// a missing right is reported to the stream instead.
func (s *source) get(ctx context.Context, name types.NamespacedName) error {
	u, err := s.client(s.stream.key.namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.send(ctx, delta{put: trim(u)})
	case apierrors.IsNotFound(err):
		s.send(ctx, delta{gone: name})
	case denied(err):
		s.send(ctx, delta{unseen: name, why: "cannot be looked at: " + err.Error()})
	default:
		return err
	}
	return nil
}

// bulky are fields of a spec that Compute does not need.
var bulky = []string{"template", "volumeClaimTemplates", "versions", "containers", "initContainers", "volumes"}

// trim reduces an object to what Compute needs, so that many fit in memory:
// identity, spec and status, but no managed fields and no data.
func trim(u *unstructured.Unstructured) *unstructured.Unstructured {
	meta := map[string]any{}
	from, _ := u.Object["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "generation",
		"creationTimestamp", "deletionTimestamp", "finalizers"} {
		if v, ok := from[key]; ok {
			meta[key] = v
		}
	}
	object := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": meta}
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		kept := make(map[string]any, len(spec))
		for k, v := range spec {
			kept[k] = v
		}
		for _, key := range bulky {
			delete(kept, key)
		}
		object["spec"] = kept
	}
	if status, ok := u.Object["status"]; ok {
		object["status"] = status
	}
	return &unstructured.Unstructured{Object: object}
}
