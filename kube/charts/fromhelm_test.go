package charts

import (
	"path/filepath"
	"reflect"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// TestFromHelm builds the same tree from a Helm chart, before and after an action has changed
// it, as from the chart's files.
func TestFromHelm(t *testing.T) {
	for _, name := range []string{"shop", "three-levels", "alias-twice", "packed-subchart", "disabled-dep", "hip9999-layers"} {
		path := filepath.Join("../../testdata/charts", name)
		c, err := LoadPath(path)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{"extra": map[string]any{"enabled": true}}
		want, _, err := c.Tree(values)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := c.Helm()
		if err != nil {
			t.Fatal(err)
		}
		same := func(by string, h *chart.Chart) {
			t.Helper()
			back, err := FromHelm(h)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, by, err)
			}
			if got, _, err := back.Tree(values); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: tree %+v, %v, want %+v", name, by, got, err, want)
			}
		}
		same("our loader", ours)
		if err := chartutil.ProcessDependencies(ours, values); err != nil {
			t.Fatal(err)
		}
		same("our loader, processed", ours)
		if helms, err := loader.Load(path); err == nil { // Helm refuses lists in annotations of Chart.yaml
			same("Helm's loader", helms)
		}
	}
	if _, err := FromHelm(&chart.Chart{Metadata: &chart.Metadata{Name: "a"}}); err == nil {
		t.Error("a chart without files gave no error")
	}
}
