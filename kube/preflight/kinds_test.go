package preflight

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/session"
)

// TestSimilarKind: a misspelt kind and a wrong apiVersion have a suggestion, but an existing kind that the
// cluster is too old for has none (R29).
func TestSimilarKind(t *testing.T) {
	for apiVersionAndKind, want := range map[[2]string]string{
		{"apps/v1", "Deploymnt"}:              "; did you mean Deployment?",
		{"v1", "configmap"}:                   "; did you mean ConfigMap?",
		{"networking.k8s.io/v1", "Ingres"}:    "; did you mean Ingress?",
		{"v1", "Deployment"}:                  "; did you mean Deployment (apps/v1)?",
		{"apps/v2", "Deployment"}:             "; did you mean Deployment (apps/v1)?",
		{"batch/v1beta9", "CronJob"}:          "; did you mean CronJob (batch/v1)?",
		{"v1", "StatefulSett"}:                "; did you mean StatefulSet?",
		{"resource.k8s.io/v1", "DeviceClass"}: "",
		{"v1", "Kangaroo"}:                    "",
	} {
		gv, err := schema.ParseGroupVersion(apiVersionAndKind[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := similarKind(gv.WithKind(apiVersionAndKind[1])); got != want {
			t.Errorf("%s: got %q, want %q", apiVersionAndKind, got, want)
		}
	}
}

// TestPossibleDefiner: operators in earlier groups and in earlier releases may define a kind.
func TestPossibleDefiner(t *testing.T) {
	const (
		gear     = "{apiVersion: example.com/v1, kind: Gear, metadata: {name: g, annotations: {helm.sh/resource-group: b, helm.sh/depends-on/resource-groups: '[\"a\"]'}}}\n---\n"
		config   = "{apiVersion: v1, kind: ConfigMap, metadata: {name: operator, annotations: {helm.sh/resource-group: a}}}\n---\n"
		operator = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: operator, annotations: {helm.sh/resource-group: a}}, spec: {template: {spec: {containers: []}}}}\n---\n"
	)
	operators := &session.Provided{OperatorsMayAddKinds: true}
	for _, tt := range []struct {
		objects  string
		provided *session.Provided
		want     string
	}{
		{config + gear, nil, ""},
		{config + gear, session.NewProvided(), ""},
		{operator + gear, nil, "an earlier group"},
		{config + gear, operators, "an earlier release"},
		{operator + gear, operators, "an earlier group or release"},
	} {
		planned := parsePlanned(t, tt.objects)
		for _, o := range planned.objects {
			if got := planned.possibleDefiner(o.Object, tt.provided); o.Kind == "Gear" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		}
	}
}

// TestDefinable: only groups that are not part of Kubernetes can have CRDs.
func TestDefinable(t *testing.T) {
	for group, want := range map[string]bool{
		"": false, "apps": false, "networking.k8s.io": false, "example.com": true, "gateway.networking.k8s.io": true,
	} {
		if got := definable(group); got != want {
			t.Errorf("%q: got %v, want %v", group, got, want)
		}
	}
}

// TestUndefinable: the reason why no CRD can define a kind depends on its API version.
func TestUndefinable(t *testing.T) {
	for gv, want := range map[schema.GroupVersion]string{
		{Version: "v1"}:                 "v1 is built in, so no CRD can add it",
		{Group: "apps", Version: "v1"}:  "apps/v1 is built in, so no CRD can add it",
		{Group: "apps", Version: "v9"}:  `the API group "apps" is built in, so no CRD can add it`,
		{Version: "v9"}:                 "the core API is built in, so no CRD can add it",
		{Group: "plain", Version: "v1"}: `no CRD can add it, because the API group "plain" has no dot`,
	} {
		if got := undefinable(gv); got != want {
			t.Errorf("%s: got %q, want %q", gv, got, want)
		}
	}
}
