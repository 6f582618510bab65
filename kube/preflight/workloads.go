package preflight

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/diagnose"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// budget is a PodDisruptionBudget of the plan.
type budget struct {
	from     *incomingObject
	selector labels.Selector
}

// idleBudgets returns the PodDisruptionBudgets that select the pods of no workload of the plan. It returns none
// if the plan has custom resources that may create other pods.
func (planned *plannedObjects) idleBudgets() (idle []budget) {
	if slices.ContainsFunc(planned.objects, func(o *incomingObject) bool { return isActive(o.Object) }) {
		return nil
	}
	for _, o := range planned.objects {
		if o.Kind != "PodDisruptionBudget" || o.Object.Group != policyv1.GroupName {
			continue
		}
		var b policyv1.PodDisruptionBudget
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.fields, &b) != nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Empty() { // an empty selector selects all pods of the namespace
			continue
		}
		matched := slices.ContainsFunc(planned.objects, func(other *incomingObject) bool {
			pods, ok := refs.FindPods(other.Object, other.fields) // of a workload with 0 replicas too: it protects nothing by design
			podLabels, _, err := unstructured.NestedStringMap(pods.Meta, "labels")
			return ok && err == nil && other.Namespace == o.Namespace && selector.Matches(labels.Set(podLabels))
		})
		if !matched {
			idle = append(idle, budget{o, selector})
		}
	}
	return idle
}

// checkBudgets warns about PodDisruptionBudgets that select no pods in the plan or the cluster.
func (v *clusterView) checkBudgets(planned *plannedObjects) (warnings []plan.Warning) {
	podLabels := map[string][]labels.Set{}
	for _, b := range planned.idleBudgets() {
		ns := b.from.Namespace
		if _, listed := podLabels[ns]; !listed && ns != v.newNamespace {
			l, err := v.Client.Metadata.Resource(podResource).Namespace(ns).List(v.Context, metav1.ListOptions{})
			if v.recordFailure(err, "pods", ns) {
				continue
			}
			podLabels[ns] = nil
			for _, pod := range l.Items {
				podLabels[ns] = append(podLabels[ns], pod.Labels)
			}
		}
		if !slices.ContainsFunc(podLabels[ns], func(l labels.Set) bool { return b.selector.Matches(l) }) {
			warnings = append(warnings, b.warning())
		}
	}
	return warnings
}

func (b budget) warning() plan.Warning {
	return b.from.warning("%s matches pods with %s, but neither the chart nor namespace %s has any, so it protects nothing",
		b.from, b.selector, b.from.Namespace)
}

// checkJobs warns about suspended Jobs that must complete: they have no pods, so they never do (R22).
func (planned *plannedObjects) checkJobs() (warnings []plan.Warning) {
	for _, o := range planned.objects {
		spec, _ := o.fields["spec"].(map[string]any)
		if suspended, _ := spec["suspend"].(bool); suspended && o.IsJob() && (o.hook || o.position.group.JobsComplete) {
			warnings = append(warnings, o.warning("%s is suspended, so it does not complete until something resumes it; the run waits for that; "+
				"remove spec.suspend, or pass --wait-for-jobs=false", o))
		}
	}
	return warnings
}

// checkBlocked says which pods of existing StatefulSets lockstep will delete, because they were never ready and block the
// rollout once they have an older template (R32).
func (v *clusterView) checkBlocked(planned *plannedObjects) []plan.Warning {
	var sets []*incomingObject
	for _, o := range planned.objects {
		if o.Group == "apps" && o.Kind == "StatefulSet" && !o.new && !o.hook {
			sets = append(sets, o)
		}
	}
	diagnoser := diagnose.New(v.Client.Clientset, v.Client.Dynamic, v.Client.Getter)
	return checkAll(sets, func(o *incomingObject) (warnings []plan.Warning) {
		pods, err := diagnoser.BrokenPods(v.Context, o.Object)
		if err != nil { // it may not exist, and reading it is not needed
			return nil
		}
		for _, p := range pods {
			does := "lockstep deletes it after it has applied the StatefulSet (--keep-broken-pods keeps it)"
			if v.Common.KeepBrokenPods {
				does = "delete it then: " + p.Advice()
			}
			warnings = append(warnings, plan.Warning{Rule: "R32", Object: &o.Object, Message: o.String() + ": " + p.String() +
				" was never ready, and Kubernetes does not replace it once its template is out of date; in that case " + does})
		}
		return warnings
	})
}
