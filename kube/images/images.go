// Package images asks registries whether they have images, without pulling them (Registries). Package kube/preflight imports it.
package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

const (
	// maxConcurrent is how many images are asked for at a time, maxTime how long one may take.
	maxConcurrent = 10
	maxTime       = 5 * time.Second
)

// Registries ask about images.
type Registries struct {
	// Secrets are image pull Secrets (.dockerconfigjson). Keychain has the user's own credentials; it may be nil.
	Secrets  [][]byte
	Keychain credentials.Store
}

// Keychain returns the credentials in Helm's registry config, or else in Docker's.
func Keychain(registryConfig string) credentials.Store {
	options := credentials.StoreOptions{DetectDefaultNativeStore: true}
	store, err := credentials.NewStore(registryConfig, options)
	if err != nil {
		return nil
	}
	docker, err := credentials.NewStoreFromDocker(options)
	if err != nil { // there is no home directory
		return store
	}
	return credentials.NewStoreWithFallbacks(store, docker)
}

// Check asks for all images, each for the platforms that need it (OS/ARCH). It returns why images cannot be pulled, by their
// names.
//
// Rule S19: a registry is asked for each image and each architecture before the first write
func (r Registries) Check(ctx context.Context, platforms map[string][]string) map[string]string {
	found := map[string]string{}
	var mu sync.Mutex
	var asks errgroup.Group
	asks.SetLimit(maxConcurrent)
	for image, needed := range platforms {
		asks.Go(func() error {
			if why := r.problem(ctx, image, needed); why != "" {
				mu.Lock()
				defer mu.Unlock()
				found[image] = why
			}
			return nil
		})
	}
	_ = asks.Wait() // no function returns an error
	return found
}

// problem returns why an image cannot be pulled, "" if it can.
func (r Registries) problem(ctx context.Context, image string, platforms []string) (why string) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return fmt.Sprintf("is not a valid name (%v)", err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	for _, login := range r.logins(ctx, ref.Context()) {
		if why, err = ask(ctx, ref, login, platforms); !isDenied(err) {
			break
		}
	}
	if err != nil {
		return explain(ctx, dockerHub(ref.Context().RegistryStr()), err)
	}
	return why
}

// dockerHub returns a registry with Docker Hub under the name that people use.
func dockerHub(registry string) string {
	if registry == name.DefaultRegistry {
		return "docker.io"
	}
	return registry
}

// logins returns how to log in to a repository, as the kubelet tries it, and at last without a login.
func (r Registries) logins(ctx context.Context, repo name.Repository) (all []authn.Authenticator) {
	for _, secret := range r.Secrets {
		var config struct {
			Auths map[string]authn.AuthConfig `json:"auths"`
		}
		if json.Unmarshal(secret, &config) != nil {
			continue
		}
		for _, key := range slices.Backward(slices.Sorted(maps.Keys(config.Auths))) { // the longest path of a host first
			if opens(key, repo) {
				all = append(all, authn.FromConfig(config.Auths[key]))
			}
		}
	}
	if r.Keychain != nil {
		host := dockerHub(repo.RegistryStr())
		for _, address := range []string{credentials.ServerAddressFromRegistry(host), host, "index." + host} { // Docker Hub has several
			if c, err := r.Keychain.Get(ctx, address); err == nil && c != auth.EmptyCredential {
				all = append(all, authn.FromConfig(authn.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.RefreshToken, RegistryToken: c.AccessToken}))
			}
		}
	}
	return append(all, authn.Anonymous)
}

// opens reports whether a login is for a repository. Its key in a pull Secret is a host, in which * is a label or a part of one,
// and the prefix of a path.
func opens(key string, repo name.Repository) bool {
	if _, rest, found := strings.Cut(key, "://"); found {
		key = rest
	}
	host, prefix, _ := strings.Cut(key, "/")
	prefix = strings.TrimPrefix(strings.TrimPrefix(prefix, "v1/"), "v2/")
	labels := func(host string) string { return strings.ReplaceAll(dockerHub(host), ".", "/") } // what * does not match
	matched, err := path.Match(labels(host), labels(repo.RegistryStr()))
	return err == nil && matched && strings.HasPrefix(repo.RepositoryStr(), prefix)
}

// ask asks a registry for an image.
func ask(ctx context.Context, ref name.Reference, login authn.Authenticator, platforms []string) (why string, err error) {
	registry, err := remote.NewPuller(remote.WithAuth(login))
	if err != nil {
		return "", err
	}
	found, err := registry.Head(ctx, ref)
	if err != nil || !found.MediaType.IsIndex() { // the only architecture of an image is in its config
		return "", err
	}
	answer, err := registry.Get(ctx, ref)
	if err != nil {
		return "", err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(answer.Manifest))
	if err != nil {
		return fmt.Sprintf("has an index that cannot be read (%v)", err), nil
	}
	return lacking(ctx, registry, ref.Context(), index.Manifests, platforms)
}

// lacking says which platforms an index does not name, or names although the registry does not have their manifests.
func lacking(ctx context.Context, registry *remote.Puller, repo name.Repository, manifests []v1.Descriptor, platforms []string) (why string, err error) {
	named := map[string][]v1.Descriptor{}
	for _, m := range manifests {
		if m.Platform != nil && m.Platform.OS != "unknown" { // an attestation
			platform := m.Platform.OS + "/" + m.Platform.Architecture
			named[platform] = append(named[platform], m)
		}
	}
	for _, needed := range platforms {
		if named[needed] == nil {
			return fmt.Sprintf("has no %s, which nodes of the cluster need (it has %s)", needed, strings.Join(slices.Sorted(maps.Keys(named)), ", ")), nil
		}
		for _, m := range named[needed] {
			if _, err := registry.Head(ctx, repo.Digest(m.Digest.String())); statusOf(err) == http.StatusNotFound {
				return fmt.Sprintf("names %s, which nodes of the cluster need, but its registry does not have that manifest (%s)", needed, m.Digest), nil
			} else if err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// statusOf returns the HTTP status with which a registry refused a request, 0 if it has not answered.
func statusOf(err error) int {
	answer := (*transport.Error)(nil)
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

// isDenied reports whether another login may help.
func isDenied(err error) bool {
	status := statusOf(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// explain says why a request for an image failed.
func explain(ctx context.Context, registry string, err error) string {
	switch status := statusOf(err); {
	case ctx.Err() != nil:
		return fmt.Sprintf("is unknown: registry %s did not answer within %s", registry, maxTime)
	case status == http.StatusNotFound:
		return "does not exist in registry " + registry
	case isDenied(err):
		return "is denied by registry " + registry + ", or does not exist; check imagePullSecrets, or log in"
	case status != 0:
		return fmt.Sprintf("is unknown: registry %s answered with status %d", registry, status)
	}
	return fmt.Sprintf("is unknown: registry %s cannot be reached: %v", registry, err)
}
