package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestBadChartsWriteNothing prepares every chart of testdata/bad: there is an error, and no
// write in the audit log.
func TestBadChartsWriteNothing(t *testing.T) {
	t.Parallel()
	wants, err := filepath.Glob("../../../testdata/bad/*.want")
	if err != nil || len(wants) == 0 {
		t.Fatal("no bad charts", err)
	}
	for _, want := range wants {
		name := strings.TrimSuffix(filepath.Base(want), ".want")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			fields := strings.Split(strings.TrimSpace(string(line)), "\t")
			path := strings.TrimSuffix(want, ".want")
			if _, err := os.Stat(path); err != nil {
				path += ".tgz"
			}
			r := rig.New(t)
			chart, err := charts.LoadPath(path)
			if err == nil {
				_, err = r.Client.PrepareInstall(t.Context(), kube.Install{Rendering: kube.Rendering{Chart: chart}, Common: kube.Common{Release: "t", Namespace: r.Namespace}})
			}
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, part := range fields[1:] {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			if w := r.Writes(); len(w) > 0 {
				t.Errorf("written: %v", w)
			}
		})
	}
}

// TestBadInputWritesNothing has errors that are not in the chart.
func TestBadInputWritesNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		chart  string
		before func(*rig.Rig)
		change func(*kube.Install)
		want   []string
	}{
		{name: "readiness timeout above timeout", change: func(i *kube.Install) { i.Timeout, i.ReadinessTimeout = time.Minute, 2*time.Minute },
			want: []string{"--readiness-timeout", "R25"}},
		{name: "missing namespace", change: func(i *kube.Install) { i.Namespace = "not-there" }, want: []string{"not-there", "--create-namespace"}},
		{name: "release name in use", before: func(r *rig.Rig) { r.Deploy("plain", nil) }, want: []string{"in use", "revision 1"}},
		{name: "bad release name", change: func(i *kube.Install) { i.Release = "Not_A_Name" }, want: []string{"Not_A_Name"}},
		{name: "object of another release", before: func(r *rig.Rig) {
			r.Deploy("plain", func(i *kube.Install) { i.Release = "other" })
		}, want: []string{"settings", "owned by release other"}},
		{name: "unknown breakpoint", change: func(i *kube.Install) { i.BreakOn = []string{"plain:nope"} }, want: []string{"plain:nope", "plain:(unsequenced)"}},
		{name: "unknown wait strategy", change: func(i *kube.Install) { i.Wait = "sometimes" }, want: []string{"sometimes", "ordered", "R27"}},
		{name: "values against the schema", chart: "shop", change: func(i *kube.Install) {
			i.Values = rig.With(i.Values, map[string]any{"global": map[string]any{"speed": 0}})
		}, want: []string{"shop", "speed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			if tt.before != nil {
				tt.before(r)
			}
			before := len(r.Writes())
			if tt.chart == "" {
				tt.chart = "plain"
			}
			_, err := r.Install(tt.chart, tt.change)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			if w := r.Writes(); len(w) != before {
				t.Errorf("written: %v", w[before:])
			}
		})
	}
}

func TestUnreachableCluster(t *testing.T) {
	t.Parallel()
	s := cli.New()
	s.KubeConfig, s.KubeAPIServer = rig.Sandbox.Kubeconfig, "https://127.0.0.1:1"
	c, err := kube.Connect(s, nil, nil)
	if err == nil {
		_, err = c.PrepareInstall(t.Context(), kube.Install{Rendering: kube.Rendering{Chart: rig.LoadChart(t, "plain")}, Common: kube.Common{Release: "t", Namespace: "default"}})
	}
	if err == nil || !strings.Contains(err.Error(), "cannot reach the cluster") {
		t.Errorf("error %v", err)
	}
}
