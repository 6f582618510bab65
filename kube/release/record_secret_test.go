package release

import (
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/mask"
)

// TestSecretPaths (S14): the record of a revision knows which of its values were secret, whatever they are called.
func TestSecretPaths(t *testing.T) {
	rel := &rel1.Release{Name: "a", Namespace: "n", Info: &rel1.Info{}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}, Config: map[string]any{"db": map[string]any{"dsn": "pg://hunter2-x9"}}}
	r := NewRecord(true, &plan.Chart{Path: "c"})
	r.SecretPaths = mask.Paths{"/db/dsn"}
	if err := r.write(rel); err != nil {
		t.Fatal(err)
	}
	var m mask.Mask
	m.AddPaths("n", "a", nil, mask.Paths{"/other"})
	Hide(&m, rel)
	if got := m.Text("it is pg://hunter2-x9"); strings.Contains(got, "hunter2") {
		t.Errorf("%q", got)
	}
	if got := m.PathsOf("n", "a"); len(got) != 2 {
		t.Errorf("the mask knows %v", got)
	}
}
