package infer

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestWebhookReasons: the reason says what a webhook does with the waiting object, not with its own configuration (R62).
func TestWebhookReasons(t *testing.T) {
	hook := serviceOf("hook") + pod("Deployment", "hook", "{}")
	topic := object("q/v1", "Topic", "t", "spec: {}")
	const client = "clientConfig: {service: {name: hook, namespace: ns}}"
	configuration := func(kind string) string {
		return object("admissionregistration.k8s.io/v1", kind, "w", "webhooks: [{"+client+", rules: [{operations: [CREATE], apiGroups: [q], resources: [topics]}]}]")
	}
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "topics.q", "spec: {group: q, names: {kind: Topic, plural: topics}, conversion: {webhook: {"+client+"}}}")
	for webhook, want := range map[string]string{
		configuration("ValidatingWebhookConfiguration"): "ValidatingWebhookConfiguration/w checks it with Service/hook",
		configuration("MutatingWebhookConfiguration"):   "MutatingWebhookConfiguration/w changes it with Service/hook",
		definition: "CustomResourceDefinition/topics.q converts it with Service/hook",
	} {
		var got []string
		for _, e := range From("shop", nil, objects(t, hook+webhook+topic)).Edges {
			if e.From.Kind == "Topic" && e.To.Kind == "Deployment" {
				got = append(got, e.String())
			}
		}
		if len(got) != 1 || got[0] != "Topic/t waits for Deployment/hook: "+want {
			t.Errorf("got %s; want %s", strings.Join(got, ", "), want)
		}
	}
}

// TestReasonTexts: a reason names the objects that it is about (R62, R63).
func TestReasonTexts(t *testing.T) {
	client := "{containers: [{env: [{name: DB_HOST, valueFrom: {secretKeyRef: {name: pg, key: host}}}]}]}"
	operator := pod("Deployment", "op", "{serviceAccountName: sa}") + object("v1", "ServiceAccount", "sa", "") +
		object(rbac+"/v1", "ClusterRole", "r", "rules: [{apiGroups: [q.x], resources: [topics/status], verbs: [update]}]") +
		object(rbac+"/v1", "ClusterRoleBinding", "b", "roleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: sa, namespace: ns}]")
	for want, manifests := range map[string]string{
		"Deployment/web waits for Job/migrate: both use the database that key host of Secret/pg names, which the Job prepares": pod("Deployment", "web", client) + pod("Job", "migrate", client),
		"Topic/t waits for Deployment/op: ClusterRole/r rules[0] lets Deployment/op write the status of objects in q.x":        operator + object("q.x/v1", "Topic", "t", "spec: {}"),
	} {
		var got []string
		for _, e := range From("shop", nil, objects(t, manifests)).Edges {
			got = append(got, e.String())
		}
		if !slices.Contains(got, want) {
			t.Errorf("got %s; want %s", strings.Join(got, "\n"), want)
		}
	}
}

// TestBlankLayerIsNoGroup: a blank layer does not hide the group of an object, as in plan.Build (R67).
func TestBlankLayerIsNoGroup(t *testing.T) {
	n := &node{Object: &Object{Resource: plan.Resource{Annotations: map[string]string{plan.AnnotationGroup: "a", plan.AnnotationLayer: " "}}}}
	if name, _, layer := declaredGroup(n); name != "a" || layer {
		t.Errorf("group %q, layer %v", name, layer)
	}
}
