package incluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

const (
	// ordersVar names the Lease of the run in its pod, as namespace/name.
	ordersVar = "LOCKSTEP_ORDERS"
	// orderPrefix begins the annotations that are orders; their number follows. The Lease's
	// leaseTransitions count the orders so far.
	orderPrefix = "lockstep.order/"
	// maxOrder is the limit of an order, in bytes; an object's annotations may have 256 KiB.
	maxOrder = 200 << 10
	pause    = time.Second
)

// backoff is for senders at the same time.
var backoff = wait.Backoff{Steps: 20, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 0.5}

// send adds an order to a run's Lease, after those that are there.
func send(ctx context.Context, kube kubernetes.Interface, namespace, name string, order []byte) error {
	if order = bytes.TrimSpace(order); len(order) > maxOrder {
		return fmt.Errorf("the command has %d KiB; the limit in the cluster is %d KiB: start an upgrade with the values", len(order)>>10, maxOrder>>10)
	}
	leases := kube.CoordinationV1().Leases(namespace)
	err := retry.OnError(backoff, apierrors.IsConflict, func() error {
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		number := int32(1)
		if last := lease.Spec.LeaseTransitions; last != nil {
			number = *last + 1
		}
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[orderPrefix+strconv.Itoa(int(number))] = string(order)
		lease.Spec.LeaseTransitions = &number
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("send the command through Lease %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Orders returns what is sent to the run of this pod, a line each, until ctx ends; nil
// outside of such a pod. Each order comes once: it is taken off the Lease before it is
// returned.
func Orders(ctx context.Context, kube kubernetes.Interface) io.Reader {
	namespace, name, ok := strings.Cut(os.Getenv(ordersVar), "/")
	if !ok {
		return nil
	}
	r, w := io.Pipe()
	go func() {
		for lease := range watch(ctx, kube, namespace, name) {
			for _, order := range take(ctx, kube, lease) {
				if _, err := w.Write(append(order, '\n')); err != nil {
					return
				}
			}
		}
		_ = w.Close()
	}()
	return r
}

// watch yields a Lease whenever it changes, until ctx ends.
func watch(ctx context.Context, kube kubernetes.Interface, namespace, name string) iter.Seq[*coordinationv1.Lease] {
	leases := kube.CoordinationV1().Leases(namespace)
	return func(yield func(*coordinationv1.Lease) bool) {
		for ctx.Err() == nil {
			lease, err := leases.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				if !yield(lease) {
					return
				}
				events, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: lease.ResourceVersion, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
				if err == nil {
					for e := range events.ResultChan() {
						if lease, ok := e.Object.(*coordinationv1.Lease); ok && !yield(lease) {
							events.Stop()
							return
						}
					}
					events.Stop()
				}
			}
			sleep(ctx, pause)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// take takes the orders off a Lease and returns them in order; none if that fails, since the
// next look finds them again.
func take(ctx context.Context, kube kubernetes.Interface, lease *coordinationv1.Lease) (orders [][]byte) {
	keys := slices.SortedFunc(maps.Keys(lease.Annotations), func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	keys = slices.DeleteFunc(keys, func(k string) bool { return number(k) == 0 })
	if len(keys) == 0 {
		return nil
	}
	gone := map[string]any{}
	for _, k := range keys {
		gone[k] = nil
		orders = append(orders, []byte(lease.Annotations[k]))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": lease.ResourceVersion, "annotations": gone}})
	if err != nil {
		return nil
	}
	if _, err := kube.CoordinationV1().Leases(lease.Namespace).Patch(ctx, lease.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return nil
	}
	return orders
}

// number is that of an annotation with an order, 0 for any other.
func number(key string) int {
	text, ok := strings.CutPrefix(key, orderPrefix)
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return 0
	}
	return n
}
