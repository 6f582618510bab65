package preflight

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"lockstep/kube/connect"
)

// TestWebhooks warns about webhooks without endpoints. A webhook that is both mutating and validating counts each object once,
// and a missing namespace has only the labels that the chart gives it.
func TestWebhooks(t *testing.T) {
	const hook = `webhooks: [{name: check.example.com, clientConfig: {service: {namespace: ns, name: check}}, failurePolicy: Fail,
		namespaceSelector: {matchExpressions: [{key: name, operator: DoesNotExist}]},
		rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}]`
	mutating := fromYAML[admissionv1.MutatingWebhookConfiguration](t, "{metadata: {name: m}, "+hook+"}")
	validating := fromYAML[admissionv1.ValidatingWebhookConfiguration](t, "{metadata: {name: v}, "+hook+"}")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	view := &clusterView{mapper: mapper, Session: &Session{
		Context: t.Context(), Client: &connect.Client{Clientset: fake.NewClientset(&mutating, &validating)},
	}}
	const created = "{apiVersion: v1, kind: Namespace, metadata: {name: ns}}\n---\n"
	planned := parsePlanned(t, created+"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
	checkWarnings(t, view.checkWebhooks(planned, map[string]*corev1.Namespace{"ns": nil}),
		"webhook check.example.com must admit ConfigMap/a and 1 more, but Service/check in namespace ns has no endpoints")
}
