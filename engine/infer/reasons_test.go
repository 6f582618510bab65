package infer

import (
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

// TestBlankLayerIsNoGroup: a blank layer does not hide the group of an object, as in plan.Build (R67).
func TestBlankLayerIsNoGroup(t *testing.T) {
	n := &node{Object: &Object{Resource: plan.Resource{Annotations: map[string]string{plan.AnnotationGroup: "a", plan.AnnotationLayer: " "}}}}
	if name, _, layer := declaredGroup(n); name != "a" || layer {
		t.Errorf("group %q, layer %v", name, layer)
	}
}
