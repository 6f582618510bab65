package charts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"

	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"
	ociregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// Pin returns an oci:// reference with the digest of a version of a chart. Unlike a version, a
// digest always names the same chart.
func Pin(ref, version string, client *registry.Client) (string, error) {
	parsed, err := parseOCI(ref)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", ref, err)
	}
	if parsed.ValidateReferenceAsDigest() == nil {
		return ref, nil
	}
	name := parsed.Registry + "/" + parsed.Repository
	found, err := client.Resolve(name + ":" + version)
	if err != nil {
		return "", fmt.Errorf("chart %s: find version %s: %w", ref, version, err)
	}
	return fmt.Sprintf("%s://%s@%s", registry.OCIScheme, name, found.Digest), nil
}

// RegistryCredential is how a user logs in to a registry.
type RegistryCredential = auth.Credential

// FindRegistryCredential returns the stored credential for the registry of an oci:// chart: Helm's, or else
// Docker's. It is empty if neither has one.
func FindRegistryCredential(ctx context.Context, ref string, settings *cli.EnvSettings) (RegistryCredential, error) {
	fail := func(err error) (RegistryCredential, error) {
		return auth.EmptyCredential, fmt.Errorf("read the credential for registry %s: %w", registryHost(ref), err)
	}
	var store credentials.Store
	options := credentials.StoreOptions{DetectDefaultNativeStore: true}
	store, err := credentials.NewStore(settings.RegistryConfig, options)
	if err != nil {
		return fail(err)
	}
	if docker, err := credentials.NewStoreFromDocker(options); err == nil { // else there is no home directory
		store = credentials.NewStoreWithFallbacks(store, docker)
	}
	found, err := store.Get(ctx, credentials.ServerAddressFromRegistry(registryHost(ref)))
	if err != nil {
		return fail(err)
	}
	return found, nil
}

// RegistryConfig returns the contents of a registry config file with the credentials for oci:// charts.
func RegistryConfig(byRef map[string]RegistryCredential) ([]byte, error) {
	hosts := map[string]any{}
	for ref, c := range byRef {
		entry := map[string]string{"identitytoken": c.RefreshToken}
		if c.Username != "" {
			entry["auth"] = base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
		}
		hosts[registryHost(ref)] = entry
	}
	return json.Marshal(map[string]any{"auths": hosts})
}

// parseOCI parses an oci:// reference.
func parseOCI(ref string) (ociregistry.Reference, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return ociregistry.Reference{}, err
	}
	return ociregistry.ParseReference(u.Host + u.Path)
}

// registryHost returns the host of an oci:// reference, with its port, "" if the reference is invalid.
func registryHost(ref string) string {
	parsed, _ := parseOCI(ref)
	return parsed.Registry
}
