// Package ociregistry serves a packaged chart like an OCI registry, for tests. It supports only pulls.
package ociregistry

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/registry"
)

// Chart is a packaged chart to serve as charts/NAME.
type Chart struct {
	Name, Version, Archive string
	// User and Password are needed to pull the chart, unless they are "".
	User, Password string
	// Gone makes the registry forget the chart. It may be nil.
	Gone *atomic.Bool
	// OnRequest is called with the path of each authorized request. It may be nil.
	OnRequest func(path string)
}

// Serve serves a chart over HTTP until the test ends, and returns its oci:// reference.
func Serve(t *testing.T, c Chart) string {
	t.Helper()
	data, err := os.ReadFile(c.Archive)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	put := func(mediaType string, b []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(b))
		blobs[digest] = b
		return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(b)}
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": put(registry.ConfigMediaType, fmt.Appendf(nil, `{"name":%q,"version":%q,"apiVersion":"v2"}`, c.Name, c.Version)),
		"layers": []any{put(registry.ChartLayerMediaType, data)},
	})
	if err != nil {
		t.Fatal(err)
	}
	digest := put(manifestType, manifest)["digest"].(string)
	path := "/v2/charts/" + c.Name
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(path+"/tags/list", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"charts/%s","tags":[%q]}`, c.Name, c.Version)
	})
	mux.HandleFunc(path+"/manifests/{ref}", func(w http.ResponseWriter, r *http.Request) {
		if ref := r.PathValue("ref"); ref != c.Version && ref != digest {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", digest)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(manifest))
	})
	mux.HandleFunc(path+"/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		b, ok := blobs[r.PathValue("digest")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != c.User || password != c.Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if c.OnRequest != nil {
			c.OnRequest(r.URL.Path)
		}
		if c.Gone != nil && c.Gone.Load() {
			http.NotFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return "oci://" + strings.TrimPrefix(server.URL, "http://") + "/charts/" + c.Name
}
