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
	"lockstep/engine/text"
)

// serviceCause finds out why a Service has no address or no endpoints.
func (d *Diagnoser) serviceCause(ctx context.Context, b *reportBuilder) finding {
	s := &corev1.Service{}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(b.live.Object, s) // ignore invalid fields
	ready := 0
	for _, p := range b.Pods {
		if p.severity == healthy && p.Phase == "running" {
			ready++
		}
	}
	b.hasEndpoints = ready > 0 || len(s.Spec.Selector) == 0
	lacksAddress := s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0
	if e := b.newestWarning(); lacksAddress && e != nil {
		return finding{cause: "no address: " + e.Reason + ": " + e.Message}
	}
	f := finding{cause: cmp.Or(b.verdict().Message, fmt.Sprintf("%d of %d pods are ready", ready, len(b.Pods))), symptom: true}
	switch {
	case len(s.Spec.Selector) == 0:
		f = d.endpointsCause(ctx, b, s)
	case len(b.gaps) > 0 && len(b.Pods) == 0:
		f.cause = "its pods are unknown"
	case len(b.Pods) == 0:
		f = d.mismatchCause(ctx, b.live.GetNamespace(), metav1.LabelSelector{MatchLabels: s.Spec.Selector})
	case ready == 0:
		f = finding{cause: fmt.Sprintf("0 of %d pods are ready; %s", len(b.Pods), b.podProblem(b.Pods[0]))}
	}
	switch {
	case lacksAddress && f.symptom:
		return d.loadBalancerCause(ctx, s)
	case lacksAddress:
		f.cause = "no address: " + f.cause
	}
	return f
}

// endpointsCause checks whether a Service without a selector has endpoints, which somebody else must create.
func (d *Diagnoser) endpointsCause(ctx context.Context, b *reportBuilder, s *corev1.Service) finding {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return finding{cause: cmp.Or(b.verdict().Message, "it is only an alias for an external host"), symptom: true}
	}
	list, err := d.kube.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
	b.addGap("EndpointSlices", err)
	if err != nil || slices.ContainsFunc(list.Items, func(s discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 }) {
		return finding{cause: cmp.Or(b.verdict().Message, "it has no selector: its endpoints come from elsewhere"), symptom: true}
	}
	b.hasEndpoints = false
	return finding{cause: "it has no selector, and no EndpointSlice lists endpoints for it"}
}

// loadBalancerCause explains a Service that only lacks an address. Another Service of the same class that has one shows
// that its load balancer works.
func (d *Diagnoser) loadBalancerCause(ctx context.Context, s *corev1.Service) finding {
	class := ""
	if s.Spec.LoadBalancerClass != nil {
		class = " of class " + *s.Spec.LoadBalancerClass
	}
	list, err := d.kube.CoreV1().Services("").List(ctx, metav1.ListOptions{Limit: maxClusterWide})
	if err != nil {
		return finding{cause: "no address: no load balancer" + class + " has assigned one", gaps: []string{Unreadable("Services of other namespaces", err)}}
	}
	for _, o := range list.Items {
		if o.Spec.Type == corev1.ServiceTypeLoadBalancer && len(o.Status.LoadBalancer.Ingress) > 0 && reflect.DeepEqual(o.Spec.LoadBalancerClass, s.Spec.LoadBalancerClass) {
			return finding{cause: fmt.Sprintf("no address: no load balancer%s has assigned one yet; Service %s/%s has one", class, o.Namespace, o.Name)}
		}
	}
	return finding{cause: fmt.Sprintf("no address: no load balancer%s has assigned one to any Service in the cluster", class)}
}

// maxClusterWide limits how many objects of a kind are read from all namespaces.
const maxClusterWide = 500

// ingressCause finds out why an Ingress has no address: from its class, its Services and their
// pods, its events, or other Ingresses of its class.
func (d *Diagnoser) ingressCause(ctx context.Context, b *reportBuilder) finding {
	in := &networkingv1.Ingress{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(b.live.Object, in); err != nil {
		return finding{}
	}
	if len(in.Status.LoadBalancer.Ingress) > 0 {
		return b.conditionCause()
	}
	for _, check := range []func(context.Context, *networkingv1.Ingress) finding{d.ingressClassCause, d.backendsCause} {
		if f := check(ctx, in); f.cause != "" {
			return f
		}
	}
	if e := b.newestWarning(); e != nil {
		return finding{cause: e.Reason + ": " + e.Message}
	}
	return d.ingressControllerCause(ctx, in)
}

// ingressControllerCause explains an Ingress that only lacks an address. Another Ingress of the same class that has one
// shows that their controller works.
func (d *Diagnoser) ingressControllerCause(ctx context.Context, in *networkingv1.Ingress) finding {
	const unserved = "no address: no ingress controller serves it"
	list, err := d.kube.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{Limit: maxClusterWide})
	if err != nil {
		return finding{cause: unserved, gaps: []string{Unreadable("Ingresses of other namespaces", err)}}
	}
	for _, o := range list.Items {
		if len(o.Status.LoadBalancer.Ingress) > 0 && className(&o) == className(in) {
			return finding{cause: fmt.Sprintf("%s yet; Ingress %s/%s of the same class has an address", unserved, o.Namespace, o.Name)}
		}
	}
	return finding{cause: unserved + " or any other Ingress of its class"}
}

// className returns the class of an Ingress, from its spec or its annotation.
func className(in *networkingv1.Ingress) string {
	if in.Spec.IngressClassName != nil {
		return *in.Spec.IngressClassName
	}
	return in.Annotations[classAnnotation]
}

// classAnnotation names the class of an Ingress; spec.ingressClassName replaces it.
const classAnnotation = "kubernetes.io/ingress.class"

// ingressClassCause checks that the IngressClass of an Ingress exists, or that there is a default one.
func (d *Diagnoser) ingressClassCause(ctx context.Context, in *networkingv1.Ingress) finding {
	name := in.Spec.IngressClassName
	if name == nil && in.Annotations[classAnnotation] != "" { // its class needs no IngressClass object
		return finding{}
	}
	list, err := d.kube.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding{}
	}
	var classes []string
	for _, c := range list.Items {
		if name != nil && c.Name == *name || name == nil && c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return finding{}
		}
		classes = append(classes, c.Name)
	}
	available := "the cluster has no IngressClass"
	if len(classes) > 0 {
		available = "available IngressClasses: " + strings.Join(classes, ", ")
	}
	cause := "it names no IngressClass, and there is no default"
	if name != nil {
		cause = "IngressClass " + *name + " does not exist"
	}
	return finding{cause: cause, evidence: []string{available}}
}

// maxBackends limits how many Services of an Ingress are checked.
const maxBackends = 5

// backendsCause checks up to maxBackends Services of an Ingress.
func (d *Diagnoser) backendsCause(ctx context.Context, in *networkingv1.Ingress) finding {
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
		if b.Service == nil || seen[b.Service.Name] || len(seen) == maxBackends {
			continue
		}
		seen[b.Service.Name] = true
		if f := d.backendCause(ctx, in.Namespace, b.Service); f.cause != "" {
			return f
		}
	}
	return finding{}
}

// backendCause checks that a Service exists, has the port, and has endpoints.
func (d *Diagnoser) backendCause(ctx context.Context, namespace string, b *networkingv1.IngressServiceBackend) finding {
	s, err := d.kube.CoreV1().Services(namespace).Get(ctx, b.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return finding{cause: fmt.Sprintf("its backend Service %s does not exist", b.Name)}
	case err != nil:
		return finding{}
	}
	if !hasPort(s, b.Port) {
		var ports []string
		for _, p := range s.Spec.Ports {
			ports = append(ports, text.Join(" ", fmt.Sprint(p.Port), p.Name))
		}
		return finding{cause: fmt.Sprintf("its backend Service %s has no port %s (available: %s)", b.Name, cmp.Or(b.Port.Name, fmt.Sprint(b.Port.Number)), cmp.Or(strings.Join(ports, ", "), "none"))}
	}
	r := d.Object(ctx, plan.Object{Kind: "Service", Namespace: namespace, Name: b.Name})
	if r.hasEndpoints || r.Symptom {
		return finding{}
	}
	return finding{cause: fmt.Sprintf("its backend Service %s: %s", b.Name, r.Cause), tally: r.Tally, evidence: r.Evidence}
}

func hasPort(s *corev1.Service, want networkingv1.ServiceBackendPort) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return want.Name != "" && p.Name == want.Name || want.Name == "" && p.Port == want.Number
	})
}
