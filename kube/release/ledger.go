package release

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube/lease"
)

// Ledger knows the records of a release as one run has last read or written them.
// Every write of a record goes through it, and names the resourceVersion that is
// known, so that a change by somebody else makes it fail. Once it is sealed, the
// run has begun: a newer revision, or another status of a known one, is somebody
// else's work, and nothing is written any more (R51a).
type Ledger struct {
	namespace, release string
	taken              func(error)

	mu      sync.Mutex
	entries map[int]*entry // by revision
	sealed  bool
	lost    error // a *lease.LostError
}

// entry is a record as it is known.
type entry struct {
	uid     types.UID
	version string           // its resourceVersion; both are "" where the storage has none
	status  rcommon.Status   // "" for one that may not have been stored
	sent    []rcommon.Status // without an answer so far
	going   bool             // its deletion was sent
}

// snapshot is what the storage says of a record.
type snapshot struct {
	revision int
	status   rcommon.Status
	uid      types.UID
	version  string
}

// NewLedger returns the ledger of a run. taken is told once that somebody else has
// changed a record, nil for nobody.
func NewLedger(namespace, release string, taken func(error)) *Ledger {
	return &Ledger{namespace: namespace, release: release, taken: taken, entries: map[int]*entry{}}
}

// Seal notes that the run has begun, on the records as they were read. Its first
// write does so, too.
func (l *Ledger) Seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
}

// Look reads all records. The error is a *lease.LostError where somebody else has
// changed them.
func (l *Ledger) Look(s *storage.Storage) error {
	history, err := s.History(l.release) // which notes them
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("read release %s: %w", l.release, err)
	}
	there := map[int]bool{}
	for _, r := range history {
		rel, err := AsV1(r)
		if err != nil {
			return err
		}
		there[rel.Version] = true
	}
	return l.missing(there)
}

// missing returns an error where the latest revision that is known is gone, and the
// run is not about to delete it, or its namespace took it along.
func (l *Ledger) missing(there map[int]bool) error {
	l.mu.Lock()
	latest := 0
	for revision, e := range l.entries {
		if e.status != "" {
			latest = max(latest, revision)
		}
	}
	e, lost := l.entries[latest], l.lost
	gone := e != nil && !there[latest] && !e.going && e.status != rcommon.StatusUninstalling
	l.mu.Unlock()
	if lost == nil && gone {
		return l.take("the release was uninstalled by somebody else")
	}
	return lost
}

// take notes that somebody else has the release, and returns the error of all that
// would be written from now on.
func (l *Ledger) take(why string) error {
	l.mu.Lock()
	first := l.lost == nil
	if first {
		l.lost = &lease.LostError{Release: l.release, Namespace: l.namespace, Why: why}
	}
	err := l.lost
	l.mu.Unlock()
	if first && l.taken != nil {
		l.taken(err)
	}
	return err
}

// note takes in a record that was read. The error means that somebody else has
// changed it.
func (l *Ledger) note(s snapshot) error {
	if why := l.differs(s); why != "" {
		return l.take(why)
	}
	return nil
}

// differs says how a record that was read is other than it should be, "" where it
// is not, and takes it in then.
func (l *Ledger) differs(s snapshot) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[s.revision]
	switch {
	case e == nil && l.sealed && s.revision > l.latest():
		return fmt.Sprintf("revision %d (%s) was created meanwhile", s.revision, s.status)
	case e == nil:
		e = &entry{}
		l.entries[s.revision] = e
	case l.sealed && e.uid != "" && s.uid != e.uid:
		return fmt.Sprintf("revision %d was deleted and recreated, and is now %s", s.revision, s.status)
	case l.sealed && s.status != e.status && !slices.Contains(e.sent, s.status):
		return fmt.Sprintf("revision %d is now %s, and was %s", s.revision, s.status, e.said())
	}
	e.uid, e.version, e.status = s.uid, s.version, s.status
	return ""
}

// said is what a record should say.
func (e *entry) said() rcommon.Status {
	if e.status == "" && len(e.sent) > 0 {
		return e.sent[0]
	}
	return e.status
}

// latest returns the latest revision that is known. It needs l.mu.
func (l *Ledger) latest() (latest int) {
	for revision := range l.entries {
		latest = max(latest, revision)
	}
	return latest
}

// errDeployed refuses to mark a revision failed that is deployed: whatever ends a
// run, that is what the release is.
var errDeployed = errors.New("it is deployed, and a deployed revision cannot be marked failed")

// knows reports whether a record was read, or written with an answer.
func (l *Ledger) knows(revision int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[revision]
	return e != nil && e.status != ""
}

// begin asks whether a status may be written, over which record, and notes that it
// will be.
func (l *Ledger) begin(revision int, status rcommon.Status) (over entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed = true; l.lost != nil {
		return entry{}, l.lost
	}
	e := l.entries[revision]
	if e == nil {
		e = &entry{}
		l.entries[revision] = e
	}
	if e.status == rcommon.StatusDeployed && status == rcommon.StatusFailed {
		return entry{}, fmt.Errorf("revision %d of release %s: %w", revision, l.release, errDeployed)
	}
	e.sent = append(e.sent, status)
	return *e, nil
}

// end notes what happened to a status that was sent. What was not answered may
// be stored all the same.
func (l *Ledger) end(sent, made snapshot, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[sent.revision]
	switch {
	case e == nil:
	case err == nil:
		*e = entry{uid: made.uid, version: made.version, status: sent.status}
	case answered(err) || errors.Is(err, driver.ErrReleaseExists):
		at := slices.Index(e.sent, sent.status) // one of those may have been sent before
		e.sent = slices.Delete(e.sent, at, at+1)
		if e.status == "" && len(e.sent) == 0 {
			delete(l.entries, sent.revision)
		}
	}
}

// deletes asks whether a record may be deleted, and notes that it will be.
func (l *Ledger) deletes(revision int) (over entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed = true; l.lost != nil {
		return entry{}, l.lost
	}
	if e := l.entries[revision]; e != nil {
		e.going = true
		return *e, nil
	}
	return entry{}, nil
}

// deleted notes that a record is gone.
func (l *Ledger) deleted(revision int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, revision)
}

// final reports whether an error of a write stays, however often it is repeated.
func final(err error) bool {
	var lost *lease.LostError
	return answered(err) || errors.As(err, &lost) || errors.Is(err, errDeployed)
}
