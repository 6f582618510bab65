package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReleaseIsReproducible makes a release for one platform, and its binary again in
// a folder of another name: all files are the same, byte for byte, the binary says
// from which commit it is, what it contains is listed, and the archive works. That
// packing is reproducible, too, is tested next to it (.release/pack).
func TestReleaseIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the programs that the target calls besides Go are those of Linux")
	}
	one := release(t, filepath.Join(t.TempDir(), "one"), "release")
	two := release(t, filepath.Join(t.TempDir(), "another-folder", "two"), "binaries")
	names, err := os.ReadDir(two)
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for _, e := range names {
		if !bytes.Equal(read(t, one, e.Name()), read(t, two, e.Name())) {
			t.Errorf("%s differs", e.Name())
		}
	}
	sums := string(read(t, one, "SHA256SUMS"))
	for _, name := range []string{"lockstep_linux_amd64", "lockstep_linux_amd64.cdx.json", "LICENSES.txt", "lockstep_linux_amd64.tar.gz",
		"lockstep_linux_amd64.deb", "lockstep_linux_amd64.rpm", "lockstep_linux_amd64.apk", "provenance.json"} {
		if !strings.Contains(sums, "  "+name+"\n") {
			t.Errorf("no checksum of %s:\n%s", name, sums)
		}
	}
	if runtime.GOARCH == "amd64" {
		var says struct{ Version, Commit string }
		if err := json.Unmarshal(output(t, one, filepath.Join(one, "lockstep_linux_amd64"), "version", "-o", "json"), &says); err != nil {
			t.Fatal(err)
		}
		if head := strings.TrimSpace(string(output(t, ".", "git", "rev-parse", "HEAD"))); says.Commit != head || !strings.Contains(says.Version, head[:12]) {
			t.Errorf("it says %+v, the commit is %s", says, head)
		}
		// The README's first command works in the unpacked archive.
		unpacked := t.TempDir()
		output(t, unpacked, "tar", "-xzf", filepath.Join(one, "lockstep_linux_amd64.tar.gz"))
		if out := string(output(t, unpacked, "./lockstep", "suggest", "examples/shop")); !strings.Contains(out, "shop:api after shop:migrate") {
			t.Errorf("suggest in the archive prints\n%s", out)
		}
		for name, want := range map[string]string{"completions/lockstep.bash": "__start_lockstep", "man/lockstep.1": ".TH LOCKSTEP 1"} {
			if !strings.Contains(string(read(t, unpacked, name)), want) {
				t.Errorf("%s does not contain %s", name, want)
			}
		}
	}
	var bom struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(read(t, one, "lockstep_linux_amd64.cdx.json"), &bom); err != nil {
		t.Fatal(err)
	}
	licenses := string(read(t, one, "LICENSES.txt"))
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name] = true
		if !strings.Contains(licenses, "\n"+c.Name+" "+c.Version+": ") {
			t.Errorf("no licence of %s is listed", c.Name)
		}
	}
	for _, name := range []string{"helm.sh/helm/v4", "k8s.io/client-go", "charm.land/bubbletea/v2", "std"} {
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
	}
}

// release makes a target from a copy of this checkout, and returns the folder
// where the files are.
func release(t *testing.T, checkout, target string) string {
	t.Helper()
	output(t, ".", "git", "clone", "--quiet", "--shared", ".", checkout)
	changed := strings.Fields(string(output(t, ".", "git", "ls-files", "--modified", "--others", "--exclude-standard")))
	for _, name := range changed {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			err = os.Remove(filepath.Join(checkout, name))
		} else if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(checkout, name)), 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(checkout, name), data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	output(t, checkout, "make", target, "PLATFORMS=linux/amd64")
	return filepath.Join(checkout, "dist")
}

func output(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=auto")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.Bytes())
	}
	return out
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
