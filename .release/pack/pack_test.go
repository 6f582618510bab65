package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/sassoftware/go-rpmutils"
	"go.yaml.in/yaml/v3"
)

const (
	committed = "2026-01-02T03:04:05Z"
	version   = "1.2.3"
	download  = "https://downloads.example/lockstep/v1.2.3"
)

// wanted are files of each archive, besides the program.
var wanted = []string{"README.md", "LICENSE", "LICENSES.txt", "completions/lockstep.bash", "completions/_lockstep", "completions/lockstep.fish",
	"completions/lockstep.ps1", "man/lockstep.1", "examples/shop/Chart.yaml", "examples/shop/templates/migrate.yaml"}

// packed is a release made of a small program that prints its name and arguments.
func packed(t *testing.T, pgpKey string) (dist string) { return pushed(t, pgpKey, "") }

// pushed is like packed, and pushes the Helm plugin to a repository.
func pushed(t *testing.T, pgpKey, repository string) (dist string) {
	t.Helper()
	dist = t.TempDir()
	program := small(t)
	names := []string{"lockstep_linux_" + runtime.GOARCH, "lockstep_darwin_arm64", "lockstep_windows_amd64.exe"}
	var binaries []string
	for _, name := range names {
		write(t, filepath.Join(dist, name), program)
		binaries = append(binaries, filepath.Join(dist, name))
	}
	write(t, filepath.Join(dist, "LICENSES.txt"), []byte("licences\n"))
	for _, g := range generated {
		write(t, filepath.Join(dist, "generated", g.name), []byte(".TH LOCKSTEP 1 \"2020-02-02\" \"lockstep\"\n"))
	}
	r := release{source: "../..", dist: dist, version: "v" + version, download: download, pgpKey: pgpKey, artifactHub: "0a1b", pluginRepository: repository}
	if err := r.run(committed, binaries); err != nil {
		t.Fatal(err)
	}
	return dist
}

// small is a program for this machine.
func small(t *testing.T) []byte {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("packages are installed on Linux")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), []byte("module small\n"))
	write(t, filepath.Join(dir, "main.go"), []byte("package main\n\nimport \"os\"\n\nfunc main() {\n\tprintln(os.Args[0])\n\tfor _, a := range os.Args[1:] {\n\t\tprintln(a)\n\t}\n}\n"))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", "small", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return read(t, filepath.Join(dir, "small"))
}

// TestSameBytes packs the same files twice.
func TestSameBytes(t *testing.T) {
	private, _ := keys(t)
	one, two := packed(t, private), packed(t, private)
	entries, err := os.ReadDir(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !bytes.Equal(read(t, filepath.Join(one, e.Name())), read(t, filepath.Join(two, e.Name()))) {
			t.Errorf("%s differs", e.Name())
		}
	}
	if len(entries) != 20 {
		t.Errorf("files: %v", entries)
	}
}

// TestArchives: each archive has the program and the common files, and the program may be run.
func TestArchives(t *testing.T) {
	dist := packed(t, "")
	program := read(t, filepath.Join(dist, "lockstep_darwin_arm64"))
	found := map[string]bool{}
	untar(t, read(t, filepath.Join(dist, "lockstep_darwin_arm64.tar.gz")), func(h *tar.Header, data []byte) {
		found[h.Name] = true
		if h.Name == "lockstep" && (h.Mode != 0o755 || !bytes.Equal(data, program)) {
			t.Errorf("the program: %+v", h)
		}
		if h.Name == "man/lockstep.1" && !strings.Contains(string(data), `"2026-01-02"`) {
			t.Errorf("the man page:\n%s", data)
		}
	})
	for _, name := range append(wanted, "lockstep") {
		if !found[name] {
			t.Errorf("the archive has no %s", name)
		}
	}
	z, err := zip.OpenReader(filepath.Join(dist, "lockstep_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	for _, name := range append(wanted, "lockstep.exe") {
		if !slices.Contains(names, name) {
			t.Errorf("the ZIP archive has no %s", name)
		}
	}
}

// TestDeb installs the deb package with dpkg in an empty root, runs it, also as kubectl runs it, and removes it.
func TestDeb(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs dpkg and root")
	}
	dist, root := packed(t, ""), t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		write(t, filepath.Join(root, "var/lib/dpkg", dir, "format"), []byte("1\n"))
	}
	for _, file := range []string{"status", "available"} {
		write(t, filepath.Join(root, "var/lib/dpkg", file), nil)
	}
	deb := filepath.Join(dist, "lockstep_linux_"+runtime.GOARCH+".deb")
	in := func(args ...string) string {
		return output(t, nil, dpkg, append([]string{"--root=" + root, "--log=/dev/null"}, args...)...)
	}
	in("--install", deb)
	if out := output(t, nil, "dpkg-query", "--admindir="+root+"/var/lib/dpkg", "-W", "-f", "${Status} ${Version} ${Architecture}", "lockstep"); out != "install ok installed "+version+" "+runtime.GOARCH {
		t.Errorf("installed: %q", out)
	}
	for _, program := range []string{"lockstep", "kubectl-lockstep", "kubectl_complete-lockstep"} {
		path := filepath.Join(root, "usr/bin", program)
		if out := output(t, nil, path, "x"); out != path+"\nx\n" {
			t.Errorf("%s: %q", program, out)
		}
	}
	for _, file := range []string{"usr/share/man/man1/lockstep.1.gz", "usr/share/bash-completion/completions/lockstep", "usr/share/zsh/vendor-completions/_lockstep",
		"usr/share/fish/vendor_completions.d/lockstep.fish", "usr/share/doc/lockstep/copyright", "usr/share/doc/lockstep/examples/shop/Chart.yaml"} {
		read(t, filepath.Join(root, file))
	}
	in("--purge", "lockstep")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/lockstep")); !os.IsNotExist(err) {
		t.Errorf("after the removal: %v", err)
	}
}

// TestRPM reads the rpm package.
func TestRPM(t *testing.T) {
	dist := packed(t, "")
	name := "lockstep_linux_" + runtime.GOARCH
	f, err := os.Open(filepath.Join(dist, name+".rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rpm, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := rpm.Header.GetNEVRA(); err != nil || id.Name != "lockstep" || id.Version != version || id.Arch != map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] {
		t.Errorf("%+v %v", id, err)
	}
	to := t.TempDir()
	if err := rpm.ExpandPayload(to); err != nil {
		t.Fatal(err)
	}
	checkTree(t, to, read(t, filepath.Join(dist, name)))
}

// TestAPK reads the apk package: two compressed archives, control and data.
func TestAPK(t *testing.T) {
	dist, to := packed(t, ""), t.TempDir()
	name := "lockstep_linux_" + runtime.GOARCH
	data := read(t, filepath.Join(dist, name+".apk"))
	info := ""
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for part := tar.NewReader(r); ; {
		h, err := part.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch content, err := io.ReadAll(part); {
		case err != nil:
			t.Fatal(err)
		case h.Name == ".PKGINFO":
			info = string(content)
		case h.Typeflag == tar.TypeSymlink:
			link := filepath.Join(to, h.Name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(h.Linkname, link)); err != nil {
				t.Fatal(err)
			}
		case h.Typeflag == tar.TypeReg:
			write(t, filepath.Join(to, h.Name), content)
		}
	}
	for _, line := range []string{"pkgname = lockstep", "pkgver = " + version, "arch = " + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], "license = Apache-2.0"} {
		if !strings.Contains(info, line+"\n") {
			t.Errorf("no %q in\n%s", line, info)
		}
	}
	checkTree(t, to, read(t, filepath.Join(dist, name)))
}

// checkTree checks the files of an rpm or apk package.
func checkTree(t *testing.T, root string, program []byte) {
	t.Helper()
	if !bytes.Equal(read(t, filepath.Join(root, "usr/bin/lockstep")), program) {
		t.Error("another program")
	}
	for _, link := range []string{"kubectl-lockstep", "kubectl_complete-lockstep"} {
		if to, err := os.Readlink(filepath.Join(root, "usr/bin", link)); to != "lockstep" || err != nil {
			t.Errorf("%s points to %q, %v", link, to, err)
		}
	}
	for _, file := range []string{"usr/share/man/man1/lockstep.1.gz", "usr/share/zsh/site-functions/_lockstep", "usr/share/doc/lockstep/examples/shop/Chart.yaml"} {
		read(t, filepath.Join(root, file))
	}
}

// TestHelmPlugin installs the plugin as Helm does, from a registry and from its archive, with the provenance checked against a
// keyring, and runs it. Helm refuses a changed archive, and an unknown key.
func TestHelmPlugin(t *testing.T) {
	private, public := keys(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/tools/lockstep"
	dist := pushed(t, private, repository)
	oci := "oci://" + repository + ":" + version + "-linux-" + runtime.GOARCH
	helm := os.Getenv("TEST_HELM")
	if helm == "" {
		cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", "helm")
		cmd.Dir = "../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		helm = strings.TrimSpace(string(out))
	}
	home := t.TempDir()
	env := []string{"HELM_DATA_HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home}
	archive := filepath.Join(dist, "lockstep-1.2.3-helm-plugin-linux-"+runtime.GOARCH+".tgz")
	changed := filepath.Join(t.TempDir(), filepath.Base(archive))
	write(t, changed, append(read(t, archive), 0))
	write(t, changed+".prov", read(t, archive+".prov"))
	refused := exec.CommandContext(t.Context(), helm, "plugin", "install", changed, "--keyring", public)
	refused.Env = append(os.Environ(), env...)
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "sha256 sum does not match") {
		t.Errorf("a changed archive: %v\n%s", err, out)
	}
	_, otherKey := keys(t)
	unknown := exec.CommandContext(t.Context(), helm, "plugin", "install", oci, "--plain-http", "--keyring", otherKey)
	unknown.Env = append(os.Environ(), env...)
	if out, err := unknown.CombinedOutput(); err == nil || !strings.Contains(string(out), "signature") {
		t.Errorf("a key that is not in the keyring: %v\n%s", err, out)
	}
	for _, from := range [][]string{{oci, "--plain-http"}, {archive}} {
		if out := output(t, env, helm, append(append([]string{"plugin", "install"}, from...), "--verify", "--keyring", public)...); !strings.Contains(out, "Signed by: lockstep") {
			t.Errorf("install %s:\n%s", from, out)
		}
		if out := output(t, env, helm, "lockstep", "dag"); out != filepath.Join(home, "plugins/lockstep/bin/lockstep")+"\ndag\n" {
			t.Errorf("helm lockstep dag: %s", out)
		}
		if from[0] == oci {
			output(t, env, helm, "plugin", "uninstall", "lockstep")
		}
	}
	if out := output(t, env, helm, "plugin", "list"); !strings.Contains(out, "lockstep\t"+version) && !regexp.MustCompile(`lockstep\s+1\.2\.3`).MatchString(out) {
		t.Errorf("list:\n%s", out)
	}
}

// TestVersion: a version that package managers would refuse is refused.
func TestVersion(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "lockstep_linux_amd64")
	write(t, binary, small(t))
	for _, v := range []string{"", "main", "v1.2"} {
		r := release{version: v}
		if err := r.run(committed, []string{binary}); err == nil || !strings.Contains(err.Error(), "set VERSION=v1.2.3") {
			t.Errorf("version %q: %v", v, err)
		}
	}
}

// TestPluginName: Helm finds the folder "lockstep" for each version.
func TestPluginName(t *testing.T) {
	helms := regexp.MustCompile(`(.*)-\d+\..*`) // of Helm's installer
	for _, v := range []string{"1.2.3", "1.2.3-rc.1", "0.0.0-20261129142434-0123456789ab", "1.2.4-0.20261129142434-0123456789ab+dirty", "1.2.3-1.2-3.4"} {
		r := release{version: v}
		name := r.pluginName(platform{os: "linux", arch: "amd64"})
		if got := helms.ReplaceAllString(strings.TrimSuffix(name, ".tgz"), "$1"); got != "lockstep" {
			t.Errorf("%s: Helm would look for the folder %q", name, got)
		}
	}
}

// TestManifests: each package manager would download an archive of this release, and find the program in it.
func TestManifests(t *testing.T) {
	dist := packed(t, "")
	checked := 0
	check := func(tool, url, sum string, programs ...string) {
		t.Helper()
		name, ok := strings.CutPrefix(url, download+"/")
		if !ok {
			t.Errorf("%s: %s", tool, url)
			return
		}
		checked++
		data := read(t, filepath.Join(dist, name))
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != sum {
			t.Errorf("%s: %s has sum %s, not %s", tool, name, got, sum)
		}
		for _, p := range programs {
			if strings.HasSuffix(name, ".zip") != strings.HasSuffix(p, ".exe") {
				t.Errorf("%s: %s has no %s", tool, name, p)
			}
		}
	}
	formula := string(read(t, filepath.Join(dist, "lockstep.rb")))
	for _, m := range regexp.MustCompile(`url "(.*)"\n\s*sha256 "(.*)"`).FindAllStringSubmatch(formula, -1) {
		check("brew", m[1], m[2], "lockstep")
	}
	opens, ends := len(regexp.MustCompile(`(?m)(^class| do$|^  def) ?`).FindAllString(formula, -1)), strings.Count(formula, "end\n")
	for _, m := range regexp.MustCompile(`install "([^"]*)"`).FindAllStringSubmatch(formula, -1) {
		if m[1] != "lockstep" && !slices.Contains(wanted, m[1]) {
			t.Errorf("brew installs %s, which no archive has", m[1])
		}
	}
	if opens != ends || !strings.Contains(formula, "class Lockstep < Formula\n") || !strings.Contains(formula, `version "`+version+`"`) {
		t.Errorf("the formula opens %d blocks and ends %d:\n%s", opens, ends, formula)
	}
	var scoop struct {
		Version, Description, Homepage, License string
		Architecture                            map[string]struct{ URL, Hash string }
		Bin                                     []any
	}
	strict := json.NewDecoder(bytes.NewReader(read(t, filepath.Join(dist, "scoop.json"))))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&scoop); err != nil || scoop.Version != version || len(scoop.Bin) != 2 {
		t.Errorf("%+v, %v", scoop, err)
	}
	check("scoop", scoop.Architecture["64bit"].URL, scoop.Architecture["64bit"].Hash, fmt.Sprint(scoop.Bin[0]))
	var krew struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name        string
			Annotations map[string]string
		}
		Spec struct {
			Version, Homepage, Description string
			ShortDescription               string `yaml:"shortDescription"`
			Platforms                      []struct {
				URI, SHA256, Bin string
				Selector         struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				}
				Files []struct{ From, To string }
			}
		}
	}
	known := yaml.NewDecoder(bytes.NewReader(read(t, filepath.Join(dist, "krew.yaml"))))
	known.KnownFields(true)
	if err := known.Decode(&krew); err != nil || krew.Kind != "Plugin" || krew.Metadata.Name != "lockstep" || krew.Metadata.Annotations["artifacthub.io/license"] != "Apache-2.0" || krew.Spec.Version != "v"+version || len(krew.Spec.Platforms) != 3 {
		t.Errorf("%+v, %v", krew, err)
	}
	if got := string(read(t, filepath.Join(dist, "artifacthub-repo.yml"))); got != "repositoryID: 0a1b\n" {
		t.Errorf("artifacthub-repo.yml: %s", got)
	}
	for _, p := range krew.Spec.Platforms {
		check("krew", p.URI, p.SHA256, p.Bin)
		if os := p.Selector.MatchLabels["os"]; !strings.Contains(p.URI, os+"_"+p.Selector.MatchLabels["arch"]) {
			t.Errorf("%s for %v", p.URI, p.Selector)
		}
	}
	if checked != 6 {
		t.Errorf("checked %d downloads", checked)
	}
}

// keys writes a new private OpenPGP key and its public keyring.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	entity, err := openpgp.NewEntity("lockstep", "", "lockstep@example", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		t.Fatal(err)
	}
	var secret, ring bytes.Buffer
	w, err := armor.Encode(&secret, openpgp.PrivateKeyType, nil)
	if err == nil {
		err = errors.Join(entity.SerializePrivate(w, nil), w.Close(), entity.Serialize(&ring))
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "key.asc"), filepath.Join(dir, "pubring.gpg")
	write(t, private, secret.Bytes())
	write(t, public, ring.Bytes())
	return private, public
}

func untar(t *testing.T, data []byte, each func(*tar.Header, []byte)) {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		each(h, content)
	}
}

func output(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
