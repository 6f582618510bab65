package images

import (
	"strings"
	"testing"

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
	both := []string{"linux/amd64", "linux/arm64"}
	want := map[string]string{
		open.Host + "/a/single:1": "", open.Host + "/a/both:1": "", open.Host + "/a/one:1": "has no linux/arm64, which nodes of the cluster need (it has linux/amd64)",
		open.Host + "/a/hollow:1": "names linux/arm64, which nodes of the cluster need, but its registry does not have that manifest (sha256:",
		open.Host + "/a/single:2": "does not exist in registry " + open.Host, open.Host + "/none": "does not exist in registry",
		closed.Host + "/a/single:1": "is denied by registry " + closed.Host, closed.Host + "/a/single:2": "is denied",
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

// TestParse: names are completed as the kubelet does.
func TestParse(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "docker.io/library/nginx:latest", "nginx:1": "docker.io/library/nginx:1", "a/b": "docker.io/a/b:latest", "docker.io/nginx": "docker.io/library/nginx:latest",
		"quay.io/a/b:1": "quay.io/a/b:1", "localhost/a:1": "localhost/a:1", "reg:5000/a": "reg:5000/a:latest",
		"a@sha256:" + strings.Repeat("0", 64): "docker.io/library/a@sha256:" + strings.Repeat("0", 64),
	} {
		if got, err := Parse(image); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", image, got, err, want)
		}
	}
	for _, wrong := range []string{"", "a b", "A/b:", "a:b:c", "/a"} {
		if got, err := Parse(wrong); err == nil {
			t.Errorf("%q: %s", wrong, got)
		}
	}
}
