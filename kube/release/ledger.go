package release

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube/lease"
)

// Ledger tracks the records of a release as one run last read or wrote them. Every write of a record
// carries the known resourceVersion, and so fails if somebody else has changed the record. Seal
// marks the start of the run: from then on, a newer revision, or a changed status of a known one,
// means that somebody else has taken the release, and the ledger refuses all writes (R51a).
//
// A run has one ledger for each release, which it keeps from planning to its last write, also for a
// rollback. So nothing can roll back, mark or remove a revision that the run does not know as the newest.
type Ledger struct {
	namespace, release string

	mu      sync.Mutex
	onLost  func(error)
	entries map[int]*entry // by revision
	deleted map[int]Span   // of the revisions that the run has deleted
	sealed  bool
	lost    *lease.LostError
	newest  func() *rel1.Release // reads the newest revision, nil if that fails
	last    look                 // that succeeded
	writes  int                  // that have ended
	shared  *sharedRead          // nil if each read is sent
}

// entry is the known state of a record.
type entry struct {
	uid      types.UID
	version  string           // resourceVersion; uid and version are "" in storages without versions
	status   rcommon.Status   // "" if the record may not exist
	sent     []rcommon.Status // by writes without an answer
	deleting bool             // the run has sent a delete request
	changed  bool             // somebody else has changed the status
	untested bool             // it may be marked failed although it is deployed
	span     Span
}

// snapshot is the state of a record in the storage.
type snapshot struct {
	revision int
	status   rcommon.Status
	uid      types.UID
	version  string
	span     Span
}

// NewLedger returns the ledger of a run.
func NewLedger(namespace, release string) *Ledger {
	return &Ledger{namespace: namespace, release: release, entries: map[int]*entry{}, deleted: map[int]Span{}, last: look{now: time.Now}}
}

// OnLost sets the function to call when the ledger first detects that somebody else has changed a record.
func (l *Ledger) OnLost(f func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onLost = f
}

// Lost returns a *lease.LostError if somebody else has taken the release.
func (l *Ledger) Lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lostErr()
}

// lostErr is Lost for callers that hold l.mu.
func (l *Ledger) lostErr() error {
	if l.lost == nil {
		return nil
	}
	return l.lost
}

// Latest returns the latest known revision and its status, 0 for none.
func (l *Ledger) Latest() (revision int, status rcommon.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for v, e := range l.entries {
		if e.status != "" && v > revision {
			revision, status = v, e.status
		}
	}
	return revision, status
}

// UIDs returns the UIDs of the known records, by revision.
func (l *Ledger) UIDs() map[int]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[int]string{}
	for revision, e := range l.entries {
		if e.uid != "" {
			all[revision] = string(e.uid)
		}
	}
	return all
}

// Seal marks the start of the run, which is based on the records read so far. read is when the last read of all records
// began, zero if that is unknown. The first write also seals the ledger.
func (l *Ledger) Seal(read time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	if read.After(l.last.began) {
		l.last.began, l.last.ended = read, l.last.now()
	}
}

// updateAll updates the ledger with a list of all records, unless a write of this run has ended since there were before
// writes. Then the list may be older than the ledger, and current is false.
func (l *Ledger) updateAll(all Snapshots, before int) (why string, newer *event.NewerRevision, current bool) {
	// The latest one first, which gives the best message about changes by others.
	slices.SortFunc(all, func(a, b snapshot) int { return b.revision - a.revision })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes != before {
		return "", nil, false
	}
	exists := map[int]bool{}
	for _, s := range all {
		if why, newer = l.update(s); why != "" {
			return why, newer, true
		}
		exists[s.revision] = true
	}
	why, newer = l.latestGone(exists)
	return why, newer, true
}

// latestGone returns why the release is lost if the latest known revision no longer exists, although no uninstall was in
// progress and the run did not delete it. The caller must hold l.mu.
func (l *Ledger) latestGone(exists map[int]bool) (why string, newer *event.NewerRevision) {
	latest := 0
	for revision, e := range l.entries {
		if e.status != "" {
			latest = max(latest, revision)
		}
	}
	e := l.entries[latest]
	if !l.sealed || e == nil || exists[latest] || e.deleting || e.status == rcommon.StatusUninstalling {
		return "", nil
	}
	newest := 0
	for revision := range exists {
		newest = max(newest, revision)
	}
	left := l.entries[newest]
	if left == nil {
		return "the release was uninstalled by somebody else", &event.NewerRevision{Status: event.NoRelease}
	}
	left.changed = true // it is the newest one now, and not by its author
	return fmt.Sprintf("the record of revision %d was deleted by somebody else", latest), &event.NewerRevision{Revision: newest, Status: left.status.String()}
}

// lose records that somebody else has taken the release, and returns the error for all further writes. newer is nil if the
// newest revision is not somebody else's.
func (l *Ledger) lose(why string, newer *event.NewerRevision) error {
	why, newer = l.explainLoss(why, newer)
	l.mu.Lock()
	first := l.lost == nil
	if first {
		l.lost = &lease.LostError{Release: l.release, Namespace: l.namespace, Why: why, RecordChanged: true, Newer: newer}
	}
	err, onLost := l.lostErr(), l.onLost
	l.mu.Unlock()
	if first && onLost != nil {
		onLost(err)
	}
	return err
}

// explainLoss reads the newest revision and its author. A changed record may be the first sign of a newer revision.
func (l *Ledger) explainLoss(why string, newer *event.NewerRevision) (string, *event.NewerRevision) {
	l.mu.Lock()
	read, latest := l.newest, l.latest()
	changed := newer != nil && l.entries[newer.Revision] != nil && l.entries[newer.Revision].changed // not by its author
	l.mu.Unlock()
	if read == nil || newer != nil && newer.Revision == 0 {
		return why, newer
	}
	rel := read()
	switch {
	case rel != nil && rel.Version > latest:
		why = fmt.Sprintf("revision %d (%s) was created in the meantime", rel.Version, rel.Info.Status)
	case rel == nil || newer == nil || changed || rel.Version != newer.Revision:
		return why, newer
	}
	author := AuthorOf(rel).String()
	return why + " by " + author, &event.NewerRevision{Revision: rel.Version, Status: rel.Info.Status.String(), Author: author}
}

// observe updates the ledger with a record that was read. It returns an error if somebody
// else has changed the record.
func (l *Ledger) observe(s snapshot) error {
	if lost := l.Lost(); lost != nil {
		return lost
	}
	l.mu.Lock()
	why, newer := l.update(s)
	l.mu.Unlock()
	if why != "" {
		return l.lose(why, newer)
	}
	return nil
}

// update updates the entry of a record that was read. If somebody else has changed the record, it
// keeps the entry and returns how the record has changed, and the newest revision if it is somebody else's. The caller must
// hold l.mu.
func (l *Ledger) update(s snapshot) (why string, newer *event.NewerRevision) {
	e := l.entries[s.revision]
	switch {
	case e == nil && l.sealed: // a lower number is that of a new installation
		why = fmt.Sprintf("revision %d (%s) was created in the meantime", s.revision, s.status)
		return why, &event.NewerRevision{Revision: s.revision, Status: s.status.String()}
	case e == nil:
		e = &entry{}
		l.entries[s.revision] = e
	case l.sealed && e.uid != "" && s.uid != e.uid:
		why = fmt.Sprintf("revision %d was deleted and recreated as %s", s.revision, s.status)
		return why, &event.NewerRevision{Revision: s.revision, Status: s.status.String()}
	case l.sealed && s.status != e.status && !slices.Contains(e.sent, s.status):
		why = fmt.Sprintf("revision %d changed from %s to %s", s.revision, e.expected(), s.status)
		if s.revision == l.latest() {
			e.changed, newer = true, &event.NewerRevision{Revision: s.revision, Status: s.status.String()}
		}
		return why, newer
	}
	e.uid, e.version, e.status, e.span = s.uid, s.version, s.status, s.span
	return "", nil
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

// errDeployed is the error for marking a deployed revision failed: the answer to the write that made it deployed may have been lost.
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
	l.sealed, l.shared = true, nil
	if l.lost != nil {
		return entry{}, l.lost
	}
	e := l.entries[revision]
	if e == nil {
		e = &entry{}
		l.entries[revision] = e
	}
	if e.status == rcommon.StatusDeployed && status == rcommon.StatusFailed && !e.untested {
		return entry{}, fmt.Errorf("revision %d of release %s: %w", revision, l.release, errDeployed)
	}
	e.sent = append(e.sent, status)
	return *e, nil
}

// AllowFailed allows the run to mark a revision failed although it is deployed: its tests have not passed (S11).
func (l *Ledger) AllowFailed(revision int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[revision]; e != nil {
		e.untested = true
	}
}

// endWrite records the result of a write. If there was no answer, the status stays in sent, because
// it may have been stored.
func (l *Ledger) endWrite(sent, stored snapshot, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	e := l.entries[sent.revision]
	switch {
	case e == nil:
	case err == nil:
		*e = entry{uid: stored.uid, version: stored.version, status: sent.status, span: stored.span}
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
	l.sealed, l.shared = true, nil
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
	l.writes++
	if e := l.entries[revision]; e != nil {
		l.deleted[revision] = e.span
	}
	delete(l.entries, revision)
}

// permanent reports whether repeating a failed write is useless. An overload (429) passes.
func permanent(err error) bool {
	var lost *lease.LostError
	return answered(err) && !apierrors.IsTooManyRequests(err) || errors.As(err, &lost) || errors.Is(err, errDeployed)
}
