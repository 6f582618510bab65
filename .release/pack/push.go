package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pushPlugin pushes the archive of the Helm plugin for a platform, and its provenance if there is one, in the form that Helm pulls:
// layers whose titles start with the plugin's name. The tag is VERSION-OS-ARCH, because Helm does not choose among platforms.
func (r *release) pushPlugin(p platform, archive, provenance []byte) error {
	repository, err := name.NewRepository(r.pluginRepository)
	if err != nil {
		return fmt.Errorf("-plugin-repository: %w", err)
	}
	if path.Base(repository.RepositoryStr()) != "lockstep" {
		return fmt.Errorf("-plugin-repository %s must end with /lockstep, because Helm takes the plugin's name from it", repository)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.helm.plugin.v1+json")
	for _, f := range []file{{name: r.pluginName(p), data: archive}, {name: r.pluginName(p) + ".prov", data: provenance}} {
		if f.data == nil {
			continue
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: static.NewLayer(f.data, types.OCIUncompressedLayer), Annotations: map[string]string{"org.opencontainers.image.title": f.name},
		})
		if err != nil {
			return err
		}
	}
	tag := repository.Tag(strings.ReplaceAll(r.version, "+", "_") + "-" + p.os + "-" + p.arch)
	if err := remote.Write(tag, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	fmt.Println("pushed the Helm plugin: helm plugin install oci://" + tag.Name())
	return nil
}
