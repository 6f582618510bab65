package charts

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"
)

// packedByHelm packages a chart of testdata as Helm does, and returns the
// archive's path.
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

func TestLoadFromARegistry(t *testing.T) {
	server := httptest.NewServer(registryOf(t, packedByHelm(t), "0.1.0"))
	defer server.Close()
	host, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	settings := remoteSettings(t)
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptCredentialsFile(settings.RegistryConfig))
	if err != nil {
		t.Fatal(err)
	}
	ref := Ref{Chart: "oci://" + host.Host + "/charts/stored-keys", ChartPathOptions: action.ChartPathOptions{Version: "0.1.0", PlainHTTP: true}}
	c, err := Load(ref, settings, client)
	if err != nil || c.Name() != "stored-keys" {
		t.Fatalf("OCI: %v, %v", c, err)
	}
}

// registryOf returns a minimal OCI registry with one chart, enough for a pull.
func registryOf(t *testing.T, archive, version string) http.Handler {
	t.Helper()
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	put := func(mediaType string, b []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(b))
		blobs[digest] = b
		return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(b)}
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.oci.image.manifest.v1+json",
		"config":        put(registry.ConfigMediaType, []byte(`{"name":"stored-keys","version":"`+version+`","apiVersion":"v2"}`)),
		"layers":        []any{put(registry.ChartLayerMediaType, data)},
	})
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(manifest))
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v2/charts/stored-keys/tags/list", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"charts/stored-keys","tags":[%q]}`, version)
	})
	mux.HandleFunc("/v2/charts/stored-keys/manifests/{ref}", func(w http.ResponseWriter, r *http.Request) {
		if ref := r.PathValue("ref"); ref != version && ref != digest {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", digest)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(manifest))
	})
	mux.HandleFunc("/v2/charts/stored-keys/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		b, ok := blobs[r.PathValue("digest")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
	return mux
}
