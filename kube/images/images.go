// Package images asks registries whether they have images, without pulling them (Registries). Package kube/preflight imports it.
package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
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
	problems := make(chan [2]string, len(platforms))
	var asks errgroup.Group
	asks.SetLimit(maxConcurrent)
	for image, needed := range platforms {
		asks.Go(func() error {
			if why := r.problem(ctx, image, needed); why != "" {
				problems <- [2]string{image, why}
			}
			return nil
		})
	}
	_ = asks.Wait() // no function returns an error
	close(problems)
	found := map[string]string{}
	for p := range problems {
		found[p[0]] = p[1]
	}
	return found
}

// problem returns why an image cannot be pulled, "" if it can.
func (r Registries) problem(ctx context.Context, image string, platforms []string) string {
	ref, err := Parse(image)
	if err != nil {
		return fmt.Sprintf("is not a valid name (%v)", err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	var first string
	for n, credential := range r.credentials(ctx, ref.Registry) {
		why, denied := ask(ctx, ref, credential, platforms)
		if !denied {
			return why
		}
		if n == 0 {
			first = why
		}
	}
	return first
}

// Parse reads the name of an image as the kubelet does: nginx is docker.io/library/nginx:latest.
func Parse(image string) (registry.Reference, error) {
	host, rest, found := strings.Cut(image, "/")
	switch {
	case !found:
		image = "docker.io/library/" + image
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		image = "docker.io/" + image
	case host == "docker.io" && !strings.Contains(rest, "/"):
		image = "docker.io/library/" + rest
	}
	ref, err := registry.ParseReference(image)
	if err == nil && ref.Reference == "" {
		ref.Reference = "latest"
	}
	return ref, err
}

// credentials returns how to log in to a registry, as the kubelet tries it, and at last without a login.
func (r Registries) credentials(ctx context.Context, host string) (all []auth.Credential) {
	var stores []credentials.Store
	for _, secret := range r.Secrets {
		if store, err := credentials.NewMemoryStoreFromDockerConfig(secret); err == nil {
			stores = append(stores, store)
		}
	}
	if r.Keychain != nil {
		stores = append(stores, r.Keychain)
	}
	for _, store := range stores {
		for _, address := range []string{credentials.ServerAddressFromRegistry(host), host, "index." + host} { // Docker Hub has several
			if c, err := store.Get(ctx, address); err == nil && c != auth.EmptyCredential && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return append(all, auth.EmptyCredential)
}

// ask asks a registry for an image. denied means that another credential may help.
func ask(ctx context.Context, ref registry.Reference, c auth.Credential, platforms []string) (why string, denied bool) {
	repo := &remote.Repository{Reference: ref, PlainHTTP: isLocal(ref.Registry)}
	repo.Client = &auth.Client{Client: &http.Client{}, Credential: auth.StaticCredential(ref.Host(), c)}
	found, err := repo.Resolve(ctx, ref.Reference)
	if err != nil {
		return explain(ctx, ref, err)
	}
	if found.MediaType != ocispec.MediaTypeImageIndex && found.MediaType != "application/vnd.docker.distribution.manifest.list.v2+json" {
		return "", false // its only architecture is in its config
	}
	data, err := content.FetchAll(ctx, repo.Manifests(), found)
	if err != nil {
		return explain(ctx, ref, err)
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Sprintf("has an index that cannot be read (%v)", err), false
	}
	return lacking(ctx, repo, index, platforms)
}

// lacking says which platforms an index does not name, or names although the registry does not have their manifests.
func lacking(ctx context.Context, repo *remote.Repository, index ocispec.Index, platforms []string) (why string, denied bool) {
	var named []string
	for _, m := range index.Manifests {
		if m.Platform != nil && m.Platform.OS != "unknown" { // an attestation
			named = append(named, m.Platform.OS+"/"+m.Platform.Architecture)
		}
	}
	for _, needed := range platforms {
		if !slices.Contains(named, needed) {
			return fmt.Sprintf("has no %s, which nodes of the cluster need (it has %s)", needed, strings.Join(slices.Compact(named), ", ")), false
		}
	}
	for _, m := range index.Manifests {
		if m.Platform == nil || !slices.Contains(platforms, m.Platform.OS+"/"+m.Platform.Architecture) {
			continue
		}
		if _, err := repo.Resolve(ctx, m.Digest.String()); errors.Is(err, errdef.ErrNotFound) {
			return fmt.Sprintf("names %s/%s, which nodes of the cluster need, but its registry does not have that manifest (%s)", m.Platform.OS, m.Platform.Architecture, m.Digest), false
		} else if err != nil {
			return explain(ctx, repo.Reference, err)
		}
	}
	return "", false
}

// explain says why a request for an image failed.
func explain(ctx context.Context, ref registry.Reference, err error) (why string, denied bool) {
	answer := (*errcode.ErrorResponse)(nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("is unknown: registry %s did not answer within %s", ref.Registry, maxTime), false
	case errors.Is(err, errdef.ErrNotFound):
		return "does not exist in registry " + ref.Registry, false
	case errors.Is(err, auth.ErrBasicCredentialNotFound), errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return "is denied by registry " + ref.Registry + ", or does not exist; check imagePullSecrets, or log in", true
	case answer != nil:
		return fmt.Sprintf("is unknown: registry %s answered with status %d", ref.Registry, answer.StatusCode), false
	}
	return fmt.Sprintf("is unknown: registry %s cannot be reached: %v", ref.Registry, err), false
}

// isLocal reports whether a registry is on this machine, and so has no TLS.
func isLocal(registry string) bool {
	host, _, err := net.SplitHostPort(registry)
	if err != nil {
		host = registry
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
