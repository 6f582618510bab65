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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"lockstep/engine/parallel"
)

const (
	// leaseVar is the environment variable that tells the pod the Lease of its run, as namespace/name.
	leaseVar = "LOCKSTEP_REQUESTS"
	// jobUIDVar is the environment variable with the UID of the pod's Job.
	jobUIDVar = "LOCKSTEP_JOB_UID"
	// requestPrefix is the prefix of the annotations with requests. The request's number and a random id follow.
	// leaseTransitions of the Lease counts the requests.
	requestPrefix = "lockstep.request/"
	// maxRequest is the maximum size of a request in bytes. An object may have 256 KiB of annotations.
	maxRequest      = 200 << 10
	watchRetryDelay = time.Second
)

// backoff is for conflicts of concurrent senders.
var backoff = wait.Backoff{Steps: 20, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 0.5}

// send adds a request to a run's Lease. If a response is lost, send may add the request twice. Both have the same id, so
// the run handles it once.
func send(ctx context.Context, kube kubernetes.Interface, namespace, name string, request []byte) error {
	if request = bytes.TrimSpace(request); len(request) > maxRequest {
		return fmt.Errorf("the edit is %d KiB, but a run in the cluster accepts at most %d KiB: abort the run, then upgrade with these values", len(request)>>10, maxRequest>>10)
	}
	leases, requestID := kube.CoordinationV1().Leases(namespace), utilrand.String(10)
	err := retry.OnError(backoff, apierrors.IsConflict, func() error {
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		number := ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[fmt.Sprintf("%s%d-%s", requestPrefix, number, requestID)] = string(request)
		lease.Spec.LeaseTransitions = &number
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("send the request through Lease %s/%s: %w", namespace, name, err)
	}
	return nil
}

// JobName returns the Job in whose pod this process runs, as namespace/name, or "" outside of such a pod. The Job's
// Lease has the same name.
func JobName() string { return os.Getenv(leaseVar) }

// JobID returns the Job in whose pod this process runs, as namespace/name/UID, or "" outside of such a pod. A GitOps tool
// creates a deleted Job again under the same name; that is another run.
func JobID() string {
	if uid := os.Getenv(jobUIDVar); uid != "" {
		return JobName() + "/" + uid
	}
	return JobName()
}

// Deleted returns the Job of the run in this pod, as namespace/name, if somebody has deleted it: no pod replaces this one then.
// Otherwise, and if that cannot be read, it returns "".
func Deleted(ctx context.Context, kube kubernetes.Interface) string {
	namespace, name, ok := strings.Cut(JobName(), "/")
	if !ok {
		return ""
	}
	job, err := kube.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (job.DeletionTimestamp != nil || JobName()+"/"+string(job.UID) != JobID()) {
		return JobName()
	}
	return ""
}

// Requests returns a reader with the requests to the run in this pod, one per line, until ctx ends. It returns nil
// outside of such a pod. Each request is removed from the Lease before it is returned, so it is returned only once.
func Requests(ctx context.Context, kube kubernetes.Interface) io.Reader {
	namespace, name, ok := strings.Cut(JobName(), "/")
	if !ok {
		return nil
	}
	r, w := io.Pipe()
	in := inbox{leases: kube.CoordinationV1().Leases(namespace), name: name, seen: map[string]bool{}}
	go func() {
		for ctx.Err() == nil {
			for lease := range in.versions(ctx, func(error) {}) { // the pod may be all that is left of a deleted Job
				requests, err := in.take(ctx, lease)
				for _, request := range requests {
					if _, err := w.Write(append([]byte(request), '\n')); err != nil {
						return
					}
				}
				if err != nil {
					break // a later version shows whether the requests were removed
				}
			}
			_ = parallel.Sleep(ctx, watchRetryDelay)
		}
		_ = w.Close()
	}()
	return r
}

// inbox takes the requests of a run from its Lease.
type inbox struct {
	leases coordinationclient.LeaseInterface
	name   string
	last   *coordinationv1.Lease // as last seen
	seen   map[string]bool       // ids of returned requests
	// unconfirmed are the annotations that may have been removed: the last attempt to remove them failed.
	unconfirmed map[string]string
}

// versions yields the current version of the Lease and each later one, until an error. If somebody has deleted the Lease, it
// creates it again, and calls failed if it cannot.
func (in *inbox) versions(ctx context.Context, failed func(error)) iter.Seq[*coordinationv1.Lease] {
	return func(yield func(*coordinationv1.Lease) bool) {
		lease, err := in.leases.Get(ctx, in.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && in.last != nil {
			if lease, err = in.leases.Create(ctx, in.emptied(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				failed(err)
			}
		}
		if err != nil {
			return
		}
		if in.last = lease; !yield(lease) {
			return
		}
		events, err := in.leases.Watch(ctx, metav1.ListOptions{ResourceVersion: lease.ResourceVersion, FieldSelector: fields.OneTermEqualSelector("metadata.name", in.name).String()})
		if err != nil {
			return
		}
		defer events.Stop()
		for e := range events.ResultChan() {
			lease, ok := e.Object.(*coordinationv1.Lease)
			if e.Type == watch.Deleted {
				return
			}
			if ok {
				if in.last = lease; !yield(lease) {
					return
				}
			}
		}
	}
}

// emptied returns the Lease as it was created, without the requests and approvals that others have added.
func (in *inbox) emptied() *coordinationv1.Lease {
	was := in.last
	lease := &coordinationv1.Lease{Spec: was.Spec, ObjectMeta: metav1.ObjectMeta{
		Name: was.Name, Namespace: was.Namespace, Labels: was.Labels, Annotations: maps.Clone(was.Annotations), OwnerReferences: was.OwnerReferences,
	}}
	maps.DeleteFunc(lease.Annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, requestPrefix) || strings.HasPrefix(key, approvalPrefix)
	})
	return lease
}

// take removes the requests from a version of the Lease and returns them in order. If the removal fails, a later call
// returns them: requests that are still there are removed then; the others were removed by the failed attempt.
func (in *inbox) take(ctx context.Context, lease *coordinationv1.Lease) (requests []string, err error) {
	found := map[string]string{}
	for key, request := range lease.Annotations {
		if requestNumber(key) > 0 {
			found[key] = request
		}
	}
	maps.DeleteFunc(in.unconfirmed, func(key, _ string) bool { _, ok := found[key]; return ok })
	removed := in.unconfirmed
	in.unconfirmed = nil
	if len(found) > 0 {
		if err = in.remove(ctx, lease, found); err != nil {
			in.unconfirmed = found
		} else {
			maps.Copy(found, removed)
			removed = found
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(removed), func(a, b string) int { return cmp.Compare(requestNumber(a), requestNumber(b)) }) {
		_, id, _ := strings.Cut(key, "-")
		if !in.seen[id] {
			requests = append(requests, removed[key])
		}
		in.seen[id] = true
	}
	return requests, err
}

func (in *inbox) remove(ctx context.Context, lease *coordinationv1.Lease, annotations map[string]string) error {
	nulls := map[string]any{}
	for key := range annotations {
		nulls[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": lease.ResourceVersion, "annotations": nulls}})
	if err != nil {
		return err
	}
	_, err = in.leases.Patch(ctx, in.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// requestNumber returns the number in the key of a request's annotation, or 0 for other annotations.
func requestNumber(key string) int {
	text, ok := strings.CutPrefix(key, requestPrefix)
	text, _, _ = strings.Cut(text, "-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return 0
	}
	return n
}
