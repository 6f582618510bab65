// Command pack turns the binaries of a release into what people install: archives, deb, rpm and apk packages, archives of the
// Helm plugin, and, if it is known where they will be published, manifests for Homebrew, Scoop and krew. The same files give
// the same bytes.
//
//	pack -source DIR -dist DIST -time RFC3339 -version V [-download URL] [-pgp-key FILE] [-plugin-repository NAME] [-artifact-hub ID] BINARY...
//
// Each BINARY is named lockstep_OS_ARCH, with .exe for Windows. DIST has LICENSES.txt, and in the folder "generated" the
// completion scripts and the man page, which pack removes.
package main

import (
	"cmp"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	var r release
	committed := flag.String("time", "", "timestamp of all files, RFC 3339")
	flag.StringVar(&r.source, "source", ".", "directory of the repository")
	flag.StringVar(&r.dist, "dist", "dist", "directory of the release")
	flag.StringVar(&r.version, "version", "", "version (default: the binaries' version)")
	flag.StringVar(&r.download, "download", "", "URL of the directory where the archives will be published; without it, no manifests are written")
	flag.StringVar(&r.pgpKey, "pgp-key", "", "file with a private OpenPGP key without a passphrase, for the provenance of the Helm plugin; without it, none is written")
	flag.StringVar(&r.pluginRepository, "plugin-repository", "", "repository to push the Helm plugin to: REGISTRY/PATH/lockstep; without it, nothing is pushed")
	flag.StringVar(&r.artifactHub, "artifact-hub", "", "ID of the repository at Artifact Hub, for artifacthub-repo.yml; without it, none is written")
	flag.Parse()
	err := r.run(*committed, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// release is what all platforms share.
type release struct {
	source, dist, version, download, pgpKey, pluginRepository, artifactHub string

	time   time.Time
	common []file // of every platform
}

// platform is a binary, and the archive made of it.
type platform struct {
	os, arch, binary string
	archive, sum     string // name and SHA-256
}

func (r *release) run(committed string, binaries []string) error {
	var err error
	if r.time, err = time.Parse(time.RFC3339, committed); err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	if len(binaries) == 0 {
		return fmt.Errorf("no binaries")
	}
	info, err := buildinfo.ReadFile(binaries[0])
	if err != nil {
		return err
	}
	r.version = strings.TrimPrefix(cmp.Or(r.version, info.Main.Version), "v")
	if !semantic.MatchString(r.version) { // of a build outside a clone
		return fmt.Errorf("%q is not a version that packages can have; set VERSION=v1.2.3, or build in a clone", r.version)
	}
	if r.common, err = r.commonFiles(); err != nil {
		return err
	}
	var platforms []platform
	for _, binary := range binaries {
		p, err := newPlatform(binary)
		if err != nil {
			return err
		}
		if err := r.writeArchive(&p); err != nil {
			return fmt.Errorf("%s: %w", p.archive, err)
		}
		if err := r.writePlugin(p); err != nil {
			return err
		}
		if p.os == "linux" {
			if err := r.writePackages(p); err != nil {
				return err
			}
		}
		platforms = append(platforms, p)
	}
	if r.download != "" {
		if err := r.writeManifests(platforms); err != nil {
			return err
		}
	}
	if r.artifactHub != "" { // proves to Artifact Hub who owns the repository
		if err := os.WriteFile(filepath.Join(r.dist, "artifacthub-repo.yml"), []byte("repositoryID: "+r.artifactHub+"\n"), 0o644); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(r.dist, "generated"))
}

// semantic matches a semantic version.
var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

func newPlatform(binary string) (platform, error) {
	name := strings.TrimSuffix(filepath.Base(binary), ".exe")
	parts := strings.Split(name, "_")
	if len(parts) != 3 {
		return platform{}, fmt.Errorf("%s is not named lockstep_OS_ARCH", binary)
	}
	p := platform{os: parts[1], arch: parts[2], binary: binary, archive: name + ".tar.gz"}
	if p.os == "windows" {
		p.archive = name + ".zip"
	}
	return p, nil
}

// program is the name of the binary in archives.
func (p platform) program() string {
	if p.os == "windows" {
		return "lockstep.exe"
	}
	return "lockstep"
}

// generated are the files of the folder "generated", by their names in an archive.
var generated = []struct{ name, in string }{
	{"lockstep.bash", "completions/lockstep.bash"},
	{"_lockstep", "completions/_lockstep"},
	{"lockstep.fish", "completions/lockstep.fish"},
	{"lockstep.ps1", "completions/lockstep.ps1"},
	{"lockstep.1", "man/lockstep.1"},
}

// manDate matches the date in a man page.
var manDate = regexp.MustCompile(`^(\.TH LOCKSTEP 1 ")[0-9-]+"`)

// commonFiles returns the files of an archive besides the binary: documents, completion scripts, the man page, and the
// example of the README.
func (r *release) commonFiles() ([]file, error) {
	files := []file{
		{name: "README.md", from: filepath.Join(r.source, "README.md")},
		{name: "LICENSE", from: filepath.Join(r.source, "LICENSE")},
		{name: "LICENSES.txt", from: filepath.Join(r.dist, "LICENSES.txt")},
	}
	for _, g := range generated {
		path := filepath.Join(r.dist, "generated", g.name)
		if g.name == "lockstep.1" {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			dated := manDate.ReplaceAll(text, []byte("${1}"+r.time.UTC().Format(time.DateOnly)+`"`))
			if err := os.WriteFile(path, dated, 0o644); err != nil {
				return nil, err
			}
		}
		files = append(files, file{name: g.in, from: path})
	}
	example, err := treeOf(filepath.Join(r.source, "examples"), "examples")
	return append(files, example...), err
}
