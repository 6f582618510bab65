package inspector

import (
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestSecretsAreMasked: values of a Secret do not reach the screen, whatever the manifest looks like.
func TestSecretsAreMasked(t *testing.T) {
	secret := plan.Object{Kind: "Secret", Name: "db"}
	for name, manifest := range map[string]string{
		"block":        "kind: Secret\ndata:\n  password: HUNTER\nmetadata:\n  name: db\n",
		"flow":         "kind: Secret\ndata: {password: HUNTER}\nmetadata:\n  name: db\n",
		"string":       "kind: Secret\nstringData:\n  a: |\n    HUNTER\n\n    HUNTER\n  b: >-\n    HUNTER\nmetadata:\n  name: db\n",
		"quoted":       "kind: Secret\n\"data\":\n  \"password\": \"HUNTER\"\nmetadata:\n  name: db\n",
		"json":         `{"kind":"Secret","data":{"password":"HUNTER"},"metadata":{"name":"db"}}`,
		"list":         "kind: List\nitems:\n- kind: Secret\n  data:\n    password: HUNTER\n  metadata:\n    name: db\n",
		"annotation":   "kind: Secret\nmetadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n      {\"data\":{\"p\":\"HUNTER\"}}\n  name: db\n",
		"many":         "kind: Secret\ndata:\n  a: HUNTER\n  b.c: HUNTER\n  d_e-f: HUNTER\nmetadata:\n  name: db\n",
		"not indented": "kind: Secret\ndata:\n  a:\n  - HUNTER\ntype: Opaque\n",
	} {
		got := maskSecrets(secret, manifest)
		if strings.Contains(got, "HUNTER") {
			t.Errorf("%s shows the value:\n%s", name, got)
		}
		if name != "json" && !strings.Contains(got, "db") && name != "not indented" {
			t.Errorf("%s hides the name:\n%s", name, got)
		}
	}
	plain := "kind: ConfigMap\ndata:\n  a: shown\n"
	if got := maskSecrets(plan.Object{Kind: "ConfigMap"}, plain); got != plain {
		t.Errorf("a ConfigMap is masked: %s", got)
	}
}
