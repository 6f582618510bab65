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

// The lock files of runs: a run keeps a lock on a file of its own for as long as
// its process lives, whatever ends that. They are only for the user's eyes.

const (
	lockSuffix = ".lock"
	// lockKept is how long the files of runs that were killed are kept for those
	// who find their Leases.
	lockKept = 7 * 24 * time.Hour
)

// runID is what the ids of runs look like, so that what a Lease says can be part
// of a file's name.
var runID = regexp.MustCompile(`^[a-z0-9]{8,32}$`)

// self is the holder that this process is in a new run.
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

// lock takes the lock of a run. It returns nil where that is not possible: the
// run does without, and once it is dead others have to wait for its Lease.
func lock(dir, run string) *flock.Flock {
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	sweep(dir)
	f := flock.New(filepath.Join(dir, run+lockSuffix))
	if locked, err := f.TryLock(); !locked || err != nil {
		_ = f.Close() // it may be open, and is of no use
		return nil
	}
	return f
}

// unlock lets go of a lock, and of its file where nobody needs that any more.
func unlock(f *flock.Flock, remove bool) {
	if f == nil {
		return
	}
	if remove {
		_ = os.Remove(f.Path()) // or else sweep does, in time
	}
	_ = f.Close()
}

// dead reports whether a holder is known to be dead: it ran on this machine, and
// nobody has its lock. Where that is not known it may be dead nevertheless.
func (o Options) dead(h Holder) (dead, known bool) {
	host, err := os.Hostname()
	if o.LockDir == "" || err != nil || host != h.Host || !runID.MatchString(h.Run) {
		return false, false
	}
	return unlocked(filepath.Join(o.LockDir, h.Run+lockSuffix))
}

// unlocked reports whether nobody has the lock of a file that is there. Several
// may ask at once: each for a shared lock.
func unlocked(path string) (free, known bool) {
	f := flock.New(path, flock.SetFlag(os.O_RDONLY)) // it is not made where it is missing
	free, err := f.TryRLock()
	_ = f.Close()
	return free, err == nil
}

// sweep removes the files of runs that were killed long ago. What it cannot
// remove stays.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) != lockSuffix || time.Since(info.ModTime()) < lockKept {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if free, known := unlocked(path); free && known {
			_ = os.Remove(path)
		}
	}
}
