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

// Ledger tracks the records of a release as one run last read or wrote them. Every write of a record
// carries the known resourceVersion, and so fails if somebody else has changed the record. Seal
// marks the start of the run: from then on, a newer revision, or a changed status of a known one,
// means that somebody else has taken the release, and the ledger refuses all writes (R51a).
type Ledger struct {
	namespace, release string
	onLost             func(error)

	mu      sync.Mutex
	entries map[int]*entry // by revision
	sealed  bool
	lost    error // a *lease.LostError
}

// entry is the known state of a record.
type entry struct {
	uid      types.UID
	version  string           // resourceVersion; uid and version are "" in storages without versions
	status   rcommon.Status   // "" if the record may not exist
	sent     []rcommon.Status // by writes without an answer
	deleting bool             // the run has sent a delete request
}

// snapshot is the state of a record in the storage.
type snapshot struct {
	revision int
	status   rcommon.Status
	uid      types.UID
	version  string
}

// NewLedger returns the ledger of a run. It calls onLost, which may be nil, when it first detects that
// somebody else has changed a record.
func NewLedger(namespace, release string, onLost func(error)) *Ledger {
	return &Ledger{namespace: namespace, release: release, onLost: onLost, entries: map[int]*entry{}}
}

// Seal marks the start of the run, which is based on the records read so far. The first write also
// seals the ledger.
func (l *Ledger) Seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
}

// Check reads all records. It returns a *lease.LostError if somebody else has changed them.
func (l *Ledger) Check(s *storage.Storage) error {
	history, err := s.History(l.release) // the ledger's driver observes the records
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("read release %s: %w", l.release, err)
	}
	exists := map[int]bool{}
	for _, r := range history {
		rel, err := AsV1(r)
		if err != nil {
			return err
		}
		exists[rel.Version] = true
	}
	return l.checkLatest(exists)
}

// checkLatest returns an error if the release is lost, or if the latest known revision no longer
// exists although no uninstall was in progress and the run did not delete it.
func (l *Ledger) checkLatest(exists map[int]bool) error {
	l.mu.Lock()
	latest := 0
	for revision, e := range l.entries {
		if e.status != "" {
			latest = max(latest, revision)
		}
	}
	e, lost := l.entries[latest], l.lost
	gone := e != nil && !exists[latest] && !e.deleting && e.status != rcommon.StatusUninstalling
	l.mu.Unlock()
	if lost == nil && gone {
		return l.lose("the release was uninstalled by somebody else")
	}
	return lost
}

// lose records that somebody else has taken the release, and returns the error for all further writes.
func (l *Ledger) lose(why string) error {
	l.mu.Lock()
	first := l.lost == nil
	if first {
		l.lost = &lease.LostError{Release: l.release, Namespace: l.namespace, Why: why, RecordChanged: true}
	}
	err := l.lost
	l.mu.Unlock()
	if first && l.onLost != nil {
		l.onLost(err)
	}
	return err
}

// observe updates the ledger with a record that was read. It returns an error if somebody
// else has changed the record.
func (l *Ledger) observe(s snapshot) error {
	if why := l.update(s); why != "" {
		return l.lose(why)
	}
	return nil
}

// update updates the entry of a record that was read. If somebody else has changed the record, it
// keeps the entry and returns how the record has changed.
func (l *Ledger) update(s snapshot) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[s.revision]
	switch {
	case e == nil && l.sealed && s.revision > l.latest():
		return fmt.Sprintf("revision %d (%s) was created in the meantime", s.revision, s.status)
	case e == nil:
		e = &entry{}
		l.entries[s.revision] = e
	case l.sealed && e.uid != "" && s.uid != e.uid:
		return fmt.Sprintf("revision %d was deleted and recreated, and is now %s", s.revision, s.status)
	case l.sealed && s.status != e.status && !slices.Contains(e.sent, s.status):
		return fmt.Sprintf("revision %d changed from %s to %s", s.revision, e.expected(), s.status)
	}
	e.uid, e.version, e.status = s.uid, s.version, s.status
	return ""
}

// expected returns the status that the record should have.
func (e *entry) expected() rcommon.Status {
	if e.status == "" && len(e.sent) > 0 {
		return e.sent[0]
	}
	return e.status
}

// latest returns the latest known revision. The caller must hold l.mu.
func (l *Ledger) latest() (latest int) {
	for revision := range l.entries {
		latest = max(latest, revision)
	}
	return latest
}

// errDeployed is the error for marking a deployed revision failed.
var errDeployed = errors.New("it is deployed, and a deployed revision cannot be marked failed")

// knows reports whether a record was read or its write was confirmed.
func (l *Ledger) knows(revision int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[revision]
	return e != nil && e.status != ""
}

// beginWrite records that a status is about to be written, and returns the known state of the
// record. It returns an error if the status must not be written.
func (l *Ledger) beginWrite(revision int, status rcommon.Status) (known entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	if l.lost != nil {
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

// endWrite records the result of a write. If there was no answer, the status stays in sent, because
// it may have been stored.
func (l *Ledger) endWrite(sent, stored snapshot, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[sent.revision]
	switch {
	case e == nil:
	case err == nil:
		*e = entry{uid: stored.uid, version: stored.version, status: sent.status}
	case answered(err) || errors.Is(err, driver.ErrReleaseExists):
		at := slices.Index(e.sent, sent.status) // an earlier one may have the same status
		e.sent = slices.Delete(e.sent, at, at+1)
		if e.status == "" && len(e.sent) == 0 {
			delete(l.entries, sent.revision)
		}
	}
}

// beginDelete records that a record is about to be deleted, and returns its known state. It
// returns an error if the release is lost.
func (l *Ledger) beginDelete(revision int) (known entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	if l.lost != nil {
		return entry{}, l.lost
	}
	if e := l.entries[revision]; e != nil {
		e.deleting = true
		return *e, nil
	}
	return entry{}, nil
}

func (l *Ledger) endDelete(revision int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, revision)
}

// permanent reports whether repeating a failed write is useless.
func permanent(err error) bool {
	var lost *lease.LostError
	return answered(err) || errors.As(err, &lost) || errors.Is(err, errDeployed)
}
