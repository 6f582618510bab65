package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// LookAtPods reads the pods of the workloads among the objects, one request for each namespace, and reports what is new about
// them before it returns. Where pods may not be listed, what the watch has reported stays.
func (s *Signs) LookAtPods(ctx context.Context, objects []plan.Object) {
	namespaces := map[string]bool{}
	for _, o := range objects {
		if KeepsRunning(o) {
			namespaces[o.Namespace] = true
		}
	}
	for ns := range namespaces {
		s.watches.look(ctx, ns)
	}
}

// look lists the pods of a namespace, again if the watch has reported meanwhile that a newer one was deleted or has ended.
func (w *podWatches) look(ctx context.Context, namespace string) {
	for ctx.Err() == nil {
		list, err := w.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		w.mu.Lock()
		version := status.ParseVersion(list.ResourceVersion)
		if version < w.lastDeleted {
			w.mu.Unlock()
			continue
		}
		listed := map[types.UID]bool{}
		for i := range list.Items {
			listed[list.Items[i].UID] = true
			w.seePod(&list.Items[i], ownerOf(&list.Items[i]), 0)
		}
		w.keepPods(namespace, func(uid types.UID, p podRun) bool { return listed[uid] || p.version > version })
		if !w.listed[namespace] {
			w.listed[namespace] = true
			for o := range w.listeners {
				if o.namespace == namespace && runningKinds[o.kind] {
					w.reportPods(o)
				}
			}
		}
		w.mu.Unlock()
		return
	}
}
