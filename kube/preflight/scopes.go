package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resources "k8s.io/component-helpers/resource"
)

// counts reports whether a quota counts pods of a spec, which has its defaults. One
// with scopes counts those pods alone that are in all of them; known tells that all
// its scopes are.
func counts(q corev1.ResourceQuota, spec corev1.PodSpec) (yes, known bool) {
	scopes := []corev1.ScopedResourceSelectorRequirement{}
	for _, s := range q.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		scopes = append(scopes, q.Spec.ScopeSelector.MatchExpressions...)
	}
	yes = true
	for _, s := range scopes {
		in, known := inScope(s, spec)
		if !known {
			return false, false
		}
		yes = yes && in
	}
	return yes, true
}

func scoped(q corev1.ResourceQuota) bool {
	return len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil
}

func inScope(s corev1.ScopedResourceSelectorRequirement, spec corev1.PodSpec) (in, known bool) {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return spec.ActiveDeadlineSeconds != nil, true
	case corev1.ResourceQuotaScopeNotTerminating:
		return spec.ActiveDeadlineSeconds == nil, true
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(spec), true
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(spec), true
	case corev1.ResourceQuotaScopePriorityClass:
		class := spec.PriorityClassName // the cluster's own, where it is empty, nobody knows
		switch s.Operator {
		case corev1.ScopeSelectorOpIn:
			return slices.Contains(s.Values, class), class != ""
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(s.Values, class), class != ""
		case corev1.ScopeSelectorOpExists:
			return class != "", class != ""
		case corev1.ScopeSelectorOpDoesNotExist:
			return class == "", class != ""
		}
	}
	return false, false
}

// bestEffort reports whether pods ask for neither processor nor memory.
func bestEffort(spec corev1.PodSpec) bool {
	pod := &corev1.Pod{Spec: spec}
	requests, limits := resources.PodRequests(pod, resources.PodResourcesOptions{}), resources.PodLimits(pod, resources.PodResourcesOptions{})
	for _, list := range []corev1.ResourceList{requests, limits} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := list[name]; !q.IsZero() {
				return false
			}
		}
	}
	return true
}
