package preflight

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"lockstep/kube/connect"
	"lockstep/kube/session"
)

// TestWebhooks warns about webhooks whose Service is missing or has no ready endpoints. A webhook that is both mutating and validating counts each object once,
// and a missing namespace has only the labels that the chart gives it.
func TestWebhooks(t *testing.T) {
	const hook = `webhooks: [{name: check.example.com, clientConfig: {service: {namespace: ns, name: check}}, failurePolicy: Fail,
		namespaceSelector: {matchExpressions: [{key: name, operator: DoesNotExist}]},
		rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}]`
	mutating := fromYAML[admissionv1.MutatingWebhookConfiguration](t, "{metadata: {name: m}, "+hook+"}")
	validating := fromYAML[admissionv1.ValidatingWebhookConfiguration](t, "{metadata: {name: v}, "+hook+"}")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	const (
		created = "{apiVersion: v1, kind: Namespace, metadata: {name: ns}}\n---\n"
		first   = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
		both    = first + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"
		service = "Service/check in namespace ns"
	)
	plain := fromYAML[corev1.Service](t, "{metadata: {namespace: ns, name: check}}")
	external := fromYAML[corev1.Service](t, "{metadata: {namespace: ns, name: check}, spec: {type: ExternalName}}")
	ready := fromYAML[discoveryv1.EndpointSlice](t, "{metadata: {namespace: ns, name: e, labels: {kubernetes.io/service-name: check}}, endpoints: [{addresses: [10.0.0.1]}]}")
	unready := fromYAML[discoveryv1.EndpointSlice](t, "{metadata: {namespace: ns, name: e, labels: {kubernetes.io/service-name: check}}, endpoints: [{addresses: [10.0.0.1], conditions: {ready: false}}]}")
	for _, c := range []struct {
		manifest string
		existing []runtime.Object
		want     []string
	}{
		{first, nil, []string{"webhook check.example.com must admit ConfigMap/a, but " + service + " does not exist, so the API server will refuse it; create the Service, or delete the webhook"}},
		{both, nil, []string{"ConfigMap/a and 1 more, but " + service + " does not exist, so the API server will refuse them; create"}},
		{first, []runtime.Object{&plain, &unready}, []string{service + " has no ready endpoints, so the API server will refuse it; make its pods ready, or delete the webhook"}},
		{first, []runtime.Object{&plain, &ready}, nil},
		{first, []runtime.Object{&external}, nil},
	} {
		view := &clusterView{mapper: mapper, Session: &session.Session{
			Context: t.Context(), Client: &connect.Client{Clientset: fake.NewClientset(append(c.existing, &mutating, &validating)...)},
		}}
		checkWarnings(t, view.checkWebhooks(parsePlanned(t, created+c.manifest), map[string]*corev1.Namespace{"ns": nil}), c.want...)
	}
}
