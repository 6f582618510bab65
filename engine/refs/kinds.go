package refs

import (
	"strings"

	"lockstep/engine/plan"
)

// byKind reads what kinds name beside what their pods do.
var byKind = map[plan.GroupKind]func(*finder, field){
	account:                              (*finder).serviceAccount,
	claim:                                (*finder).claim,
	{Group: "apps", Kind: "StatefulSet"}: (*finder).statefulSet,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     (*finder).ingress,
	{Group: "extensions", Kind: "Ingress"}:                            (*finder).ingress,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           (*finder).autoscaler,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:         (*finder).binding,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:  (*finder).binding,
	{Group: admission, Kind: "ValidatingWebhookConfiguration"}:        (*finder).webhooks,
	{Group: admission, Kind: "MutatingWebhookConfiguration"}:          (*finder).webhooks,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             func(f *finder, o field) { f.server(o.at("spec", "service")) },
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: func(f *finder, o field) { f.server(o.at("spec", "conversion", "webhook", "clientConfig", "service")) },
}

const admission = "admissionregistration.k8s.io"

func (f *finder) serviceAccount(o field) {
	for _, s := range o.at("imagePullSecrets").each() {
		f.name(Pull, secret, s.at("name"))
	}
	for _, s := range o.at("secrets").each() {
		f.name(Token, secret, s.at("name"))
	}
}

func (f *finder) statefulSet(o field) {
	f.name(Governing, service, o.at("spec", "serviceName"))
	for _, c := range o.at("spec", "volumeClaimTemplates").each() {
		f.claim(c)
	}
}

func (f *finder) ingress(o field) {
	spec := o.at("spec")
	f.name(Class, ingressClass, spec.at("ingressClassName"))
	for _, b := range []string{"defaultBackend", "backend"} {
		f.backend(spec.at(b))
	}
	for _, r := range spec.at("rules").each() {
		for _, p := range r.at("http", "paths").each() {
			f.backend(p.at("backend"))
		}
	}
	for _, t := range spec.at("tls").each() {
		f.name(TLS, secret, t.at("secretName"))
	}
}

// backend is a Service, which the versions before v1 named in another field.
func (f *finder) backend(b field) {
	f.name(Backend, service, b.at("service", "name"))
	f.name(Backend, service, b.at("serviceName"))
}

func (f *finder) autoscaler(o field) {
	target := o.at("spec", "scaleTargetRef")
	group, _, found := strings.Cut(target.at("apiVersion").text(), "/")
	if !found {
		group = "" // v1
	}
	f.name(Target, plan.GroupKind{Group: group, Kind: target.at("kind").text()}, target.at("name"))
}

func (f *finder) binding(o field) {
	const rbac = "rbac.authorization.k8s.io"
	role := plan.Object{Group: rbac, Kind: o.at("roleRef", "kind").text(), Name: o.at("roleRef", "name").text()}
	if role.Kind == "Role" {
		role.Namespace = f.in.Namespace
	}
	f.add(Role, role, "roleRef.name")
	for _, s := range o.at("subjects").each() {
		if s.at("kind").text() != account.Kind {
			continue
		}
		to := plan.Object{Kind: account.Kind, Namespace: s.at("namespace").text(), Name: s.at("name").text()}
		if to.Namespace == "" {
			to.Namespace = f.in.Namespace
		}
		f.add(Subject, to, s.at("name").path)
	}
}

func (f *finder) webhooks(o field) {
	for _, w := range o.at("webhooks").each() {
		f.server(w.at("clientConfig", "service"))
	}
}

// server is a Service that names its namespace.
func (f *finder) server(s field) {
	f.add(Server, plan.Object{Kind: service.Kind, Namespace: s.at("namespace").text(), Name: s.at("name").text()}, s.at("name").path)
}
