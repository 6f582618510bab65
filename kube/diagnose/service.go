package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/plan"
)

// service says why a Service has no address or no endpoints.
func (d *Diagnoser) service(ctx context.Context, q *inquiry) lead {
	selector, _, _ := unstructured.NestedStringMap(q.live.Object, "spec", "selector")
	ready := 0
	for _, p := range q.Pods {
		if p.trouble == fine && p.Phase == "running" {
			ready++
		}
	}
	kind, _, _ := unstructured.NestedString(q.live.Object, "spec", "type")
	q.serves = ready > 0 || len(selector) == 0
	addresses, _, _ := unstructured.NestedSlice(q.live.Object, "status", "loadBalancer", "ingress")
	switch {
	case kind == "LoadBalancer" && len(addresses) == 0:
		if e := q.last(); e != nil {
			return lead{cause: "no address: " + e.Reason + ": " + e.Message}
		}
		return lead{cause: "no address: nothing in the cluster has given it one; does it have load balancers?"}
	case len(selector) == 0:
		return lead{cause: cmp.Or(q.verdict().Message, "it selects no pods by itself"), symptom: true}
	case len(q.failed) > 0 && len(q.Pods) == 0:
		return lead{cause: "nothing is known of its pods", symptom: true}
	case len(q.Pods) == 0:
		return d.mismatch(ctx, q.live.GetNamespace(), selector)
	case ready == 0:
		return lead{cause: fmt.Sprintf("none of its %d pods is ready; %s", len(q.Pods), q.pod(q.Pods[0]))}
	}
	return lead{cause: cmp.Or(q.verdict().Message, fmt.Sprintf("%d of its %d pods are ready", ready, len(q.Pods))), symptom: true}
}

// looked is how many pods of a namespace are compared with a selector.
const looked = 100

// mismatch says of a selector that no pod has what those of the namespace have
// instead.
func (d *Diagnoser) mismatch(ctx context.Context, namespace string, selector map[string]string) lead {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(selector)) {
		keys = append(keys, k+"="+selector[k])
	}
	l := lead{cause: "no pod has its labels: " + strings.Join(keys, ",")}
	list, err := d.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: looked})
	if err != nil {
		l.evidence = []string{gapText("pods", err)}
		return l
	}
	near := map[string]bool{}
	for _, p := range list.Items {
		var has []string
		for _, k := range slices.Sorted(maps.Keys(selector)) {
			if v, ok := p.Labels[k]; ok {
				has = append(has, k+"="+v)
			}
		}
		if len(has) > 0 {
			near[strings.Join(has, ",")] = true
		}
	}
	if len(near) > 0 {
		others := slices.Sorted(maps.Keys(near))
		l.evidence = []string{"pods of the namespace have " + strings.Join(others[:min(len(others), maxPods)], " · ")}
	}
	return l
}

// ingress says why an Ingress leads nowhere: its class, a Service that it names,
// the pods behind that, or that no controller has taken it up.
func (d *Diagnoser) ingress(ctx context.Context, q *inquiry) lead {
	in := &networkingv1.Ingress{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(q.live.Object, in); err != nil {
		return lead{}
	}
	for _, look := range []func(context.Context, *networkingv1.Ingress) lead{d.ingressClass, d.backends} {
		if l := look(ctx, in); l.cause != "" {
			return l
		}
	}
	if e := q.last(); e != nil {
		return lead{cause: e.Reason + ": " + e.Message}
	}
	if len(in.Status.LoadBalancer.Ingress) == 0 {
		return lead{cause: "no address: no ingress controller has taken it up; does one run for its class?"}
	}
	return q.custom()
}

func (d *Diagnoser) ingressClass(ctx context.Context, in *networkingv1.Ingress) lead {
	name := in.Spec.IngressClassName
	if name == nil && in.Annotations["kubernetes.io/ingress.class"] != "" { // the older way, which needs no object
		return lead{}
	}
	list, err := d.kube.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return lead{}
	}
	var there []string
	for _, c := range list.Items {
		if name != nil && c.Name == *name || name == nil && c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return lead{}
		}
		there = append(there, c.Name)
	}
	l := lead{evidence: []string{"there is no IngressClass"}}
	if len(there) > 0 {
		l.evidence[0] = "there are the IngressClasses " + strings.Join(there, ", ")
	}
	if l.cause = "it names no IngressClass, and none is the default"; name != nil {
		l.cause = "there is no IngressClass " + *name
	}
	return l
}

// backends looks at the Services that an Ingress names.
func (d *Diagnoser) backends(ctx context.Context, in *networkingv1.Ingress) lead {
	var all []*networkingv1.IngressServiceBackend
	if b := in.Spec.DefaultBackend; b != nil && b.Service != nil {
		all = append(all, b.Service)
	}
	for _, r := range in.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for _, p := range r.HTTP.Paths {
			if p.Backend.Service != nil {
				all = append(all, p.Backend.Service)
			}
		}
	}
	seen := map[string]bool{}
	for _, b := range all {
		if seen[b.Name] || len(seen) == maxPods {
			continue
		}
		seen[b.Name] = true
		if l := d.backend(ctx, in.Namespace, b); l.cause != "" {
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
		return lead{cause: fmt.Sprintf("its backend Service %s has no port %s, but %s", b.Name, cmp.Or(b.Port.Name, fmt.Sprint(b.Port.Number)), strings.Join(ports, ", "))}
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
