package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestImage pushes an image for two platforms and pulls it: the digests are those that were built, each platform has its
// SBOM, and the program in it runs. A second build of the same files has the same digests.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("compresses the program")
	}
	o := options{time: time.Unix(1_700_000_000, 0), version: "v1.2.3", licenses: filepath.Join(t.TempDir(), "LICENSES.txt")}
	write(t, o.licenses, "licences")
	o.binaries = []string{lockstep(t), otherPlatform(t)}
	for i, binary := range o.binaries {
		write(t, binary+".cdx.json", `{"bomFormat":"CycloneDX","version":`+string(rune('1'+i))+`}`)
	}
	built, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/team/lockstep:v1.2.3"
	if err := pushAll(built, to); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digest(t, pulled), digest(t, built.index); got != want {
		t.Errorf("pulled %s, built %s", got, want)
	}
	manifest, err := pulled.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatal(manifest, err)
	}
	for i, m := range manifest.Manifests {
		if m.Platform.OS != runtime.GOOS || i == 0 && m.Platform.Architecture != runtime.GOARCH || m.Digest != manifestOf(t, built.index)[i].Digest {
			t.Errorf("image %d: %+v", i, m)
		}
		checkBOM(t, ref, m.Digest, `"version":`+string(rune('1'+i)))
	}
	checkImage(t, pulled, manifest.Manifests[0].Digest)

	// Build again from renamed files, and write a layout.
	for i, binary := range o.binaries {
		o.binaries[i] = filepath.Join(t.TempDir(), "renamed")
		for _, end := range []string{"", ".cdx.json"} {
			if err := os.Rename(binary+end, o.binaries[i]+end); err != nil {
				t.Fatal(err)
			}
		}
	}
	again, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "image")
	if err := writeLayout(again, dir); err != nil {
		t.Fatal(err)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []v1.Hash
	for _, m := range manifestOf(t, root) {
		got = append(got, m.Digest)
	}
	want = append(want, digest(t, built.index))
	for _, bom := range built.boms {
		want = append(want, digest(t, bom))
	}
	if !slices.Equal(got, want) {
		t.Errorf("digests of the second build: %v, want %v", got, want)
	}
}

func digest(t *testing.T, of interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	d, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func manifestOf(t *testing.T, index v1.ImageIndex) []v1.Descriptor {
	t.Helper()
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Manifests
}

// checkBOM checks the SBOM that refers to an image.
func checkBOM(t *testing.T, ref name.Reference, image v1.Hash, want string) {
	t.Helper()
	referrers, err := remote.Referrers(ref.Context().Digest(image.String()))
	if err != nil {
		t.Fatal(err)
	}
	list := manifestOf(t, referrers)
	if len(list) != 1 || list[0].ArtifactType != cycloneDX {
		t.Fatalf("referrers of %s: %+v", image, list)
	}
	bom, err := remote.Image(ref.Context().Digest(list[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := bom.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); !strings.Contains(string(data), want) || err != nil {
		t.Errorf("SBOM: %s, %v", data, err)
	}
}

// checkImage checks the configuration and files of an image, and runs its program.
func checkImage(t *testing.T, index v1.ImageIndex, digest v1.Hash) {
	t.Helper()
	image, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/lockstep"}) || c.Labels["org.opencontainers.image.version"] != "v1.2.3" ||
		!config.Created.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("configuration: %+v", config)
	}
	dir := t.TempDir()
	unpack(t, image, dir)
	certificates, err := os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(certificates) || err != nil {
		t.Error("no certificates", err)
	}
	zones, err := os.ReadFile(filepath.Join(dir, zoneinfo))
	if err != nil || !bytes.Contains(zones, []byte("Europe/Lisbon")) {
		t.Error("no time zones", err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, c.Entrypoint[0]), "version")
	cmd.Env = c.Env
	if out, err := cmd.CombinedOutput(); !strings.HasPrefix(string(out), "lockstep ") || err != nil {
		t.Errorf("lockstep version: %s, %v", out, err)
	}
}

func unpack(t *testing.T, image v1.Image, dir string) {
	t.Helper()
	in := mutate.Extract(image)
	defer in.Close()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			data, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(path, data, h.FileInfo().Mode()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// lockstep returns a copy of bin/lockstep, which make builds.
func lockstep(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../bin/lockstep")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("bin/lockstep does not exist; run make")
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lockstep")
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// otherPlatform returns a small program for another platform, because lockstep takes minutes to build.
func otherPlatform(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module small\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n")
	arch := "arm64"
	if runtime.GOARCH == arch {
		arch = "amd64"
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", "small", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return filepath.Join(dir, "small")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
