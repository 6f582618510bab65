// Package remote lets other processes of the same user on the same machine watch and steer
// a run (R47): a Server publishes its events on a unix socket and takes commands and
// questions; a Run is the other end. Package protocol defines the messages. A server never
// blocks the run. Sockets are only trusted in a directory that belongs to the user alone.
package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const suffix = ".sock"

// maxPath is the longest path of a socket that all systems accept.
const maxPath = 100

// makePrivate creates the directory of sockets, and checks that it is private.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkPrivate(dir)
}

// checkPrivate returns an error if other users could have sockets in the directory.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !ours(info):
		return fmt.Errorf("%s is not a directory that you own", dir)
	case shared(info):
		return fmt.Errorf("other users can access %s: run chmod 700 on it", dir)
	}
	return nil
}

// shortPath returns a path of the directory that is short enough for a socket in it. It is
// valid until done is called.
func shortPath(dir string) (path string, done func(), err error) {
	const nameLength = 32
	if len(dir)+nameLength <= maxPath {
		return dir, func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	var failed error
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		tmp, err := os.MkdirTemp(parent, "lockstep-")
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done = func() { _ = os.RemoveAll(tmp) } // only contains the link
		path = filepath.Join(tmp, "d")
		if err = os.Symlink(dir, path); err == nil && len(path)+nameLength <= maxPath {
			return path, done, nil
		}
		done()
		failed = errors.Join(failed, err)
	}
	return "", nil, errors.Join(fmt.Errorf("the path %s is too long for a socket", dir), failed)
}
