// Command image builds the container image of a release from its binaries, and pushes it or writes it to a directory. The
// image contains only the binary, CA certificates, time zones and licences. The same files give the same digests.
//
//	image -time RFC3339 -licenses FILE [-version V] (-push NAME | -layout DIR) BINARY...
//
// Each BINARY is for a different platform. Its SBOM, BINARY.cdx.json, is attached to its image as an OCI referrer.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	var o options
	committed := flag.String("time", "", "timestamp of the image, RFC 3339")
	flag.StringVar(&o.licenses, "licenses", "", "file with the licences of the binaries")
	flag.StringVar(&o.version, "version", "", "version of the image (default: the binaries' version)")
	push := flag.String("push", "", "name to push the image to")
	dir := flag.String("layout", "", "directory to write the image to, as an OCI layout")
	flag.Parse()
	o.binaries = flag.Args()
	if err := run(o, *committed, *push, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(o options, committed, push, dir string) error {
	var err error
	if o.time, err = time.Parse(time.RFC3339, committed); err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	if (push == "") == (dir == "") {
		return errors.New("exactly one of -push and -layout is required")
	}
	built, err := build(o)
	if err != nil {
		return err
	}
	to := dir
	if push != "" {
		to, err = push, pushAll(built, push)
	} else {
		err = writeLayout(built, dir)
	}
	if err != nil {
		return err
	}
	return built.print(to)
}

// pushAll pushes the images, their index under the name to, and the SBOMs.
func pushAll(r release, to string) error {
	ref, err := name.ParseReference(to)
	if err != nil {
		return err
	}
	auth := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	if err := remote.WriteIndex(ref, r.index, auth); err != nil {
		return err
	}
	for _, bom := range r.boms {
		digest, err := bom.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(ref.Context().Digest(digest.String()), bom, auth); err != nil {
			return err
		}
	}
	return nil
}

// writeLayout replaces dir with an OCI layout of the release.
func writeLayout(r release, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(r.index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	for _, bom := range r.boms {
		if err := path.AppendImage(bom); err != nil {
			return err
		}
	}
	return nil
}

// print prints the digests, and the compressed size of each platform's layers.
func (r release) print(to string) error {
	digest, err := r.index.Digest()
	if err != nil {
		return err
	}
	manifest, err := r.index.IndexManifest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", to, digest)
	for _, m := range manifest.Manifests {
		size, err := compressedSize(r.index, m.Digest)
		if err != nil {
			return err
		}
		fmt.Printf("  %-12s %s  %.1f MB\n", m.Platform, m.Digest, float64(size)/1e6)
	}
	return nil
}

// compressedSize returns the size of an image's layers in bytes.
func compressedSize(index v1.ImageIndex, digest v1.Hash) (int64, error) {
	image, err := index.Image(digest)
	if err != nil {
		return 0, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, l := range manifest.Layers {
		sum += l.Size
	}
	return sum, nil
}
