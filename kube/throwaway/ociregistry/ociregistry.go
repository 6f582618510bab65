// Package ociregistry serves images and packaged charts from the registry of go-containerregistry in this process, for tests.
package ociregistry

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	helmregistry "helm.sh/helm/v4/pkg/registry"
)

// Registry is a registry. Set its fields once it has what it serves.
type Registry struct {
	Host string // 127.0.0.1:PORT
	// User is the only one that may read, as user:password; "" for everybody.
	User string
	// Hangs makes the registry never answer.
	Hangs bool
	// Gone makes it forget all that it has. It may be nil.
	Gone *atomic.Bool
	// OnRequest is called with the path of each authorized request. It may be nil.
	OnRequest func(path string)

	handler http.Handler
}

func serve(t *testing.T) *Registry {
	r := &Registry{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.Hangs {
		<-req.Context().Done()
		return
	}
	if user, password, _ := req.BasicAuth(); r.User != "" && user+":"+password != r.User {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.OnRequest != nil {
		r.OnRequest(req.URL.Path)
	}
	if r.Gone != nil && r.Gone.Load() {
		http.NotFound(w, req)
		return
	}
	r.handler.ServeHTTP(w, req)
}

// DockerConfig returns the content of an image pull Secret for the registry.
func (r *Registry) DockerConfig() string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, base64.StdEncoding.EncodeToString([]byte(r.User)))
}

// Serve serves a packaged chart over HTTP until the test ends, and returns its oci:// reference.
func Serve(t *testing.T, chart, version, archive string) (r *Registry, ref string) {
	t.Helper()
	r = serve(t)
	ref = r.Host + "/charts/" + chart
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard))
	if err == nil {
		_, err = client.Push(data, ref+":"+version)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, "oci://" + ref
}

// ServeImages serves images, which have no layers, over HTTP until the test ends. An image has a name and a tag, and the platforms
// of its index (OS/ARCH); an image without platforms has no index. The registry lacks the manifest of a platform with a leading !.
func ServeImages(t *testing.T, images map[string][]string) *Registry {
	t.Helper()
	r := serve(t)
	for image, platforms := range images {
		if err := r.push(image, platforms); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Digest returns the digest of an image.
func (r *Registry) Digest(t *testing.T, image string) string {
	t.Helper()
	ref, err := name.ParseReference(r.Host + "/" + image)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Head(ref)
	if err != nil {
		t.Fatal(err)
	}
	return found.Digest.String()
}

func (r *Registry) push(image string, platforms []string) error {
	ref, err := name.ParseReference(r.Host + "/" + image)
	if err != nil {
		return err
	}
	if len(platforms) == 0 {
		return remote.Write(ref, empty.Image)
	}
	var index v1.ImageIndex = empty.Index
	var lacking []v1.Hash
	for _, p := range platforms {
		p, lacks := strings.CutPrefix(p, "!")
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return err
		}
		child, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Author: image + p}) // each has its own digest
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: child, Descriptor: v1.Descriptor{Platform: platform}})
		digest, err := child.Digest()
		if err != nil {
			return err
		}
		if lacks {
			lacking = append(lacking, digest)
		}
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		return err
	}
	for _, digest := range lacking {
		if err := remote.Delete(ref.Context().Digest(digest.String())); err != nil {
			return err
		}
	}
	return nil
}
