package stack

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/cli"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
)

// TestInCluster (S10): a run in the cluster accepts contexts of that cluster, whatever they are called, and no others.
func TestInCluster(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "here"
	for name, uid := range map[string]string{"here": "1", "again": "1", "far": "2", "unknown": ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if uid == "" {
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
				return
			}
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"` + uid + `"}}`))
		}))
		t.Cleanup(server.Close)
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, Namespace: "of-" + name}
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	connectTo := func(name string) (*connect.Client, error) {
		s := cli.New()
		s.KubeConfig, s.KubeContext = path, name
		return connect.New(s, slog.New(slog.DiscardHandler), nil)
	}
	for name, want := range map[string]string{"": "", "here": "", "again": "", "far": "f:2: release far/n/r has kubeContext far, which is another cluster", "unknown": "may not read"} {
		got, err := InCluster(t.Context(), &helmfile.File{Releases: []helmfile.Release{{Name: "q"}, {Name: "r", Namespace: "n", Context: name, At: "f:2"}}}, connectTo)
		switch {
		case want == "" && (err != nil || got.Releases[1].ID() != "n/r"):
			t.Errorf("context %q: %v, %v", name, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("context %q: %v, want %q", name, err, want)
		}
	}
	got, err := InCluster(t.Context(), &helmfile.File{Releases: []helmfile.Release{{Name: "r", FallbackContext: "again"}}}, connectTo)
	if err != nil || got.Releases[0].ID() != "of-again/r" {
		t.Errorf("the namespace of a context: %v, %v", got, err)
	}
	if _, err := InCluster(t.Context(), &helmfile.File{Releases: []helmfile.Release{{Name: "r"}}}, nil); err != nil {
		t.Errorf("a file without contexts: %v", err)
	}
}
