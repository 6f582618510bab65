package ociregistry

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Images is a registry with container images, which have no layers, for tests.
type Images struct {
	Host      string // 127.0.0.1:PORT
	manifests map[string]manifest
	// User is the only one that may read, as user:password; "" for everybody.
	User string
	// Hangs makes the registry never answer.
	Hangs bool
}

type manifest struct {
	mediaType string
	data      []byte
}

const (
	imageType = "application/vnd.oci.image.manifest.v1+json"
	indexType = "application/vnd.oci.image.index.v1+json"
)

// ServeImages serves images until the test ends. An image has a name and a tag, and the platforms of its index (OS/ARCH); an
// image without platforms has no index. The registry lacks the manifest of a platform with a leading !.
func ServeImages(t *testing.T, images map[string][]string) *Images {
	t.Helper()
	r := &Images{manifests: map[string]manifest{}}
	for image, platforms := range images {
		name, tag, _ := strings.Cut(image, ":")
		if len(platforms) == 0 {
			r.manifests[name+"/"+tag] = manifest{imageType, []byte(`{"schemaVersion":2}`)}
			continue
		}
		var children []map[string]any
		for n, p := range platforms {
			p, lacks := strings.CutPrefix(p, "!")
			os, arch, _ := strings.Cut(p, "/")
			data := fmt.Appendf(nil, `{"schemaVersion":2,"annotations":{"n":"%s%d"}}`, image, n)
			digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
			children = append(children, map[string]any{"mediaType": imageType, "digest": digest, "size": len(data), "platform": map[string]string{"os": os, "architecture": arch}})
			if !lacks {
				r.manifests[name+"/"+digest] = manifest{imageType, data}
			}
		}
		index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": children})
		if err != nil {
			t.Fatal(err)
		}
		r.manifests[name+"/"+tag] = manifest{indexType, index}
		r.manifests[name+"/"+fmt.Sprintf("sha256:%x", sha256.Sum256(index))] = manifest{indexType, index}
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// DockerConfig returns the content of an image pull Secret for the registry.
func (r *Images) DockerConfig() string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, base64.StdEncoding.EncodeToString([]byte(r.User)))
}

func (r *Images) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.Hangs {
		<-req.Context().Done()
		return
	}
	if user, password, _ := req.BasicAuth(); r.User != "" && user+":"+password != r.User {
		w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	name, ref, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/manifests/")
	m, ok := r.manifests[name+"/"+ref]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", m.mediaType)
	w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(m.data)))
	http.ServeContent(w, req, "", time.Time{}, strings.NewReader(string(m.data)))
}
