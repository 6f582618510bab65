package kubelet

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// reporter writes events as the kubelets of the nodes would. client-go's recorders increment the count of a
// repeated event, and limit the number of events of a pod. A broadcaster writes one event after the other and holds
// them all while it retries one, so a single one for all pods would be half a minute late on a busy machine.
type reporter struct {
	broadcasters [workers]record.EventBroadcaster
}

// newReporter returns a reporter that works until ctx is done. It has its own client, so that events never delay
// the update of a status.
func newReporter(ctx context.Context, cfg *rest.Config) (*reporter, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	r := &reporter{}
	for i := range r.broadcasters {
		r.broadcasters[i] = record.NewBroadcaster(record.WithContext(ctx), record.WithSleepDuration(time.Second))
		r.broadcasters[i].StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	}
	return r, nil
}

// report writes an event about a pod after all earlier ones about the same pod.
func (r *reporter) report(pod *corev1.Pod, e event) {
	kind := corev1.EventTypeNormal
	if e.warning {
		kind = corev1.EventTypeWarning
	}
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
		UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	if e.container != "" {
		list := "containers"
		for _, c := range pod.Spec.InitContainers {
			if c.Name == e.container {
				list = "initContainers"
			}
		}
		ref.FieldPath = fmt.Sprintf("spec.%s{%s}", list, e.container)
	}
	hash := fnv.New32a()
	hash.Write([]byte(pod.UID))
	b := r.broadcasters[hash.Sum32()%workers]
	b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}).Event(ref, kind, e.reason, e.message)
}
