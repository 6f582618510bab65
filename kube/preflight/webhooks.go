package preflight

import (
	"cmp"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
)

// webhook is an admission webhook with failurePolicy Fail.
type webhook struct {
	name                              string
	rules                             []admissionv1.RuleWithOperations
	namespaceSelector, objectSelector *metav1.LabelSelector
	service                           types.NamespacedName
}

// checkWebhooks warns about webhooks whose Service is missing or has no ready endpoints: the API server refuses the
// objects that they must admit. There is one warning per Service, about the first webhook that uses it.
func (v *clusterView) checkWebhooks(planned *plannedObjects, namespaces map[string]*corev1.Namespace) (warnings []plan.Warning) {
	type call struct {
		webhook
		objects []*incomingObject
	}
	calls := map[types.NamespacedName]call{}
	for _, w := range v.webhooks() {
		for _, o := range planned.objects {
			c, found := calls[w.service]
			// A validating and a mutating webhook may have the same name and admit the same object.
			if found && c.name != w.name || slices.Contains(c.objects, o) || !v.intercepts(w, o, planned, namespaces) {
				continue
			}
			calls[w.service] = call{w, append(c.objects, o)}
		}
	}
	services := slices.SortedFunc(maps.Keys(calls), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return checkAll(services, func(service types.NamespacedName) []plan.Warning {
		c := calls[service]
		problem, fix := v.serviceProblem(service)
		if problem == "" {
			return nil
		}
		pronoun := "it"
		if len(c.objects) > 1 {
			pronoun = "them"
		}
		return []plan.Warning{c.objects[0].warning(
			"webhook %s must admit %s, but Service/%s in namespace %s %s, so the API server will refuse %s; %s, or delete the webhook",
			c.name, andMore(c.objects[0], len(c.objects)), service.Name, service.Namespace, problem, pronoun, fix)}
	})
}

// webhooks returns the webhooks with failurePolicy Fail and a Service, except those with match
// conditions, which only the API server can evaluate.
func (v *clusterView) webhooks() (out []webhook) {
	// Mutating webhooks are converted: they have the same fields and a ReinvocationPolicy.
	add := func(w admissionv1.ValidatingWebhook) {
		service := w.ClientConfig.Service
		if w.FailurePolicy != nil && *w.FailurePolicy != admissionv1.Fail || service == nil || len(w.MatchConditions) > 0 {
			return
		}
		out = append(out, webhook{
			name:              w.Name,
			rules:             w.Rules,
			namespaceSelector: w.NamespaceSelector,
			objectSelector:    w.ObjectSelector,
			service:           types.NamespacedName{Namespace: service.Namespace, Name: service.Name},
		})
	}
	api := v.Client.Clientset.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().List(v.Context, metav1.ListOptions{})
	if !v.recordFailure(err, "mutatingwebhookconfigurations.admissionregistration.k8s.io", "") {
		for _, c := range mutating.Items {
			for _, w := range c.Webhooks {
				add(admissionv1.ValidatingWebhook{
					Name:              w.Name,
					ClientConfig:      w.ClientConfig,
					Rules:             w.Rules,
					FailurePolicy:     w.FailurePolicy,
					NamespaceSelector: w.NamespaceSelector,
					ObjectSelector:    w.ObjectSelector,
					MatchConditions:   w.MatchConditions,
				})
			}
		}
	}
	validating, err := api.ValidatingWebhookConfigurations().List(v.Context, metav1.ListOptions{})
	if !v.recordFailure(err, "validatingwebhookconfigurations.admissionregistration.k8s.io", "") {
		for _, c := range validating.Items {
			for _, w := range c.Webhooks {
				add(w)
			}
		}
	}
	return out
}

// intercepts reports whether the API server calls a webhook when it creates an object.
func (v *clusterView) intercepts(w webhook, o *incomingObject, planned *plannedObjects, namespaces map[string]*corev1.Namespace) bool {
	mapping, err := v.mapper.RESTMapping(schema.GroupKind{Group: o.gvk.Group, Kind: o.gvk.Kind}, o.gvk.Version)
	if err != nil || !o.new || o.gvk.Group == admissionv1.GroupName { // the API server calls no webhooks for webhook configurations
		return false
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	matched := slices.ContainsFunc(w.rules, func(r admissionv1.RuleWithOperations) bool {
		return matches(r.Operations, admissionv1.Create) && matches(r.APIGroups, o.gvk.Group) &&
			matches(r.APIVersions, o.gvk.Version) && (matches(r.Resources, mapping.Resource.Resource) || slices.Contains(r.Resources, "*/*")) &&
			(r.Scope == nil || *r.Scope == admissionv1.AllScopes || (*r.Scope == admissionv1.NamespacedScope) == namespaced)
	})
	if !matched {
		return false
	}
	return selects(w.objectSelector, o.labels()) && selectsNamespaceOf(w, o, planned, namespaces)
}

// selectsNamespaceOf reports whether the webhook selects the namespace of an object. It returns true
// for cluster-scoped objects other than namespaces, and false if the namespace could not be read.
func selectsNamespaceOf(w webhook, o *incomingObject, planned *plannedObjects, namespaces map[string]*corev1.Namespace) bool {
	selector := w.namespaceSelector
	switch {
	case o.Kind == "Namespace" && o.Object.Group == "":
		return selects(selector, o.labels())
	case o.Namespace == "" || selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0:
		return true
	}
	if _, known := namespaces[o.Namespace]; !known {
		return false
	}
	all := labels.Set{corev1.LabelMetadataName: o.Namespace} // set by the API server
	return selects(selector, labels.Merge(all, planned.labelsOf(o.Namespace, namespaces)))
}

// matches reports whether a list of a rule contains a value or "*".
func matches[T ~string](list []T, value T) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(set)
}

// serviceProblem says why a webhook's Service certainly cannot be called, and how to fix it. It returns "" if it can be.
func (v *clusterView) serviceProblem(service types.NamespacedName) (problem, fix string) {
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name}
	l, err := v.Client.Clientset.DiscoveryV1().EndpointSlices(service.Namespace).List(v.Context, ofService)
	if v.recordFailure(err, "endpointslices.discovery.k8s.io", service.Namespace) {
		return "", ""
	}
	for _, slice := range l.Items {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return "", ""
			}
		}
	}
	svc, err := v.Client.Clientset.CoreV1().Services(service.Namespace).Get(v.Context, service.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "does not exist", "create the Service"
	case v.recordFailure(err, "services", service.Namespace) || svc.Spec.Type == corev1.ServiceTypeExternalName:
		return "", ""
	}
	return "has no ready endpoints", "make its pods ready"
}
