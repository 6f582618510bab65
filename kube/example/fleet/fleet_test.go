package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/kube/throwaway"
)

// TestFleet installs, upgrades and uninstalls a few releases with one set of watches. It
// needs a separate cluster, because other tests also open watches.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	start, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := throwaway.Start(start, throwaway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("KUBECONFIG", cluster.Kubeconfig)
	out, err := os.Create(filepath.Join(t.TempDir(), "figures"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	const many = 6
	o := options{
		deployment: deployment{releases: many, workers: 4, namespaces: 3, prefix: "fleet", timeout: 5 * time.Minute,
			values: map[string]any{"settings": 2, "workloads": 1, "ready": "100ms"}},
		steps: "install,upgrade,uninstall", json: true, out: out,
	}
	if err := run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	watched := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var f Figures
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		if f.Ready != many || f.Events == 0 || f.Writes == 0 {
			t.Errorf("%s: %d of %d done, %d events, %d writes", f.Step, f.Ready, many, f.Events, f.Writes)
		}
		steps = append(steps, f.Step)
		for what, n := range f.By {
			watched[what] += n
		}
	}
	if want := []string{"install", "upgrade", "uninstall"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	for _, resource := range []string{"configmaps", "deployments"} {
		if n := watched["WATCH "+resource]; n < 1 || n >= many {
			t.Errorf("%d watches of %s for %d releases", n, resource, many)
		}
	}
}

func TestResource(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/configmaps/config":           "configmaps",
		"/apis/apps/v1/namespaces/shop/deployments/web/scale": "deployments",
		"/api/v1/namespaces/shop":                             "namespaces",
		"/api/v1/nodes":                                       "nodes",
		"/version":                                            "/version",
		"/apis":                                               "/apis",
		"/apis/apps/v1":                                       "/apis/apps/v1",
	} {
		if got := resource(path); got != want {
			t.Errorf("%s is about %s, want %s", path, got, want)
		}
	}
}
