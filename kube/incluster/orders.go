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
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
)

const (
	// ordersVar names the Lease of the run in its pod, as namespace/name.
	ordersVar = "LOCKSTEP_ORDERS"
	// orderPrefix begins the annotations that are orders; their number and a random mark
	// follow. The Lease's leaseTransitions count the orders so far.
	orderPrefix = "lockstep.order/"
	// maxOrder is the limit of an order, in bytes; an object's annotations may have 256 KiB.
	maxOrder = 200 << 10
	pause    = time.Second
)

// backoff is for senders at the same time.
var backoff = wait.Backoff{Steps: 20, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 0.5}

// send adds an order to a run's Lease, after those that it has. A request that is repeated
// after a lost response may add it twice; its mark tells the run.
func send(ctx context.Context, kube kubernetes.Interface, namespace, name string, order []byte) error {
	if order = bytes.TrimSpace(order); len(order) > maxOrder {
		return fmt.Errorf("the command has %d KiB; the limit in the cluster is %d KiB: start an upgrade with the values", len(order)>>10, maxOrder>>10)
	}
	leases, mark := kube.CoordinationV1().Leases(namespace), utilrand.String(10)
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
		lease.Annotations[fmt.Sprintf("%s%d-%s", orderPrefix, number, mark)] = string(order)
		lease.Spec.LeaseTransitions = &number
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("send the command through Lease %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Job returns the Job whose pod this is, as namespace/name, "" outside of such a pod. Its
// Lease has the same name.
func Job() string { return os.Getenv(ordersVar) }

// Orders returns the orders to the run of this pod, one per line, until ctx ends; nil outside
// of such a pod. Each comes once: it is removed from the Lease before it is returned.
func Orders(ctx context.Context, kube kubernetes.Interface) io.Reader {
	namespace, name, ok := strings.Cut(Job(), "/")
	if !ok {
		return nil
	}
	r, w := io.Pipe()
	in := inbox{leases: kube.CoordinationV1().Leases(namespace), name: name, seen: map[string]bool{}}
	go func() {
		for ctx.Err() == nil {
			for lease := range in.versions(ctx) {
				orders, err := in.take(ctx, lease)
				for _, order := range orders {
					if _, err := w.Write(append([]byte(order), '\n')); err != nil {
						return
					}
				}
				if err != nil {
					break // the next version shows whether they were removed
				}
			}
			sleep(ctx, pause)
		}
		_ = w.Close()
	}()
	return r
}

// inbox takes the orders of a run from its Lease.
type inbox struct {
	leases coordinationclient.LeaseInterface
	name   string
	seen   map[string]bool // marks of the orders that were returned
	// doubtful are the annotations whose removal failed, or whose response was lost.
	doubtful map[string]string
}

// versions yields the Lease now and whenever it changes, until an error.
func (in *inbox) versions(ctx context.Context) iter.Seq[*coordinationv1.Lease] {
	return func(yield func(*coordinationv1.Lease) bool) {
		lease, err := in.leases.Get(ctx, in.name, metav1.GetOptions{})
		if err != nil || !yield(lease) {
			return
		}
		events, err := in.leases.Watch(ctx, metav1.ListOptions{ResourceVersion: lease.ResourceVersion, FieldSelector: fields.OneTermEqualSelector("metadata.name", in.name).String()})
		if err != nil {
			return
		}
		defer events.Stop()
		for e := range events.ResultChan() {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok && !yield(lease) {
				return
			}
		}
	}
}

// take removes the orders from a version of the Lease, and returns them in order. After an
// error they are returned with a later version, which shows whether they were removed.
func (in *inbox) take(ctx context.Context, lease *coordinationv1.Lease) (orders []string, err error) {
	found := map[string]string{}
	for key, order := range lease.Annotations {
		if number(key) > 0 {
			found[key] = order
		}
	}
	maps.DeleteFunc(in.doubtful, func(key, _ string) bool { _, still := found[key]; return still })
	removed := in.doubtful
	in.doubtful = nil
	if len(found) > 0 {
		if err = in.remove(ctx, lease, found); err != nil {
			in.doubtful = found
		} else {
			maps.Copy(found, removed)
			removed = found
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(removed), func(a, b string) int { return cmp.Compare(number(a), number(b)) }) {
		mark := cmp.Or(strings.TrimPrefix(key, orderPrefix+strconv.Itoa(number(key))), key) // older versions write none
		if !in.seen[mark] {
			orders = append(orders, removed[key])
		}
		in.seen[mark] = true
	}
	return orders, err
}

func (in *inbox) remove(ctx context.Context, lease *coordinationv1.Lease, annotations map[string]string) error {
	gone := map[string]any{}
	for key := range annotations {
		gone[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": lease.ResourceVersion, "annotations": gone}})
	if err != nil {
		return err
	}
	_, err = in.leases.Patch(ctx, in.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// number is that of an annotation with an order, 0 for any other.
func number(key string) int {
	text, ok := strings.CutPrefix(key, orderPrefix)
	text, _, _ = strings.Cut(text, "-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return 0
	}
	return n
}
