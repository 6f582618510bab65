package lease

import (
	"crypto/rand"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Each run has a lock file that it locks as long as its process lives. Only its user can
// read it.

const (
	lockSuffix = ".lock"
	// lockRetention is how long files of killed runs are kept, so that other runs can tell that
	// the holders of their Leases are dead.
	lockRetention = 7 * 24 * time.Hour
)

// runID matches ids of runs that are safe as a file name: a Lease may contain anything.
var runID = regexp.MustCompile(`^[a-z0-9]{8,32}$`)

// self is this process as the holder of a new run.
func self(operation string) Holder {
	h := Holder{User: "unknown", Process: os.Getpid(), Run: strings.ToLower(rand.Text()[:12]), Operation: operation, Since: time.Now().UTC().Truncate(time.Second)}
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	} else if id := os.Getuid(); id >= 0 {
		h.User = "user " + strconv.Itoa(id)
	}
	h.Host, _ = os.Hostname()
	return h
}

// lock takes the lock of a run. It returns nil if that fails; then other runs have to wait
// for the Lease to expire if this run is killed.
func lock(dir, run string) *flock.Flock {
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	sweep(dir)
	f := flock.New(filepath.Join(dir, run+lockSuffix))
	if locked, err := f.TryLock(); !locked || err != nil {
		_ = f.Close() // it may be open
		return nil
	}
	return f
}

// unlock releases a lock and, if asked to, removes its file.
func unlock(f *flock.Flock, remove bool) {
	if f == nil {
		return
	}
	if remove {
		_ = os.Remove(f.Path()) // sweep removes it later if this fails
	}
	_ = f.Close()
}

// dead reports whether a holder is dead, if that is known: it ran on this machine, and
// its lock is free.
func (o Options) dead(h Holder) (dead, known bool) {
	host, err := os.Hostname()
	if o.LockDir == "" || err != nil || host != h.Host || !runID.MatchString(h.Run) {
		return false, false
	}
	return unlocked(filepath.Join(o.LockDir, h.Run+lockSuffix))
}

// unlocked reports whether the lock of an existing file is free. Several processes may
// ask at once, so it tries a shared lock.
func unlocked(path string) (free, known bool) {
	f := flock.New(path, flock.SetFlag(os.O_RDONLY)) // not created if it is missing
	free, err := f.TryRLock()
	_ = f.Close()
	return free, err == nil
}

// sweep removes the files of runs that were killed long ago. Errors are ignored.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) != lockSuffix || time.Since(info.ModTime()) < lockRetention {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if free, known := unlocked(path); free && known {
			_ = os.Remove(path)
		}
	}
}
