package refs

import (
	"cmp"
	"strings"

	"lockstep/engine/plan"
)

// fieldsByKind lists, by kind, the fields outside pod specs that name another object.
var fieldsByKind = map[plan.GroupKind][]refField{
	account:                              {{Pull, secret, "imagePullSecrets[].name"}, {Token, secret, "secrets[].name"}},
	{Group: "apps", Kind: "StatefulSet"}: {{Governing, service, "spec.serviceName"}},
	{Group: "networking.k8s.io", Kind: "Ingress"}: {
		{Class, ingressClass, "spec.ingressClassName"},
		{Backend, service, "spec.defaultBackend.service.name"}, {Backend, service, "spec.rules[].http.paths[].backend.service.name"},
		{Backend, service, "spec.backend.serviceName"}, {Backend, service, "spec.rules[].http.paths[].backend.serviceName"}, // before v1
		{TLS, secret, "spec.tls[].secretName"},
	},
}

// readers has functions for the references that fieldsByKind cannot describe.
var readers = map[plan.GroupKind]func(*finder, Field){
	claim:                                (*finder).claim,
	{Group: "apps", Kind: "StatefulSet"}: (*finder).claimTemplates,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           (*finder).autoscaler,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:         (*finder).binding,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:  (*finder).binding,
	{Group: admission, Kind: "ValidatingWebhookConfiguration"}:        (*finder).webhooks,
	{Group: admission, Kind: "MutatingWebhookConfiguration"}:          (*finder).webhooks,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             func(f *finder, o Field) { f.server(o.At("spec", "service")) },
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: func(f *finder, o Field) { f.server(o.At("spec", "conversion", "webhook", "clientConfig", "service")) },
}

const admission = "admissionregistration.k8s.io"

func (f *finder) claimTemplates(o Field) {
	for _, c := range o.At("spec", "volumeClaimTemplates").Each() {
		f.claim(c)
	}
}

func (f *finder) autoscaler(o Field) {
	target := o.At("spec", "scaleTargetRef")
	group, _, found := strings.Cut(target.At("apiVersion").Text(), "/")
	if !found {
		group = "" // "v1" has no group
	}
	f.addNamed(Target, plan.GroupKind{Group: group, Kind: target.At("kind").Text()}, target.At("name"))
}

func (f *finder) binding(o Field) {
	const rbac = "rbac.authorization.k8s.io"
	role := plan.Object{Group: rbac, Kind: o.At("roleRef", "kind").Text(), Name: o.At("roleRef", "name").Text()}
	if role.Kind == "Role" {
		role.Namespace = f.object.Namespace
	}
	f.add(Role, role, "roleRef.name")
	for _, s := range o.At("subjects").Each() {
		if s.At("kind").Text() != account.Kind {
			continue
		}
		to := plan.Object{Kind: account.Kind, Namespace: s.At("namespace").Text(), Name: s.At("name").Text()}
		to.Namespace = cmp.Or(to.Namespace, f.object.Namespace)
		f.add(Subject, to, s.At("name").Path)
	}
}

func (f *finder) webhooks(o Field) {
	for _, w := range o.At("webhooks").Each() {
		f.server(w.At("clientConfig", "service"))
	}
}

// server adds the Service that answers a webhook or serves an API.
func (f *finder) server(s Field) {
	f.add(Server, plan.Object{Kind: service.Kind, Namespace: s.At("namespace").Text(), Name: s.At("name").Text()}, s.At("name").Path)
}
