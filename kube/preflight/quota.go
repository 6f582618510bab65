package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resources "k8s.io/component-helpers/resource"

	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// checkQuotas warns about objects that exceed the quotas or LimitRanges of their namespaces.
// createsSecret is set if the operation also creates a release record that is a Secret.
func (v *clusterView) checkQuotas(planned *plannedObjects, createsSecret bool) (warnings []plan.Warning) {
	byNamespace := map[string][]*incomingObject{}
	for _, o := range planned.objects {
		if o.Namespace != "" && o.Namespace != v.newNamespace {
			byNamespace[o.Namespace] = append(byNamespace[o.Namespace], o)
		}
	}
	return checkAll(slices.Sorted(maps.Keys(byNamespace)), func(namespace string) (found []plan.Warning) {
		var ranges []corev1.LimitRange
		l, err := v.Client.Clientset.CoreV1().LimitRanges(namespace).List(v.Context, metav1.ListOptions{})
		if !v.recordFailure(err, "limitranges", namespace) {
			ranges = l.Items
		}
		for _, o := range byNamespace[namespace] {
			found = append(found, outOfRange(o, ranges)...)
		}
		quotas, err := v.Client.Clientset.CoreV1().ResourceQuotas(namespace).List(v.Context, metav1.ListOptions{})
		if v.recordFailure(err, "resourcequotas", namespace) {
			return found
		}
		for _, q := range quotas.Items {
			q = planned.quota(q)
			needs := quotaNeeds(q, byNamespace[namespace], ranges)
			if createsSecret && namespace == v.Common.Namespace && !scoped(q) {
				add(needs, corev1.ResourceSecrets, resource.MustParse("1"))
				add(needs, "count/secrets", resource.MustParse("1"))
			}
			found = append(found, overQuota(q, needs)...)
			found = append(found, missingResources(q, byNamespace[namespace], ranges)...)
		}
		return found
	})
}

// quota returns a quota with the limits that the operation sets, if it contains the quota.
func (p *plannedObjects) quota(live corev1.ResourceQuota) corev1.ResourceQuota {
	o := p.byObject[plan.Object{Kind: "ResourceQuota", Namespace: live.Namespace, Name: live.Name}]
	set := corev1.ResourceQuota{}
	if o != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(o.fields, &set) == nil { // else the API server refuses it
		live.Spec, live.Status.Hard = set.Spec, set.Spec.Hard
	}
	return live
}

// quotaNeeds returns how much of each resource of a quota the new objects need; existing objects
// already count as used. For a quota with scopes, only pods are counted here; claims in the scope
// VolumeAttributesClass are not.
func quotaNeeds(quota corev1.ResourceQuota, objects []*incomingObject, ranges []corev1.LimitRange) corev1.ResourceList {
	needs := corev1.ResourceList{}
	for _, o := range objects {
		if !o.new {
			continue
		}
		if !scoped(quota) {
			addObject(needs, o)
			for _, c := range claimsOf(o) {
				created := int64(1)
				if o.Kind == "StatefulSet" {
					created = replicas(o)
					add(needs, corev1.ResourcePersistentVolumeClaims, *resource.NewQuantity(created, resource.DecimalSI))
				}
				addClaims(needs, c, created)
			}
		}
		addPods(needs, o, quota, ranges)
	}
	return needs
}

// addPods adds what the pods of an object need, if the quota counts these pods.
func addPods(needs corev1.ResourceList, o *incomingObject, quota corev1.ResourceQuota, ranges []corev1.LimitRange) {
	n := replicas(o)
	_, spec, ok := podsOf(o)
	if !ok || n == 0 {
		return
	}
	setDefaults(&spec, ranges)
	if !counts(quota, spec) {
		return
	}
	pod := &corev1.Pod{Spec: spec}
	if o.Kind != "Pod" || scoped(quota) {
		add(needs, corev1.ResourcePods, *resource.NewQuantity(n, resource.DecimalSI))
		add(needs, "count/pods", *resource.NewQuantity(n, resource.DecimalSI))
	}
	for name, q := range resources.PodRequests(pod, resources.PodResourcesOptions{}) {
		q.Mul(n)
		add(needs, name, q)
		add(needs, "requests."+name, q)
	}
	for name, q := range resources.PodLimits(pod, resources.PodResourcesOptions{}) {
		q.Mul(n)
		add(needs, "limits."+name, q)
	}
}

func add(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	sum := list[name]
	sum.Add(q)
	list[name] = sum
}

// addObject adds 1 to the resources that count objects of this kind.
func addObject(needs corev1.ResourceList, o *incomingObject) {
	plural, _ := meta.UnsafeGuessKindToResource(o.gvk)
	one := *resource.NewQuantity(1, resource.DecimalSI)
	add(needs, corev1.ResourceName("count/"+plural.GroupResource().String()), one)
	if o.gvk.Group != "" {
		return
	}
	add(needs, corev1.ResourceName(plural.Resource), one)
	if spec, _ := o.fields["spec"].(map[string]any); o.Kind == "Service" && spec["type"] == "LoadBalancer" {
		add(needs, corev1.ResourceServicesLoadBalancers, one)
	}
}

func addClaims(needs corev1.ResourceList, claim corev1.PersistentVolumeClaim, n int64) {
	q := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	q.Mul(n)
	add(needs, corev1.ResourceRequestsStorage, q)
	if class := claim.Spec.StorageClassName; class != nil && *class != "" {
		ofClass := *class + ".storageclass.storage.k8s.io/"
		add(needs, corev1.ResourceName(ofClass+"requests.storage"), q)
		add(needs, corev1.ResourceName(ofClass+"persistentvolumeclaims"), *resource.NewQuantity(n, resource.DecimalSI))
	}
}

// overQuota warns about resources of which a quota has too little left.
func overQuota(q corev1.ResourceQuota, needs corev1.ResourceList) (found []plan.Warning) {
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		need, hard, used := needs[name], q.Status.Hard[name], q.Status.Used[name]
		left := hard.DeepCopy()
		left.Sub(used)
		if need.IsZero() || !exceeds(need, left) {
			continue
		}
		remaining := "none"
		if left.Sign() > 0 {
			remaining = "only " + left.String()
		}
		found = append(found, plan.Warning{Message: fmt.Sprintf("ResourceQuota/%s in namespace %s: %s: "+
			"the release needs %s, but the quota has %s left (%s of %s used); the API server will refuse the objects that exceed it",
			q.Name, q.Namespace, name, need.String(), remaining, used.String(), hard.String())})
	}
	return found
}

// computeResources are the resources that containers must set if a quota counts them.
var computeResources = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// missingResources warns about pods without the requests or limits that a quota requires.
func missingResources(q corev1.ResourceQuota, objects []*incomingObject, ranges []corev1.LimitRange) (found []plan.Warning) {
	for _, o := range objects {
		_, spec, ok := podsOf(o)
		if !ok || spec.Resources != nil {
			continue
		}
		setDefaults(&spec, ranges)
		if !counts(q, spec) {
			continue
		}
		var missing []string
		for _, name := range computeResources {
			if _, counted := q.Spec.Hard[name]; !counted {
				continue
			}
			base, isLimit := strings.CutPrefix(string(name), "limits.")
			base = strings.TrimPrefix(base, "requests.")
			for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
				list := c.Resources.Requests
				if isLimit {
					list = c.Resources.Limits
				}
				if _, set := list[corev1.ResourceName(base)]; !set {
					missing = append(missing, fmt.Sprintf("%s for container %s", name, c.Name))
				}
			}
		}
		if len(missing) > 0 {
			found = append(found, o.warning("%s does not set %s, which ResourceQuota/%s in namespace %s requires; no pods can be created",
				o, text.JoinAnd(missing), q.Name, q.Namespace))
		}
	}
	return found
}

// counts reports whether a quota counts pods with this spec, which includes the LimitRanges'
// defaults. A quota with scopes counts pods that are in all of them.
func counts(q corev1.ResourceQuota, spec corev1.PodSpec) bool {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		scopes = append(scopes, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return !slices.ContainsFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool { return !inScope(s, spec) })
}

func scoped(q corev1.ResourceQuota) bool {
	return len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil
}

// inScope reports whether pods are certainly in a scope. It is unknown for an empty priority class,
// which the API server sets to the cluster's default.
func inScope(s corev1.ScopedResourceSelectorRequirement, spec corev1.PodSpec) bool {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(spec)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(spec)
	case corev1.ResourceQuotaScopePriorityClass:
		switch class := spec.PriorityClassName; s.Operator {
		case corev1.ScopeSelectorOpIn:
			return class != "" && slices.Contains(s.Values, class)
		case corev1.ScopeSelectorOpNotIn:
			return class != "" && !slices.Contains(s.Values, class)
		case corev1.ScopeSelectorOpExists:
			return class != ""
		}
	}
	return false
}

func bestEffort(spec corev1.PodSpec) bool {
	pod := &corev1.Pod{Spec: spec}
	requests := resources.PodRequests(pod, resources.PodResourcesOptions{})
	limits := resources.PodLimits(pod, resources.PodResourcesOptions{})
	for _, list := range []corev1.ResourceList{requests, limits} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := list[name]; !q.IsZero() {
				return false
			}
		}
	}
	return true
}
