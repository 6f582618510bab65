package preflight

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/refs"
)

// podsOf are the pods that an object makes, as their types have them, and whether
// it makes any. Those of what the API server would refuse anyway are left out.
func podsOf(o *brought) (meta metav1.ObjectMeta, spec corev1.PodSpec, ok bool) {
	pods, has := refs.PodsOf(o.Object, o.fields)
	if !has || pods.None {
		return meta, spec, false
	}
	convert := runtime.DefaultUnstructuredConverter
	if convert.FromUnstructured(pods.Spec, &spec) != nil {
		return meta, spec, false
	}
	return meta, spec, convert.FromUnstructured(pods.Meta, &meta) == nil
}

// replicas is how many pods an object makes at once. Those of a DaemonSet depend
// on the nodes, those of a CronJob come later.
func replicas(o *brought) int64 {
	spec, _ := o.fields["spec"].(map[string]any)
	number := func(field string) int64 {
		if n, ok := spec[field].(int64); ok {
			return n
		}
		return 1
	}
	switch o.Kind {
	case "Pod":
		return 1
	case "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController":
		return number("replicas")
	case "Job":
		return number("parallelism")
	}
	return 0
}

// each calls do for each of the things, side by side, and returns what it found,
// in their order.
func each[T, R any](things []T, do func(T) []R) (all []R) {
	found := make([][]R, len(things))
	var wg sync.WaitGroup
	for i, x := range things {
		wg.Go(func() { found[i] = do(x) })
	}
	wg.Wait()
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}
