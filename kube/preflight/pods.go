package preflight

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	resources "k8s.io/component-helpers/resource"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// podsOf returns the pod template of an object. ok is false if the object creates no pods, or if the
// API server would refuse the template anyway.
func podsOf(o *incomingObject) (meta metav1.ObjectMeta, spec corev1.PodSpec, ok bool) {
	pods, hasTemplate := refs.FindPods(o.Object, o.fields)
	if !hasTemplate || pods.None {
		return meta, spec, false
	}
	convert := runtime.DefaultUnstructuredConverter
	if convert.FromUnstructured(pods.Spec, &spec) != nil {
		return meta, spec, false
	}
	return meta, spec, convert.FromUnstructured(pods.Meta, &meta) == nil
}

// replicas returns the number of pods that an object creates at once: 0 for a DaemonSet, which
// depends on the nodes, and for a CronJob, which creates them later.
func replicas(o *incomingObject) int64 {
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
		if completions, ok := spec["completions"].(int64); ok {
			return min(number("parallelism"), completions)
		}
		return number("parallelism")
	}
	return 0
}

// setDefaults sets the missing requests of containers to their limits, then other missing values to
// the defaults of the LimitRanges.
func setDefaults(spec *corev1.PodSpec, ranges []corev1.LimitRange) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			r.Requests = merge(r.Limits, r.Requests)
			for _, l := range ranges {
				for _, item := range l.Spec.Limits {
					if item.Type == corev1.LimitTypeContainer {
						r.Limits = merge(item.Default, r.Limits)
						r.Requests = merge(item.DefaultRequest, r.Requests)
					}
				}
			}
		}
	}
}

// merge returns the set values, and the defaults of the others.
func merge(defaults, set corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, defaults)
	maps.Copy(all, set)
	return all
}

// outOfRange warns about pods and claims of an object that violate a LimitRange.
func outOfRange(o *incomingObject, ranges []corev1.LimitRange) (found []plan.Warning) {
	warn := func(l corev1.LimitRange, format string, args ...any) {
		found = append(found, o.warning("%s violates LimitRange/%s in namespace %s%s", o, l.Name, o.Namespace, fmt.Sprintf(format, args...)))
	}
	_, spec, createsPods := podsOf(o)
	setDefaults(&spec, ranges)
	claims := claimsOf(o)
	for _, l := range ranges {
		for _, item := range l.Spec.Limits {
			switch {
			case item.Type == corev1.LimitTypeContainer && createsPods:
				for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
					for _, violation := range violations(item, c.Resources.Requests, c.Resources.Limits) {
						warn(l, ", so no pods can be created: container %s's %s", c.Name, violation)
					}
				}
			case item.Type == corev1.LimitTypePod && createsPods:
				pod := &corev1.Pod{Spec: spec}
				requests := resources.PodRequests(pod, resources.PodResourcesOptions{})
				limits := resources.PodLimits(pod, resources.PodResourcesOptions{})
				for _, violation := range violations(item, requests, limits) {
					warn(l, ", so no pods can be created: the pod's %s", violation)
				}
			case item.Type == corev1.LimitTypePersistentVolumeClaim:
				for _, claim := range claims {
					request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
					if limit, ok := item.Max[corev1.ResourceStorage]; ok && exceeds(request, limit) {
						warn(l, ": it requests %s of storage, but the maximum is %s", request.String(), limit.String())
					}
					if limit, ok := item.Min[corev1.ResourceStorage]; ok && exceeds(limit, request) {
						warn(l, ": it requests %s of storage, but the minimum is %s", request.String(), limit.String())
					}
				}
			}
		}
	}
	return found
}

// violations describes the limits above the maximum, the requests below the minimum, and the ratios of
// limit to request above the maximum ratio.
func violations(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		if limit, ok := limits[name]; !ok || exceeds(limit, item.Max[name]) {
			maximum := item.Max[name]
			add("%s limit is %s, but the maximum is %s", name, orNotSet(limit, ok), maximum.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		if request, ok := requests[name]; !ok || exceeds(item.Min[name], request) {
			minimum := item.Min[name]
			add("%s request is %s, but the minimum is %s", name, orNotSet(request, ok), minimum.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		maximum := item.MaxLimitRequestRatio[name]
		ratio := maximum.AsApproximateFloat64()
		request := requests[name]
		limit := limits[name]
		if request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64()/request.AsApproximateFloat64() > ratio {
			add("%s limit is %s and its request %s, but the limit may be at most %g times the request",
				name, orNotSet(limit, !limit.IsZero()), orNotSet(request, !request.IsZero()), ratio)
		}
	}
	return all
}

func claimsOf(o *incomingObject) (out []corev1.PersistentVolumeClaim) {
	for _, fields := range rawClaimsOf(o) {
		var claim corev1.PersistentVolumeClaim
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &claim) == nil {
			out = append(out, claim)
		}
	}
	return out
}

// rawClaimsOf yields the PersistentVolumeClaims that an object is or creates, with their paths in the
// object.
func rawClaimsOf(o *incomingObject) iter.Seq2[string, map[string]any] {
	return func(yield func(path string, claim map[string]any) bool) {
		switch {
		case o.Kind == "PersistentVolumeClaim" && o.Object.Group == "":
			yield("", o.fields)
		case o.Kind == "StatefulSet" && o.Object.Group == "apps" && replicas(o) > 0:
			spec, _ := o.fields["spec"].(map[string]any)
			list, _ := spec["volumeClaimTemplates"].([]any)
			for n, x := range list {
				if claim, ok := x.(map[string]any); ok && !yield(fmt.Sprintf("spec.volumeClaimTemplates[%d].", n), claim) {
					return
				}
			}
		}
	}
}

func exceeds(a, b resource.Quantity) bool { return a.Cmp(b) > 0 }

func orNotSet(q resource.Quantity, set bool) string {
	if !set {
		return "not set"
	}
	return q.String()
}

// checkPodSecurity warns about pods that violate the PodSecurity level of their namespace. It does not
// refuse them: the API server exempts some users, and a mutating webhook may change the pods.
func checkPodSecurity(planned *plannedObjects, namespaces map[string]*corev1.Namespace) (warnings []plan.Warning) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil
	}
	unlabelled := api.Policy{Enforce: api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}}
	for _, o := range planned.objects {
		meta, spec, ok := podsOf(o)
		if !ok {
			continue
		}
		level, errs := api.PolicyToEvaluate(planned.labelsOf(o.Namespace, namespaces), unlabelled)
		if len(errs) > 0 || level.Enforce.Level == api.LevelPrivileged {
			continue
		}
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level.Enforce, &meta, &spec)); !result.Allowed {
			warnings = append(warnings, o.warning("%s violates PodSecurity level %q of namespace %s, so no pods can be created: %s",
				o, level.Enforce.Level, o.Namespace, result.ForbiddenDetail()))
		}
	}
	return warnings
}

// labelsOf returns the labels that a namespace will have once the plan is applied.
func (planned *plannedObjects) labelsOf(name string, namespaces map[string]*corev1.Namespace) labels.Set {
	var set labels.Set
	if ns := namespaces[name]; ns != nil {
		set = ns.Labels
	}
	if object := planned.byObject[plan.Object{Kind: "Namespace", Name: name}]; object != nil {
		set = labels.Merge(set, object.labels())
	}
	return set
}
