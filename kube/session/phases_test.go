package session

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestDefaultNamespace: --create-namespace creates namespaces whose names are other values in YAML, as in Helm.
func TestDefaultNamespace(t *testing.T) {
	for _, name := range []string{"plain", "no", "on", "y", "true", "null", "123", "1e3", "0x1f"} {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(DefaultNamespace(name)), &u.Object); err != nil || u.GetName() != name || u.GetLabels()["name"] != name {
			t.Errorf("%s: %v, %v", name, u.Object, err)
		}
	}
}
