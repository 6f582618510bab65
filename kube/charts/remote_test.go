package charts

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/kube/throwaway/ociregistry"
)

// packedByHelm packages a chart of testdata as Helm does, and returns the archive's path.
func packedByHelm(t *testing.T) string {
	t.Helper()
	c, err := LoadPath("../../testdata/charts/stored-keys")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	path, err := chartutil.Save(h, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func remoteSettings(t *testing.T) *cli.EnvSettings {
	t.Helper()
	dir := t.TempDir()
	s := cli.New()
	s.RepositoryCache, s.ContentCache = filepath.Join(dir, "cache"), filepath.Join(dir, "content")
	s.RepositoryConfig, s.RegistryConfig = filepath.Join(dir, "repositories.yaml"), filepath.Join(dir, "registry.json")
	return s
}

func TestLoadFromARepository(t *testing.T) {
	url := repository(t)
	c, err := Load(Ref{Chart: "stored-keys", ChartPathOptions: action.ChartPathOptions{RepoURL: url, Version: "0.1.0"}}, remoteSettings(t), nil)
	if err != nil || c.Name() != "stored-keys" {
		t.Fatalf("--repo: %v, %v", c, err)
	}
	c, err = Load(Ref{Chart: url + "/stored-keys-0.1.0.tgz"}, remoteSettings(t), nil)
	if err != nil || c.Name() != "stored-keys" {
		t.Fatalf("URL: %v, %v", c, err)
	}
	if _, err := Load(Ref{Chart: "not-there", ChartPathOptions: action.ChartPathOptions{RepoURL: url}}, remoteSettings(t), nil); err == nil || !strings.Contains(err.Error(), "not-there") {
		t.Errorf("a missing chart: %v", err)
	}
}

func serveFile(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }
}

// TestLoadFromARegistry loads a chart by its version, and by the digest that Pin returns.
func TestLoadFromARegistry(t *testing.T) {
	_, chart := ociregistry.Serve(t, "stored-keys", "0.1.0", packedByHelm(t))
	settings := remoteSettings(t)
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptCredentialsFile(settings.RegistryConfig))
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := Pin(chart+":0.1.0", "0.1.0", client)
	if err != nil || !strings.HasPrefix(pinned, chart+"@sha256:") {
		t.Fatalf("pinned: %s, %v", pinned, err)
	}
	if again, err := Pin(pinned, "0.1.0", client); again != pinned || err != nil {
		t.Errorf("pinned again: %s, %v", again, err)
	}
	for ref, version := range map[string]string{chart: "0.1.0", pinned: ""} {
		c, err := Load(Ref{Chart: ref, ChartPathOptions: action.ChartPathOptions{Version: version, PlainHTTP: true}}, settings, client)
		if err != nil || c.Name() != "stored-keys" {
			t.Errorf("%s: %v, %v", ref, c, err)
		}
	}
}

// TestRegistryCredential finds a stored credential, and writes it into a config file from
// which it is found again.
func TestRegistryCredential(t *testing.T) {
	settings := remoteSettings(t)
	const ref = "oci://example.test:5000/charts/a"
	if c, err := FindRegistryCredential(t.Context(), ref, settings); err != nil || c != (RegistryCredential{}) {
		t.Errorf("without a file: %v, %v", c, err)
	}
	for _, want := range []RegistryCredential{{Username: "ann", Password: "pass"}, {RefreshToken: "token"}} {
		text, err := RegistryConfig(map[string]RegistryCredential{ref: want})
		if err == nil {
			err = os.WriteFile(settings.RegistryConfig, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, err := FindRegistryCredential(t.Context(), ref, settings); err != nil || c != want {
			t.Errorf("found %v, %v, want %v", c, err, want)
		}
	}
}
