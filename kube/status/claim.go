package status

import (
	"cmp"
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"lockstep/engine/event"
)

const (
	// selectedNode is the annotation that the scheduler sets on a claim once it has a node for the first pod that uses it.
	selectedNode = "volume.kubernetes.io/selected-node"
	lateBinding  = "WaitForFirstConsumer"
)

// unusedClaim reports whether a claim has no volume and no pod has been scheduled that uses it. A StorageClass with
// WaitForFirstConsumer does not bind it before that.
func unusedClaim(u *unstructured.Unstructured) bool {
	return groupKind(u) == "PersistentVolumeClaim" && u.GetDeletionTimestamp() == nil && u.GetAnnotations()[selectedNode] == "" &&
		kstatus.GetStringField(u.Object, ".spec.volumeName", "") == "" &&
		cmp.Or(kstatus.GetStringField(u.Object, ".status.phase", ""), "Pending") == "Pending"
}

func className(u *unstructured.Unstructured) string {
	return kstatus.GetStringField(u.Object, ".spec.storageClassName", "")
}

// claimStatus counts a claim that waits for its first pod: waiting for the claim before that pod would never end.
func claimStatus(u *unstructured.Unstructured, rule Rule, _ time.Time) Result {
	r := byKstatus(u).by(event.ByKstatus)
	if r.Status == event.InProgress && rule.LateBinding && unusedClaim(u) {
		return result(event.Ready, "").noted("no volume until a pod uses it: StorageClass " + className(u) + " has " + lateBinding)
	}
	return r
}

var (
	classResource = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	eventResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// LateBinding reports whether the class of a claim waits for the first pod that uses the claim. It reads the StorageClass
// or, if that is forbidden, the claim's events. known is false if neither tells.
func LateBinding(ctx context.Context, client dynamic.Interface, u *unstructured.Unstructured) (late, known bool) {
	if !unusedClaim(u) || className(u) == "" {
		return false, false
	}
	class, err := client.Resource(classResource).Get(ctx, className(u), metav1.GetOptions{})
	if err == nil {
		mode, _, _ := unstructured.NestedString(class.Object, "volumeBindingMode")
		return mode == lateBinding, true
	}
	if !apierrors.IsForbidden(err) {
		return false, false
	}
	events, err := client.Resource(eventResource).Namespace(u.GetNamespace()).List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: fields.Set{
		"involvedObject.kind": u.GetKind(), "involvedObject.name": u.GetName(), "reason": lateBinding,
	}.String()})
	found := err == nil && len(events.Items) > 0
	return found, found
}

// bindings remembers which StorageClasses bind late.
type bindings struct {
	mu     sync.Mutex
	late   map[string]bool
	asking map[string]bool
}

// bindsLate reports whether the class of a claim binds late, as far as that is known. If it is not, bindsLate looks it up
// and then calls known.
func (h *Hub) bindsLate(u *unstructured.Unstructured, known func()) bool {
	if !unusedClaim(u) || className(u) == "" {
		return false
	}
	b, class := &h.bindings, className(u)
	b.mu.Lock()
	defer b.mu.Unlock()
	late, ok := b.late[class]
	if ok || b.asking[class] || h.ctx.Err() != nil {
		return late
	}
	b.asking[class] = true
	h.wg.Go(func() {
		late, ok := LateBinding(h.ctx, h.client, u)
		b.mu.Lock()
		b.asking[class] = false
		if ok {
			b.late[class] = late
		}
		b.mu.Unlock()
		if ok {
			known()
		}
	})
	return false
}
