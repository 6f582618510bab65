package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	program   = "usr/local/bin/lockstep"
	zoneinfo  = "usr/share/zoneinfo.zip"
	user      = 65532 // nonroot, as in distroless images
	cycloneDX = "application/vnd.cyclonedx+json"
)

type options struct {
	time              time.Time
	version, licenses string
	binaries          []string
}

// release is an image for several platforms, with an SBOM for each.
type release struct {
	version string
	index   v1.ImageIndex
	boms    []v1.Image
}

func build(o options) (release, error) {
	r := release{version: o.version}
	common, err := commonLayer(o)
	if err != nil {
		return r, err
	}
	r.index = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, binary := range o.binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return r, err
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		r.version = cmp.Or(r.version, info.Main.Version)
		labels := imageLabels(r.version, settings["vcs.revision"], o.time)
		platform := v1.Platform{OS: settings["GOOS"], Architecture: settings["GOARCH"]}
		image, err := buildImage(o, binary, platform, labels, common)
		if err != nil {
			return r, err
		}
		r.index = mutate.AppendManifests(r.index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
		bom, err := sbomArtifact(binary+".cdx.json", image, o.time)
		if err != nil {
			return r, err
		}
		r.boms = append(r.boms, bom)
		r.index = mutate.Annotations(r.index, labels).(v1.ImageIndex)
	}
	return r, nil
}

func imageLabels(version, revision string, created time.Time) map[string]string {
	const prefix = "org.opencontainers.image."
	l := map[string]string{
		prefix + "title":       "lockstep",
		prefix + "description": "Installs Helm charts group by group",
		prefix + "version":     version,
		prefix + "created":     created.UTC().Format(time.RFC3339),
		prefix + "licenses":    "Apache-2.0",
	}
	if revision != "" {
		l[prefix+"revision"] = revision
	}
	return l
}

func buildImage(o options, binary string, platform v1.Platform, labels map[string]string, common v1.Layer) (v1.Image, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	layer, err := newLayer(o.time, file{program, 0o755, data})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: o.time.UTC()}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, Created: created, RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/" + program},
		// Helm's caches are below HOME.
		Env:    []string{"PATH=/usr/local/bin", "HOME=/tmp", "ZONEINFO=/" + zoneinfo},
		Labels: labels,
	}})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: common, History: v1.History{Created: created, CreatedBy: "CA certificates, time zones, licences"}},
		mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "lockstep"}})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, labels).(v1.Image), nil
}

// sbomArtifact returns an SBOM file as an artifact that refers to an image.
func sbomArtifact(path string, image v1.Image, created time.Time) (v1.Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	// A subject has only these fields of a descriptor.
	subject = &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}
	// Registries use the media type of the configuration as the artifact's type.
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), cycloneDX)
	artifact, err = mutate.AppendLayers(artifact, static.NewLayer(data, cycloneDX))
	if err != nil {
		return nil, err
	}
	artifact = mutate.Annotations(artifact, map[string]string{"org.opencontainers.image.created": created.UTC().Format(time.RFC3339)}).(v1.Image)
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}

// commonLayer returns the layer that all platforms share.
func commonLayer(o options) (v1.Layer, error) {
	licenses, err := os.ReadFile(o.licenses)
	if err != nil {
		return nil, err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find GOROOT: %w", err)
	}
	zones, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	account := fmt.Sprintf("lockstep:x:%d:", user)
	return newLayer(o.time,
		file{"etc/group", 0o644, []byte(account + "\n")},
		file{"etc/passwd", 0o644, fmt.Appendf(nil, "%s%d::/tmp:/sbin/nologin\n", account, user)},
		file{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates()},
		file{"tmp/", 0o1777, nil},
		file{"usr/share/licenses/lockstep/LICENSES.txt", 0o644, licenses},
		file{zoneinfo, 0o644, zones})
}

// certificates returns Mozilla's root certificates as PEM. It omits roots with constraints, which PEM cannot express.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

// file is a file in a layer, or a directory if its name ends with a slash.
type file struct {
	name string
	mode int64
	data []byte
}

// newLayer returns a layer with the files and their parent directories, owned by root.
func newLayer(modified time.Time, files ...file) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	added := map[string]bool{} // parent directories
	add := func(h tar.Header, data []byte) error {
		h.ModTime = modified.UTC()
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	for _, f := range files {
		for i, c := range f.name {
			dir := f.name[:i+1]
			if c != '/' || added[dir] || dir == f.name {
				continue
			}
			added[dir] = true
			if err := add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil); err != nil {
				return nil, err
			}
		}
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(f.name, "/") {
			kind = tar.TypeDir
		}
		if err := add(tar.Header{Typeflag: kind, Name: f.name, Mode: f.mode, Size: int64(len(f.data))}, f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
