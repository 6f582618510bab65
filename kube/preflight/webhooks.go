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
	name              string
	rules             []admissionv1.RuleWithOperations
	namespace, object *metav1.LabelSelector
	service           types.NamespacedName
}

// checkWebhooks warns about webhooks without endpoints: the API server refuses the objects that
// they must admit.
func (v *clusterView) checkWebhooks(planned *plannedObjects, namespaces map[string]*corev1.Namespace) (warnings []plan.Warning) {
	type call struct {
		webhook
		objects []*incomingObject
	}
	calls := map[types.NamespacedName]call{}
	for _, w := range v.webhooks() {
		for _, o := range planned.objects {
			if _, found := calls[w.service]; found && calls[w.service].name != w.name || !v.intercepts(w, o, planned, namespaces) {
				continue
			}
			calls[w.service] = call{w, append(calls[w.service].objects, o)}
		}
	}
	services := slices.SortedFunc(maps.Keys(calls), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return findAll(services, func(service types.NamespacedName) []plan.Warning {
		c := calls[service]
		if !v.hasNoEndpoints(service) {
			return nil
		}
		return []plan.Warning{c.objects[0].warning(
			"webhook %s must admit %s, but Service/%s in namespace %s has no endpoints: the API server will refuse these objects",
			c.name, andMore(c.objects[0], len(c.objects)), service.Name, service.Namespace)}
	})
}

// webhooks returns the webhooks with failurePolicy Fail and a Service, except those with
// conditions, which only the API server can evaluate.
func (v *clusterView) webhooks() (out []webhook) {
	// add takes validating webhooks and, without their ReinvocationPolicy, mutating ones.
	add := func(w admissionv1.ValidatingWebhook) {
		service := w.ClientConfig.Service
		if w.FailurePolicy != nil && *w.FailurePolicy != admissionv1.Fail || service == nil || len(w.MatchConditions) > 0 {
			return
		}
		out = append(out, webhook{
			name:      w.Name,
			rules:     w.Rules,
			namespace: w.NamespaceSelector,
			object:    w.ObjectSelector,
			service:   types.NamespacedName{Namespace: service.Namespace, Name: service.Name},
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
	if err != nil || !o.new || o.gvk.Group == admissionv1.GroupName { // webhooks are not called for webhook configurations
		return false
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	matched := slices.ContainsFunc(w.rules, func(r admissionv1.RuleWithOperations) bool {
		return anyOf(r.Operations, admissionv1.Create) && anyOf(r.APIGroups, o.gvk.Group) &&
			anyOf(r.APIVersions, o.gvk.Version) && (anyOf(r.Resources, mapping.Resource.Resource) || slices.Contains(r.Resources, "*/*")) &&
			(r.Scope == nil || *r.Scope == admissionv1.AllScopes || (*r.Scope == admissionv1.NamespacedScope) == namespaced)
	})
	if !matched {
		return false
	}
	own := o.labels()
	return selects(w.object, own) && selectsNamespaceOf(w, o, own, planned, namespaces)
}

// selectsNamespaceOf reports whether the webhook selects the namespace of an object. It returns true
// for cluster-scoped objects other than namespaces.
func selectsNamespaceOf(w webhook, o *incomingObject, own labels.Set, planned *plannedObjects, namespaces map[string]*corev1.Namespace) bool {
	switch {
	case o.Kind == "Namespace" && o.Object.Group == "":
		return selects(w.namespace, own)
	case o.Namespace == "":
		return true
	case w.namespace == nil || len(w.namespace.MatchLabels)+len(w.namespace.MatchExpressions) == 0:
		return true
	}
	if _, known := namespaces[o.Namespace]; !known {
		return false
	}
	all := labels.Set{"kubernetes.io/metadata.name": o.Namespace, "name": o.Namespace} // set by --create-namespace
	if namespaces[o.Namespace] != nil {
		delete(all, "name")
	}
	return selects(w.namespace, labels.Merge(all, planned.labelsOf(o.Namespace, namespaces)))
}

func anyOf[T ~string](list []T, value T) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(set)
}

// hasNoEndpoints reports whether a Service certainly has no endpoints.
func (v *clusterView) hasNoEndpoints(service types.NamespacedName) bool {
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name}
	l, err := v.Client.Clientset.DiscoveryV1().EndpointSlices(service.Namespace).List(v.Context, ofService)
	if v.recordFailure(err, "endpointslices.discovery.k8s.io", service.Namespace) {
		return false
	}
	for _, slice := range l.Items {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return false
			}
		}
	}
	svc, err := v.Client.Clientset.CoreV1().Services(service.Namespace).Get(v.Context, service.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	return !v.recordFailure(err, "services", service.Namespace) && svc.Spec.Type != corev1.ServiceTypeExternalName
}
