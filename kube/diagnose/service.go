package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/plan"
)

// service finds out why a Service has no address or no endpoints.
func (d *Diagnoser) service(ctx context.Context, q *inquiry) lead {
	s := &corev1.Service{}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(q.live.Object, s) // ignore invalid fields
	ready := 0
	for _, p := range q.Pods {
		if p.severity == healthy && p.Phase == "running" {
			ready++
		}
	}
	q.serves = ready > 0 || len(s.Spec.Selector) == 0
	unaddressed := s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0
	if e := q.newestWarning(); unaddressed && e != nil {
		return lead{cause: "no address: " + e.Reason + ": " + e.Message}
	}
	l := lead{cause: cmp.Or(q.verdict().Message, fmt.Sprintf("%d of %d pods are ready", ready, len(q.Pods))), symptom: true}
	switch {
	case len(s.Spec.Selector) == 0:
		l = d.endpoints(ctx, q, s)
	case len(q.failed) > 0 && len(q.Pods) == 0:
		l.cause = "its pods are unknown"
	case len(q.Pods) == 0:
		l = d.mismatch(ctx, q.live.GetNamespace(), metav1.LabelSelector{MatchLabels: s.Spec.Selector})
	case ready == 0:
		l = lead{cause: fmt.Sprintf("0 of %d pods are ready; %s", len(q.Pods), q.podProblem(q.Pods[0]))}
	}
	switch {
	case unaddressed && l.symptom:
		return d.loadBalancerCause(ctx, s)
	case unaddressed:
		l.cause = "no address: " + l.cause
	}
	return l
}

// endpoints checks whether a Service without a selector has endpoints.
func (d *Diagnoser) endpoints(ctx context.Context, q *inquiry, s *corev1.Service) lead {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return lead{cause: cmp.Or(q.verdict().Message, "it is only an alias for an external host"), symptom: true}
	}
	list, err := d.kube.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
	q.note("EndpointSlices", err)
	if err != nil || slices.ContainsFunc(list.Items, func(s discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 }) {
		return lead{cause: cmp.Or(q.verdict().Message, "it has no selector: its endpoints come from elsewhere"), symptom: true}
	}
	q.serves = false
	return lead{cause: "it has no selector, and no EndpointSlice lists endpoints for it"}
}

// loadBalancerCause explains a Service that lacks only an address. It says whether another Service
// of the same class has one, which shows that a load balancer works.
func (d *Diagnoser) loadBalancerCause(ctx context.Context, s *corev1.Service) lead {
	class := ""
	if s.Spec.LoadBalancerClass != nil {
		class = " of class " + *s.Spec.LoadBalancerClass
	}
	list, err := d.kube.CoreV1().Services("").List(ctx, metav1.ListOptions{Limit: maxClusterWide})
	if err != nil {
		return lead{cause: "no address: no load balancer" + class + " has assigned one", gaps: []string{unreadable("Services of other namespaces", err)}}
	}
	for _, o := range list.Items {
		if o.Spec.Type == corev1.ServiceTypeLoadBalancer && len(o.Status.LoadBalancer.Ingress) > 0 && reflect.DeepEqual(o.Spec.LoadBalancerClass, s.Spec.LoadBalancerClass) {
			return lead{cause: fmt.Sprintf("no address: no load balancer%s has assigned one yet; Service %s/%s has one", class, o.Namespace, o.Name)}
		}
	}
	return lead{cause: fmt.Sprintf("no address: no load balancer%s has assigned one to any Service in the cluster", class)}
}

// maxClusterWide limits the number of objects of a kind that are read from all namespaces.
const maxClusterWide = 500

// ingress finds out why an Ingress has no address: from its class, its Services and their
// pods, its events, or other Ingresses of its class.
func (d *Diagnoser) ingress(ctx context.Context, q *inquiry) lead {
	in := &networkingv1.Ingress{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(q.live.Object, in); err != nil {
		return lead{}
	}
	if len(in.Status.LoadBalancer.Ingress) > 0 {
		return q.conditionCause()
	}
	for _, check := range []func(context.Context, *networkingv1.Ingress) lead{d.ingressClass, d.backends} {
		if l := check(ctx, in); l.cause != "" {
			return l
		}
	}
	if e := q.newestWarning(); e != nil {
		return lead{cause: e.Reason + ": " + e.Message}
	}
	return d.ingressControllerCause(ctx, in)
}

// ingressControllerCause explains an Ingress that lacks only an address. It says whether another
// Ingress of the same class has one, which shows that a controller works.
func (d *Diagnoser) ingressControllerCause(ctx context.Context, in *networkingv1.Ingress) lead {
	const unserved = "no address: no ingress controller serves it"
	list, err := d.kube.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{Limit: maxClusterWide})
	if err != nil {
		return lead{cause: unserved, gaps: []string{unreadable("Ingresses of other namespaces", err)}}
	}
	for _, o := range list.Items {
		if len(o.Status.LoadBalancer.Ingress) > 0 && className(&o) == className(in) {
			return lead{cause: fmt.Sprintf("%s yet; Ingress %s/%s of the same class has an address", unserved, o.Namespace, o.Name)}
		}
	}
	return lead{cause: unserved + " or any other Ingress of its class"}
}

// className returns the class of an Ingress, from its field or its annotation.
func className(in *networkingv1.Ingress) string {
	if in.Spec.IngressClassName != nil {
		return *in.Spec.IngressClassName
	}
	return in.Annotations[classAnnotation]
}

// classAnnotation names the class of an Ingress; it is older than the field.
const classAnnotation = "kubernetes.io/ingress.class"

func (d *Diagnoser) ingressClass(ctx context.Context, in *networkingv1.Ingress) lead {
	name := in.Spec.IngressClassName
	if name == nil && in.Annotations[classAnnotation] != "" { // needs no IngressClass
		return lead{}
	}
	list, err := d.kube.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return lead{}
	}
	var classes []string
	for _, c := range list.Items {
		if name != nil && c.Name == *name || name == nil && c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return lead{}
		}
		classes = append(classes, c.Name)
	}
	l := lead{evidence: []string{"the cluster has no IngressClass"}}
	if len(classes) > 0 {
		l.evidence[0] = "available IngressClasses: " + strings.Join(classes, ", ")
	}
	l.cause = "it names no IngressClass, and there is no default"
	if name != nil {
		l.cause = "IngressClass " + *name + " does not exist"
	}
	return l
}

// backends checks the Services of an Ingress.
func (d *Diagnoser) backends(ctx context.Context, in *networkingv1.Ingress) lead {
	var all []*networkingv1.IngressBackend
	if in.Spec.DefaultBackend != nil {
		all = append(all, in.Spec.DefaultBackend)
	}
	for _, r := range in.Spec.Rules {
		if r.HTTP != nil {
			for i := range r.HTTP.Paths {
				all = append(all, &r.HTTP.Paths[i].Backend)
			}
		}
	}
	seen := map[string]bool{}
	for _, b := range all {
		if b.Service == nil || seen[b.Service.Name] || len(seen) == maxPods {
			continue
		}
		seen[b.Service.Name] = true
		if l := d.backend(ctx, in.Namespace, b.Service); l.cause != "" {
			return l
		}
	}
	return lead{}
}

func (d *Diagnoser) backend(ctx context.Context, namespace string, b *networkingv1.IngressServiceBackend) lead {
	s, err := d.kube.CoreV1().Services(namespace).Get(ctx, b.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lead{cause: fmt.Sprintf("its backend Service %s does not exist", b.Name)}
	case err != nil:
		return lead{}
	}
	if !hasPort(s, b.Port) {
		var ports []string
		for _, p := range s.Spec.Ports {
			ports = append(ports, strings.TrimSpace(fmt.Sprintf("%d %s", p.Port, p.Name)))
		}
		return lead{cause: fmt.Sprintf("its backend Service %s has no port %s (available: %s)", b.Name, cmp.Or(b.Port.Name, fmt.Sprint(b.Port.Number)), cmp.Or(strings.Join(ports, ", "), "none"))}
	}
	r := d.Object(ctx, plan.Object{Kind: "Service", Namespace: namespace, Name: b.Name})
	if r.serves || r.Symptom {
		return lead{}
	}
	return lead{cause: fmt.Sprintf("its backend Service %s: %s", b.Name, r.Cause), evidence: r.Evidence}
}

func hasPort(s *corev1.Service, want networkingv1.ServiceBackendPort) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return want.Name != "" && p.Name == want.Name || want.Name == "" && p.Port == want.Number
	})
}
