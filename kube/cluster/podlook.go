package cluster

import (
	"context"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
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

// oldPods returns OldPods of an object that was applied, "" for other kinds.
func (t *Target) oldPods(ctx context.Context, i *resource.Info, o plan.Object) string {
	if u, ok := i.Object.(*unstructured.Unstructured); ok && refs.KeepsPods(o) {
		return OldPods(ctx, t.session.Client.Dynamic, o, u)
	}
	return ""
}

// OldPods returns the note of a live ReplicaSet or ReplicationController some of whose pods are not of its template: nothing replaces
// them when it changes. It returns "" for none, and if pods may not be listed.
func OldPods(ctx context.Context, client dynamic.Interface, o plan.Object, u *unstructured.Unstructured) string {
	list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	n := 0
	for p := range slices.Values(list.Items) {
		phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
		if c := metav1.GetControllerOfNoCopy(&p); c != nil && c.UID == u.GetUID() && p.GetDeletionTimestamp() == nil && phase != "Succeeded" && phase != "Failed" && !madeFrom(u, &p) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return status.OldPods(n, "a "+o.Kind+" does not replace its pods")
}

// madeFrom reports whether a pod has everything that the template of its controller has: the API server, admission and the
// scheduler only add to it.
func madeFrom(controller, pod *unstructured.Unstructured) bool {
	template, _, _ := unstructured.NestedMap(controller.Object, "spec", "template")
	field := func(m map[string]any, path ...string) any {
		v, _, _ := unstructured.NestedFieldNoCopy(m, path...)
		return v
	}
	return includes(pod.Object["spec"], template["spec"]) &&
		includes(pod.GetLabels(), field(template, "metadata", "labels")) && includes(pod.GetAnnotations(), field(template, "metadata", "annotations"))
}

// includes reports whether a value has all that another one has. A list of values must be the same; of mappings, each must be in the list.
func includes(has, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		if labels, ok := has.(map[string]string); ok {
			for key, v := range want {
				if text, set := labels[key]; !set || text != v {
					return false
				}
			}
			return true
		}
		fields, _ := has.(map[string]any)
		for key, v := range want {
			if _, set := fields[key]; !set && v != nil && !isEmpty(v) || !includes(fields[key], v) {
				return false
			}
		}
		return true
	case []any:
		list, _ := has.([]any)
		if len(want) == 0 {
			return true
		}
		if _, mappings := want[0].(map[string]any); !mappings {
			return reflect.DeepEqual(list, want)
		}
		return !slices.ContainsFunc(want, func(w any) bool {
			return !slices.ContainsFunc(list, func(h any) bool { return includes(h, w) })
		})
	}
	return reflect.DeepEqual(has, want)
}

// isEmpty reports whether a value is a mapping or list without entries.
func isEmpty(v any) bool {
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.Len() == 0
}
