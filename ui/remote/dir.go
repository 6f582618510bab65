// Package remote lets other processes of the same user watch and control a run (R47). A Server publishes
// the events of a run on a Unix socket, and accepts commands and queries; a Run is the client. A Server
// never blocks its run. Both sides trust only sockets in a directory that no other user can access.
// Package protocol defines the messages. Only ui/cli and its packages import remote.
package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const suffix = ".sock"

// maxPath is the longest path of a socket that all systems accept, in bytes.
const maxPath = 100

// makePrivateDir creates the directory of sockets and checks that it is private.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkPrivateDir(dir)
}

// checkPrivateDir returns an error if other users may access the directory of sockets.
func checkPrivateDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !ownedByUser(info):
		return fmt.Errorf("%s is not a directory that you own; remove it, or set XDG_STATE_HOME to one of your directories", dir)
	case openToOthers(info):
		return fmt.Errorf("other users can access %s; run: chmod 700 %[1]s", dir)
	}
	return nil
}

// shortPath returns a path of the directory that is short enough for sockets. If necessary it
// creates a symbolic link, which done removes.
func shortPath(dir string) (path string, done func(), err error) {
	const nameLength = 32 // of a socket, at most
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
		done = func() { _ = os.RemoveAll(tmp) } // contains only the link
		path = filepath.Join(tmp, "d")
		if err = os.Symlink(dir, path); err == nil && len(path)+nameLength <= maxPath {
			return path, done, nil
		}
		done()
		failed = errors.Join(failed, err)
	}
	return "", nil, errors.Join(fmt.Errorf("the path %s is too long for a socket; set XDG_STATE_HOME to a shorter path", dir), failed)
}
