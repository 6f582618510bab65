package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/plan"
	"lockstep/kube/lease"
	"lockstep/kube/status"
)

// namespaces reads the namespaces of the objects in the plan, nil for a missing one. It omits
// those that cannot be read.
func (v *clusterView) namespaces(planned *plannedObjects) map[string]*corev1.Namespace {
	names := []string{v.Common.Namespace}
	for _, o := range planned.objects {
		if o.Namespace != "" && !slices.Contains(names, o.Namespace) {
			names = append(names, o.Namespace)
		}
	}
	var mu sync.Mutex
	out := map[string]*corev1.Namespace{}
	each(len(names), func(i int) {
		if ns, known := v.namespace(names[i]); known {
			mu.Lock()
			defer mu.Unlock()
			out[names[i]] = ns
		}
	})
	return out
}

// checkNamespaces checks for terminating namespaces, and missing ones that nothing creates.
func checkNamespaces(planned *plannedObjects, namespaces map[string]*corev1.Namespace, own string) (warnings, refused []plan.Warning) {
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		ns := namespaces[name]
		if ns != nil && ns.DeletionTimestamp == nil {
			continue
		}
		i := slices.IndexFunc(planned.objects, func(o *incomingObject) bool { return o.Namespace == name })
		if i < 0 && (ns == nil || name != own) {
			continue
		}
		if ns != nil {
			w := plan.Warning{Object: &plan.Object{Kind: "Namespace", Name: name}}
			w.Message = fmt.Sprintf("namespace %s has been terminating since %s and accepts no new objects%s; "+
				"wait until it is deleted, then create it again (install --create-namespace does both)",
				name, ns.DeletionTimestamp.UTC().Format("2006-01-02 15:04:05 UTC"), whyTerminating(ns))
			if name == own {
				refused = append(refused, w)
			} else {
				warnings = append(warnings, w)
			}
			continue
		}
		o := planned.objects[i]
		switch incoming := planned.byObject[plan.Object{Kind: "Namespace", Name: name}]; {
		case incoming != nil && planned.earlier(o.position, incoming.position):
			warnings = append(warnings, o.warning("%s is in namespace %s, which is created after it (%s)",
				o, name, incoming.position.group.ID))
		case incoming != nil:
		case planned.unknownBefore(o):
			warnings = append(warnings, o.warning("%s is in namespace %s, which neither the chart nor the cluster has, "+
				"so an earlier group must create it", o, name))
		default:
			refused = append(refused, o.warning("%s is in namespace %s, which neither the chart nor the cluster has: "+
				"create the namespace, or add it to the chart", o, name))
		}
	}
	return warnings, refused
}

// WaitForNamespace reports whether the namespace must be created. With create, it first waits for
// a terminating namespace to be deleted, at most until the session ends; without, a missing one
// is an error. A namespace that the user may not read is assumed to exist.
func (s *Session) WaitForNamespace(create bool) (mustCreate bool, err error) {
	name := s.Common.Namespace
	step := "" // the last one reported
	for {
		ns, readErr := s.Client.Clientset.CoreV1().Namespaces().Get(s.Context, name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(readErr)
		switch {
		case s.Context.Err() != nil && step != "":
			return false, fmt.Errorf("%s: %w", step, context.Cause(s.Context))
		case missing && s.Common.Provided.Has(plan.Object{Kind: "Namespace", Name: name}):
			return false, nil
		case missing && !create:
			return false, fmt.Errorf("namespace %s does not exist: create it, or use --create-namespace", name)
		case readErr != nil && !missing && !apierrors.IsForbidden(readErr):
			return false, fmt.Errorf("read namespace %s: %w", name, readErr)
		}
		terminating := readErr == nil && ns.DeletionTimestamp != nil
		if !terminating || !create || s.Common.PlanOnly {
			if step != "" && s.Lease.Status != lease.Unavailable { // an old Lease was deleted with the namespace
				s.Lease = lease.State{}
			}
			return missing, nil
		}
		if text := fmt.Sprintf("waiting for namespace %s to be deleted%s", name, whyTerminating(ns)); text != step {
			step = text
			s.Common.ReportStep(text)
		}
		select {
		case <-s.Context.Done():
		case <-time.After(time.Second):
		}
	}
}

// whyTerminating returns status.WhyTerminating as the end of a sentence.
func whyTerminating(ns *corev1.Namespace) string {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ns)
	if err != nil {
		return ""
	}
	why := status.WhyTerminating(&unstructured.Unstructured{Object: fields})
	if why == "" {
		return ""
	}
	return ": " + why
}
