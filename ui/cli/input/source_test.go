package input

import (
	"path/filepath"
	"testing"
)

// TestSource: a chart's source finds it again, from every folder and without credentials.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(filepath.Dir(dir))
	repository := &ChartFlags{}
	repository.RepoURL = "https://charts.example"
	for _, test := range []struct {
		flags       *ChartFlags
		chart, want string
	}{
		{&ChartFlags{}, filepath.Base(dir), dir},
		{&ChartFlags{}, dir, dir},
		{&ChartFlags{}, "bitnami/nginx", "bitnami/nginx"},
		{&ChartFlags{}, "oci://registry.example/nginx", "oci://registry.example/nginx"},
		{&ChartFlags{}, "https://charts.example/nginx-1.0.0.tgz", "https://charts.example/nginx-1.0.0.tgz"},
		{&ChartFlags{}, "https://me:secret@charts.example/nginx-1.0.0.tgz", ""},
		{&ChartFlags{}, "https://charts.example/nginx-1.0.0.tgz?token=secret", ""},
		{repository, "nginx", ""},
	} {
		if got := test.flags.source(test.chart); got != test.want {
			t.Errorf("%s: %q, want %q", test.chart, got, test.want)
		}
	}
}
