// Package remote lets other processes of the same user on the same machine watch
// and steer a run (R47): a Server hands its events out on a unix socket and takes
// commands and questions about what the run does to an object; a Run is such a run seen
// from elsewhere. Package protocol is what they say to each other. A server never keeps
// the run waiting. Sockets are in a folder that is the user's own, and no other folder
// is trusted.
package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const suffix = ".sock"

// longestPath is how long the path of a socket may be on all systems, with its
// name.
const longestPath = 100

// own makes sure that the folder of sockets is there, and nobody else's.
func own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return trusted(dir)
}

// trusted returns an error where the folder may hold sockets of others.
func trusted(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !ours(info):
		return fmt.Errorf("%s is not a folder of your own", dir)
	case shared(info):
		return fmt.Errorf("others can write or read %s: chmod 700 it", dir)
	}
	return nil
}

// reach returns a path of the folder that is short enough for a socket in it. It
// is good until done is called.
func reach(dir string) (path string, done func(), err error) {
	const nameLength = 32
	if len(dir)+nameLength <= longestPath {
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
		done = func() { _ = os.RemoveAll(tmp) } // a link, and nothing more
		path = filepath.Join(tmp, "d")
		if err = os.Symlink(dir, path); err == nil && len(path)+nameLength <= longestPath {
			return path, done, nil
		}
		done()
		failed = errors.Join(failed, err)
	}
	return "", nil, errors.Join(fmt.Errorf("the path of %s is too long for a socket", dir), failed)
}
