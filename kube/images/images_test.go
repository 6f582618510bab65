package images

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"lockstep/kube/throwaway/ociregistry"
)

// TestCheck (S19): each image that cannot be pulled is found, with the reason, whatever the registry does.
func TestCheck(t *testing.T) {
	open := ociregistry.ServeImages(t, map[string][]string{
		"a/single:1": nil, "a/both:1": {"linux/amd64", "linux/arm64"}, "a/one:1": {"linux/amd64"}, "a/hollow:1": {"linux/amd64", "!linux/arm64"},
	})
	closed := ociregistry.ServeImages(t, map[string][]string{"a/single:1": nil})
	closed.User = "user:password"
	hanging := ociregistry.ServeImages(t, nil)
	hanging.Hangs = true
	single := open.Digest(t, "a/single:1")
	encrypted := httptest.NewTLSServer(nil) // nobody trusts its certificate
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(encrypted.Close)
	both := []string{"linux/amd64", "linux/arm64"}
	want := map[string]string{
		open.Host + "/a/single:1": "", open.Host + "/a/both:1": "", open.Host + "/a/one:1": "has no linux/arm64, which nodes of the cluster need (it has linux/amd64)",
		open.Host + "/a/hollow:1": "names linux/arm64, which nodes of the cluster need, but its registry does not have that manifest (sha256:",
		open.Host + "/a/single:2": "does not exist in registry " + open.Host, open.Host + "/none": "does not exist in registry",
		closed.Host + "/a/single:1": "is denied by registry " + closed.Host, closed.Host + "/a/single:2": "is denied",
		open.Host + "/a/single:1@" + single: "", open.Host + "/a/single@sha256:" + strings.Repeat("0", 64): "does not exist",
		strings.TrimPrefix(encrypted.URL, "https://") + "/a/b:1": "is unknown: registry 127.0.0.1:", "": "is not a valid name", "A/b:1": "is not a valid name",
		hanging.Host + "/a/single:1": "is unknown: registry " + hanging.Host + " did not answer within 5s", "127.0.0.1:1/a/b:1": "is unknown: registry 127.0.0.1:1 cannot be reached", "A b": "is not a valid name",
	}
	needed := map[string][]string{}
	for image := range want {
		needed[image] = both
	}
	check := func(r Registries) {
		t.Helper()
		found := r.Check(t.Context(), needed)
		for image, why := range want {
			if got := found[image]; !strings.Contains(got, why) || (why == "") != (got == "") {
				t.Errorf("%s: %q, want %q", image, got, why)
			}
		}
	}
	check(Registries{})
	want = map[string]string{closed.Host + "/a/single:1": "", closed.Host + "/a/single:2": "does not exist in registry", open.Host + "/a/one:1": ""}
	needed = map[string][]string{closed.Host + "/a/single:1": nil, closed.Host + "/a/single:2": nil, open.Host + "/a/one:1": {"linux/amd64"}}
	other := strings.ReplaceAll(closed.DockerConfig(), "auths", "others")
	check(Registries{Secrets: [][]byte{[]byte("no JSON"), []byte(other), []byte(closed.DockerConfig())}})
}

// TestOpens: a login of a pull Secret is for the repositories for which the kubelet uses it.
func TestOpens(t *testing.T) {
	for key, images := range map[string][]string{
		"https://index.docker.io/v1/": {"nginx", "a/b:1", "docker.io/a/b", "!quay.io/a/b"},
		"docker.io":                   {"nginx", "!reg:5000/nginx"},
		"quay.io/team":                {"quay.io/team/app:1", "quay.io/team/sub/app", "!quay.io/other/app", "!quay.io.example.com/team/app"},
		"*.example.com":               {"reg.example.com/a", "!example.com/a", "!a.b.example.com/a"},
		"reg.example.com:5000":        {"reg.example.com:5000/a@sha256:" + strings.Repeat("0", 64), "!reg.example.com/a", "!reg.example.com:5001/a"},
		"http://10.0.0.1:5000/v2/":    {"10.0.0.1:5000/a:1"},
		"[":                           {"!nginx"},
	} {
		for _, image := range images {
			image, not := strings.CutPrefix(image, "!")
			ref, err := name.ParseReference(image)
			if err != nil || opens(key, ref.Context()) == not {
				t.Errorf("key %s, image %s: %v, %v", key, image, !not, err)
			}
		}
	}
}
