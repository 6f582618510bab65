package lease

import (
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gofrs/flock"
)

// From Acquire to Release, a run holds an flock on its own lock file, which only its user can read. If the process dies,
// the kernel drops the flock.

const (
	lockFileSuffix = ".lock"
	// lockFileRetention is the minimum time that an unlocked lock file is kept, counted from its creation. A run leaves one if
	// it is killed or cannot delete its Lease; other runs then know that it is dead.
	lockFileRetention = 7 * 24 * time.Hour
)

// safeRunID matches the run IDs that are safe as a file name: a Lease may contain anything.
var safeRunID = regexp.MustCompile(`^[a-z0-9]{8,32}$`)

// acquireLockFile creates and locks the lock file of a run. It returns nil on failure: if a run without a lock
// file is killed, other runs have to wait for its Lease to expire.
func acquireLockFile(dir, runID string) *flock.Flock {
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	removeOldLockFiles(dir)
	f := flock.New(filepath.Join(dir, runID+lockFileSuffix))
	if locked, err := f.TryLock(); !locked || err != nil {
		_ = os.Remove(f.Path()) // an unlocked file would show other runs that this one is dead
		return nil
	}
	return f
}

// releaseLockFile unlocks a lock file and, if asked to, removes it.
func releaseLockFile(f *flock.Flock, remove bool) {
	if f == nil {
		return
	}
	if remove {
		_ = os.Remove(f.Path()) // removeOldLockFiles does it later if this fails
	}
	_ = f.Close()
}

// dead reports whether a holder is dead. It is known only if the holder ran on this machine and its lock file exists.
func (o Options) dead(h Holder) (dead, known bool) {
	host, err := os.Hostname()
	if o.LockDir == "" || err != nil || host != h.Host || !safeRunID.MatchString(h.RunID) {
		return false, false
	}
	return lockFileFree(filepath.Join(o.LockDir, h.RunID+lockFileSuffix))
}

// lockFileFree reports whether a lock file is unlocked; known is false if it is missing or unreadable. It tries a shared
// lock, because several processes may ask at once.
func lockFileFree(path string) (free, known bool) {
	f := flock.New(path, flock.SetFlag(os.O_RDONLY)) // not created if it is missing
	free, err := f.TryRLock()
	_ = f.Close()
	return free, err == nil
}

// removeOldLockFiles removes unlocked lock files that are older than lockFileRetention. Errors are ignored.
func removeOldLockFiles(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) != lockFileSuffix || time.Since(info.ModTime()) < lockFileRetention {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if free, known := lockFileFree(path); free && known {
			_ = os.Remove(path)
		}
	}
}
