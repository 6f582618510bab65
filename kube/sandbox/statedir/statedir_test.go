package statedir

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestTemp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d, err := Temp()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.Path)
	if err != nil || info.Mode().Perm() != 0o700 || !strings.HasPrefix(filepath.Base(d.Path), Prefix) {
		t.Errorf("%s: %v, %v", d.Path, info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil || exists(d.Path) {
		t.Errorf("after Close: %v, exists: %v", err, exists(d.Path))
	}
}

// A sweep removes only folders without an owner.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	owned, err := newTemp(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer owned.Close()
	killed, err := newTemp(parent)
	if err != nil {
		t.Fatal(err)
	}
	_ = killed.lock.Close() // as the kernel does when a process is killed
	mkdir := func(name string, age time.Duration) string {
		path := filepath.Join(parent, name)
		when := time.Now().Add(-age)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	young, old, other := mkdir(Prefix+"young", 0), mkdir(Prefix+"old", time.Hour), mkdir("other", time.Hour)
	Sweep(parent)
	for path, want := range map[string]bool{owned.Path: true, killed.Path: false, young: true, old: false, other: true} {
		if exists(path) != want {
			t.Errorf("%s: exists %v, want %v", path, !want, want)
		}
	}
}

func TestOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, errInUse) {
		t.Errorf("a second owner: %v", err)
	}
	if err := d.Close(); err != nil || !exists(path) {
		t.Errorf("after Close: %v, exists: %v", err, exists(path))
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

func TestSocketPath(t *testing.T) {
	for _, name := range []string{"short", strings.Repeat("long", 25)} {
		d, err := Open(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		path, err := d.SocketPath("x.sock")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
		_ = ln.Close()
		if again, err := d.SocketPath("x.sock"); err != nil || again != path || exists(path) {
			t.Errorf("%s: SocketPath does not remove the old socket: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if name != "short" && exists(filepath.Dir(path)) {
			t.Errorf("Close does not remove %s", filepath.Dir(path))
		}
	}
}
