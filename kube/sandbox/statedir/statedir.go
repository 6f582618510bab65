// Package statedir manages the folder of a sandbox: it has one owner at a time, and temporary folders are removed.
// Its central type is Dir.
//
// The owner locks a file in the folder. The kernel releases the lock when the owner exits or is killed, so the next
// sandbox can remove temporary folders whose lock is free.
package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Prefix is the prefix of temporary folders.
const Prefix = "lockstep-sandbox-"

const (
	lockName = "lock"
	// maxSocketPath is below the limits for a unix socket's path: 104 bytes on macOS, 108 on Linux.
	maxSocketPath = 100
	// minUnlockedAge is how old a folder without a lock file must be before Sweep removes it: the owner of a newer one
	// may be about to lock it.
	minUnlockedAge = time.Minute
)

// errInUse means that another process owns a folder.
var errInUse = errors.New("in use by another sandbox; stop that one or choose another folder")

// Dir is a folder owned by this process.
type Dir struct {
	Path string

	lock *os.File
	temp bool
	// sockets is a second folder for sockets, or nil unless Path is too long for them.
	sockets *Dir
}

// Open locks the folder at path, and creates it if necessary. Close does not remove it.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir %s: cannot create the folder: %w", path, errors.Unwrap(err))
	}
	d := &Dir{Path: path}
	if err := d.acquire(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Temp creates a folder with mode 0700, which Close removes. It first removes the folders of killed sandboxes.
func Temp() (*Dir, error) {
	tmp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, err
	}
	Sweep(tmp)
	return newTemp(tmp)
}

func newTemp(parent string) (*Dir, error) {
	for range 10 {
		path, err := os.MkdirTemp(parent, Prefix)
		if err != nil {
			return nil, err
		}
		d := &Dir{Path: path, temp: true}
		if err = d.acquire(); err == nil {
			return d, nil
		}
		if !errors.Is(err, errInUse) {
			_ = os.RemoveAll(path)
			return nil, err
		}
		// A sweep locked the new folder first and will remove it. Try another one.
	}
	return nil, fmt.Errorf("cannot lock a new folder in %s: other sandboxes removed all 10; try again", parent)
}

// SocketPath returns the path for a unix socket: in the folder, unless the path would be too long.
func (d *Dir) SocketPath(name string) (string, error) {
	path := filepath.Join(d.Path, name)
	if len(path) > maxSocketPath {
		if d.sockets == nil {
			Sweep("/tmp")
			short, err := newTemp("/tmp")
			if err != nil {
				return "", err
			}
			d.sockets = short
		}
		path = filepath.Join(d.sockets.Path, name)
	}
	// Listening would fail on the socket of a killed owner.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return path, nil
}

// Close unlocks the folder, after removing it if it is temporary. It may be called more than once.
func (d *Dir) Close() error {
	var errs []error
	if d.sockets != nil {
		errs = append(errs, d.sockets.Close())
	}
	if d.temp {
		errs = append(errs, removeAll(d.Path))
	}
	_ = d.lock.Close()
	return errors.Join(errs...)
}

// removeAll retries: a goroutine that is about to end may write another file.
func removeAll(path string) (err error) {
	for range 3 {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
	}
	return err
}

// acquire locks d.Path, or returns errInUse.
func (d *Dir) acquire() error {
	path := filepath.Join(d.Path, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		if d.temp && errors.Is(err, os.ErrNotExist) {
			return errInUse
		}
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errInUse
		}
		return err
	}
	// Another process may have removed the folder, and the locked file with it.
	held, err1 := f.Stat()
	found, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(held, found) {
		f.Close()
		return errInUse
	}
	d.lock = f
	return nil
}

// Sweep removes the temporary folders of this user's killed sandboxes in parent. It ignores errors; the next sweep
// tries again.
func Sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), Prefix) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
			continue
		}
		removeUnowned(filepath.Join(parent, e.Name()), info)
	}
}

// removeUnowned removes a folder unless it has an owner, or may be about to get one.
func removeUnowned(path string, info os.FileInfo) {
	_, err := os.Stat(filepath.Join(path, lockName))
	if errors.Is(err, os.ErrNotExist) && time.Since(info.ModTime()) < minUnlockedAge {
		return
	}
	d := &Dir{Path: path, temp: true}
	if d.acquire() == nil {
		_ = d.Close()
	}
}
