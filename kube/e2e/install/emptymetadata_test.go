package install

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/e2e/rig"
)

// metadataOf returns the labels and annotations of the ConfigMaps in the namespace, by name.
func metadataOf(r *rig.Rig) map[string]map[string]string {
	r.T.Helper()
	list, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	out := map[string]map[string]string{}
	for _, m := range list.Items {
		if m.Name == "kube-root-ca.crt" {
			continue
		}
		marks := map[string]string{}
		maps.Copy(marks, m.Labels)
		for k, v := range m.Annotations {
			marks["annotation "+k] = strings.ReplaceAll(v, r.Namespace, "NS")
		}
		out[m.Name] = marks
	}
	return out
}

// TestEmptyMetadataMatchesHelm: a chart with empty labels and annotations and with
// nulls in them, in templates, a hook and crds/, is deployed as by Helm in every operation,
// and so is a release that Helm has installed (R2a).
func TestEmptyMetadataMatchesHelm(t *testing.T) {
	t.Parallel()
	const chart = "empty-metadata"
	path := filepath.Join(rig.ChartsDir, chart)

	helms := rig.NewNamed(t, "empty-metadata-helm")
	helms.MustHelm("install", "t", path)
	want := metadataOf(helms)

	ours := rig.NewNamed(t, "empty-metadata-lockstep")
	ours.Deploy(chart, nil)
	got := metadataOf(ours)
	for name, marks := range want {
		if !maps.Equal(marks, got[name]) {
			t.Errorf("%s has %v, with Helm %v", name, got[name], marks)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d objects, with Helm %d", len(got), len(want))
	}

	for _, r := range []*rig.Rig{ours, helms} { // a release installed by lockstep, and one by Helm
		r.MustRun(r.Upgrade(chart, nil))
		r.MustRun(r.Rollback(1))
		r.MustRun(r.Uninstall())
		if left := r.Labelled(); len(left) > 0 {
			t.Errorf("not removed: %v", left)
		}
	}
}
