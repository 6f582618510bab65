package command

import (
	"os"
	"path/filepath"
	"testing"

	helmcli "helm.sh/helm/v4/pkg/cli"
)

// TestContextSettings: a connection to another context uses that context's namespace, as Helm's
// --kube-context does, and keeps the limits of the client.
func TestContextSettings(t *testing.T) { // S8
	const text = `{"apiVersion": "v1", "kind": "Config", "current-context": "one", "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
"contexts": [{"name": "one", "context": {"cluster": "c", "namespace": "first"}}, {"name": "two", "context": {"cluster": "c", "namespace": "second"}}]}`
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := helmcli.New()
	s.KubeConfig, s.BurstLimit, s.KubeToken = path, 7, "of the current context"
	got := ContextSettings(s, path, "two")
	if s.Namespace() != "first" || got.Namespace() != "second" || got.BurstLimit != 7 || got.KubeToken != "" {
		t.Errorf("namespaces %s and %s, %+v", s.Namespace(), got.Namespace(), got)
	}
}
