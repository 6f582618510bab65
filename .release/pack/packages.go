package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // each registers a format
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const description = "Deploys Helm charts in order: each group of objects once everything it needs is ready."

const docs = "/usr/share/doc/lockstep"

// writePackages writes a deb, an rpm and an apk package of a Linux binary.
func (r *release) writePackages(p platform) error {
	temp, err := os.MkdirTemp("", "lockstep-pack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	manual, err := compressedFile(temp, filepath.Join(r.dist, "generated", "lockstep.1"))
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm", "apk"} {
		if err := r.writePackage(p, format, manual); err != nil {
			return fmt.Errorf("%s package: %w", format, err)
		}
	}
	return nil
}

func (r *release) writePackage(p platform, format, manual string) error {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "lockstep", Arch: p.arch, Platform: "linux", Version: r.version, Section: "admin", Priority: "optional",
		Maintainer: "The lockstep authors", Description: description, License: "Apache-2.0", MTime: r.time,
		Overridables: nfpm.Overridables{Contents: r.contents(p, format, manual), RPM: nfpm.RPM{BuildHost: "localhost", Summary: description}},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist, fmt.Sprintf("lockstep_%s_%s.%s", p.os, p.arch, format)), out.Bytes(), 0o644)
}

// contents returns the files of a package. kubectl finds the links: a plugin and its completion.
func (r *release) contents(p platform, format, manual string) files.Contents {
	var all files.Contents
	add := func(from, to string, mode fs.FileMode) {
		all = append(all, &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}})
	}
	zsh := "/usr/share/zsh/site-functions/_lockstep"
	if format == "deb" {
		zsh = "/usr/share/zsh/vendor-completions/_lockstep"
	}
	places := map[string]string{
		"completions/lockstep.bash": "/usr/share/bash-completion/completions/lockstep",
		"completions/_lockstep":     zsh,
		"completions/lockstep.fish": "/usr/share/fish/vendor_completions.d/lockstep.fish",
		"LICENSE":                   path.Join(docs, "copyright"),
	}
	add(p.binary, "/usr/bin/lockstep", 0o755)
	for _, link := range []string{"kubectl-lockstep", "kubectl_complete-lockstep"} {
		all = append(all, &files.Content{Source: "lockstep", Destination: "/usr/bin/" + link, Type: files.TypeSymlink, FileInfo: &files.ContentFileInfo{MTime: r.time}})
	}
	add(manual, "/usr/share/man/man1/lockstep.1.gz", 0o644)
	for _, f := range r.common {
		switch to := places[f.name]; {
		case to != "":
			add(f.from, to, 0o644)
		case !strings.HasPrefix(f.name, "completions/") && !strings.HasPrefix(f.name, "man/"):
			add(f.from, path.Join(docs, f.name), 0o644)
		}
	}
	return all
}

// compressedFile writes a compressed copy of a file to a directory, without a name or a time in it.
func compressedFile(dir, from string) (string, error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(from)+".gz")
	return to, os.WriteFile(to, out.Bytes(), 0o644)
}
