package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// lockState is the state of the operation's Lease (R51, R51a). The operation acquires it before its first write to the
// release, or Lock does before Run, keeps it during the rollback and releases it at the end.
type lockState struct {
	ctx    context.Context         // ends when the lock is lost
	cancel context.CancelCauseFunc // of ctx

	mu    sync.Mutex // guards the fields below
	lease *heldLease // nil until it is acquired, and if Leases are unavailable
	// lostErr is why the lock is lost. Once it is set, no more writes are sent.
	lostErr error
	// records lists the release records, nil until they are first listed.
	records release.Records
	engine  *run.Engine // of the run, nil before Run, and after it if the lock is retained

	retained bool // at the end of Run
}

func (s *lockState) state() (l *heldLease, lostErr error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease, s.lostErr
}

// acquireLock acquires the Lease, then verifies that the latest revision is still the expected one. A rollback on failure
// already has the operation's Lease.
func (a *attempt) acquireLock(expected *rel1.Release) (*rel1.Release, error) {
	if !a.task.rollbackOnFailure {
		if err := a.op.acquire(a.engine.RequestContext(), a.engine.Publish); err != nil {
			return nil, err
		}
	}
	return a.verifyUnchanged(expected)
}

// acquireLockAndWriteMarks is like acquireLock, but then also writes the marks of killed runs.
func (a *attempt) acquireLockAndWriteMarks(expected *rel1.Release) (*rel1.Release, error) {
	last, err := a.acquireLock(expected)
	if err != nil || a.task.rollbackOnFailure || len(a.op.prepared.Marks) == 0 {
		return last, err
	}
	name := a.op.prepared.Common.Release
	for _, m := range a.op.prepared.Marks {
		if err := m.Write(a.helm.Config.Releases, name); err != nil {
			return nil, err
		}
	}
	return release.MustExist(release.Last(a.helm.Config.Releases, name))
}

// Lock acquires the Lease of the release before Run, for programs that run before it, and verifies that nobody has changed the
// release since planning. Run releases it; without Run, call Unlock. Before the namespace exists, only Run can lock the release. publish
// gets the warnings.
func (op *Operation) Lock(ctx context.Context, publish func(event.Event)) error {
	if err := op.acquire(ctx, publish); apierrors.IsNotFound(err) && op.prepared.Last == nil {
		return nil
	} else if err != nil {
		return err
	}
	op.ledger.Seal(time.Time{})
	return op.checkRecords(ctx)
}

// RetainLock makes Run keep the Lease at its end, for programs that run after it. It is called before Run; then call Unlock.
func (op *Operation) RetainLock() { op.lock.retained = true }

// endRun unlocks the release at the end of Run, unless the lock is retained.
func (op *Operation) endRun() {
	if !op.lock.retained {
		op.Unlock(op.feed.Publish)
		return
	}
	op.lock.mu.Lock()
	op.lock.engine = nil
	op.lock.mu.Unlock()
}

// KeepLock takes over the Lease of an operation that this one replaces before Run.
func (op *Operation) KeepLock(replaced *Operation) {
	if replaced.HoldsLease() {
		op.lock = replaced.lock
	}
}

// acquire acquires the Lease of the release. If Leases turn out to be unavailable, it warns and returns nil.
func (op *Operation) acquire(ctx context.Context, publish func(event.Event)) error {
	p := op.prepared
	if p.Lease.Status == lease.Unavailable || op.HoldsLease() { // already warned about, or an edit reuses it
		return nil
	}
	opts := p.Common.Lease
	opts.OnWait = func(message string) { publish(event.Event{Kind: event.KindWarning, Rule: "R51", Message: message}) }
	params := lease.Params{
		Namespace: p.Common.Namespace, Release: p.Common.Release, Operation: p.Info.Name, Job: p.Common.Job, Stack: p.Common.Stack, CheckRecords: op.checkRecords,
		OnUnavailable: func(s lease.State) { publish(event.WarningEvent(s.Warning())) },
	}
	l, found, err := acquireLease(run.RetryContext(ctx), op.client, params, p.Lease, opts)
	if err != nil {
		op.ledger.Seal(time.Time{}) // what changes from now on is the work of another run
		return err
	}
	if l == nil {
		publish(event.WarningEvent(found.Warning()))
		return nil
	}
	op.lock.mu.Lock()
	op.lock.lease = l
	op.lock.mu.Unlock()
	go func() {
		select {
		case <-l.Lost():
			op.loseLock(l.Err())
		case <-l.ctx.Done():
		}
	}()
	return nil
}

// heldLease is a Lease with the context of its requests. That context outlives the run's, because the Lease must be
// released even after a stop.
type heldLease struct {
	*lease.Lease
	ctx context.Context
	end context.CancelFunc // ends ctx
}

// acquireLease acquires the Lease of a release. If Leases are unavailable, it returns nil and the State that says why.
func acquireLease(ctx context.Context, c *connect.Client, params lease.Params, found lease.State, opts lease.Options) (*heldLease, lease.State, error) {
	requests, end := context.WithCancel(context.Background())
	client, err := c.Bind(requests, &connect.Writes{})
	if err != nil {
		end()
		return nil, found, err
	}
	l, found, err := lease.Acquire(ctx, client.Leases(params.Namespace), params, found, opts)
	if l == nil {
		end()
		return nil, found, err
	}
	return &heldLease{l, requests, end}, found, nil
}

// unlockTimeout limits the attempts to delete the Lease, as finalizeTimeout limits those to make its record final.
const unlockTimeout = finalizeTimeout

// unlock deletes the Lease and ends its requests. Later calls do nothing.
func (l *heldLease) unlock() error {
	if l.ctx.Err() != nil {
		return nil
	}
	defer l.end()
	ctx, cancel := context.WithTimeout(l.ctx, unlockTimeout)
	defer cancel()
	return l.Release(ctx)
}

// checkRecords returns an error if somebody else has changed the release records, or if they cannot be read.
func (op *Operation) checkRecords(ctx context.Context) error {
	return op.ledger.Look(ctx, op.listRecords)
}

// lookAgain looks at the release records because somebody has deleted an object: if the release is somebody else's now, the run stops at
// once instead of waiting for the object. If the namespace goes, the records go with it, and the object's failure says so.
func (op *Operation) lookAgain(ctx context.Context) {
	op.ledger.Waited()
	_ = op.ledger.Admit(ctx, func(ctx context.Context) (release.Snapshots, error) { // the next write or the end of the run reports an error
		if deletion := preflight.DeletionOf(ctx, op.client, op.prepared.Common.Namespace); deletion != "" {
			return nil, errors.New(deletion)
		}
		return op.listRecords(ctx)
	})
}

// listRecords lists the release records. Its requests end with ctx, or when the lock is lost.
func (op *Operation) listRecords(ctx context.Context) (release.Snapshots, error) {
	op.lock.mu.Lock()
	list := op.lock.records
	op.lock.mu.Unlock()
	if list == nil {
		s, err := op.newSession(op.lock.ctx, &connect.Writes{})
		if err != nil {
			return nil, err
		}
		list = s.Records()
		op.lock.mu.Lock()
		op.lock.records = list
		op.lock.mu.Unlock()
	}
	return list(ctx)
}

// guard is called before each write. It waits until the lock is confirmed, and returns an error if the lock is lost or the
// release has a newer revision (R51b).
func (op *Operation) guard(ctx context.Context, atOnce bool) error {
	l, lostErr := op.lock.state()
	if lostErr != nil {
		return lostErr
	}
	if l != nil {
		if err := l.Guard(ctx); err != nil {
			return err
		}
	}
	if atOnce {
		return op.ledger.Current()
	}
	err := op.ledger.Admit(ctx, op.listRecords)
	if err != nil && ctx.Err() != nil { // aborted, maybe during the look: nothing is retried any more, but this write may still be sent
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookTimeout)
		defer cancel()
		err = op.ledger.Admit(last, op.listRecords)
	}
	return err
}

// lastLookTimeout limits the look at the records before a write after an abort.
const lastLookTimeout = 3 * time.Second

// noteWait tells the ledger that the run has waited: for a group that has ended, or while it was paused or held.
func (op *Operation) noteWait(e event.Event) {
	if e.Kind == event.KindRun || e.Kind == event.KindGroup && e.Status.Over() {
		op.ledger.Waited()
	}
}

// loseLock records that the lock is lost, and stops the run.
func (op *Operation) loseLock(why error) {
	op.lock.mu.Lock()
	first, eng := op.lock.lostErr == nil, op.lock.engine
	if first {
		op.lock.lostErr = why
	}
	op.lock.mu.Unlock()
	op.lock.cancel(why)
	if !first || eng == nil {
		return
	}
	eng.Publish(event.Event{Kind: event.KindWarning, Rule: "R51a", Message: why.Error()})
	eng.Command(event.Command{Name: event.Stop, Reason: why.Error(), KnowsRollback: true}) // it needs no confirmation (R43)
}

// HoldsLease reports whether the operation has acquired the Lease and not released it.
func (op *Operation) HoldsLease() bool {
	l, _ := op.lock.state()
	return l != nil && l.ctx.Err() == nil
}

// lost returns why the lock is lost, nil if it is not.
func (op *Operation) lost() error {
	l, lostErr := op.lock.state()
	if lostErr == nil && l != nil {
		return l.Err()
	}
	return lostErr
}

// Unlock deletes the Lease at the end of Run, or after Lock or RetainLock, and warns if it stays. Later calls do nothing.
func (op *Operation) Unlock(publish func(event.Event)) {
	l, _ := op.lock.state()
	if l == nil {
		return
	}
	if err := l.unlock(); err != nil {
		publish(event.Event{Kind: event.KindWarning, Rule: "R51", Message: err.Error()})
	}
}

// changedError reports that the release changed after it was planned.
type changedError struct {
	message string
	newer   event.NewerRevision
}

func (e *changedError) Error() string { return e.message }

// NewerRevision returns the newest revision of the release if err says that another writer created it, else nil.
func NewerRevision(err error) *event.NewerRevision {
	var lost *lease.LostError
	var changed *changedError
	switch {
	case errors.As(err, &lost):
		return lost.Newer
	case errors.As(err, &changed):
		return &changed.newer
	}
	return nil
}

// verifyUnchanged reads the latest revision again and returns it. expected is nil if the release should not exist. If the
// latest revision differs, the error is a *changedError.
func (a *attempt) verifyUnchanged(expected *rel1.Release) (*rel1.Release, error) {
	name, began := a.op.prepared.Common.Release, time.Now()
	last, found, err := release.Last(a.helm.Config.Releases, name)
	if err != nil {
		return nil, fmt.Errorf("read release %s again: %w", name, err)
	}
	if !found {
		last = nil
	}
	if err := changedSince(name, expected, last); err != nil {
		return nil, err
	}
	a.op.ledger.Seal(began)
	return last, nil
}

// changedSince returns a *changedError if the latest revision is not the expected one; either may be nil.
func changedSince(name string, expected, last *rel1.Release) error {
	switch {
	case last == nil && expected == nil, last != nil && expected != nil && release.Same(last, expected):
		return nil
	case last != nil:
		author := release.AuthorOf(last).String()
		return &changedError{
			fmt.Sprintf("release %s changed since planning (now revision %d, %s, by %s); run the command again", name, last.Version, last.Info.Status, author),
			event.NewerRevision{Revision: last.Version, Status: last.Info.Status.String(), Author: author},
		}
	}
	return &changedError{
		fmt.Sprintf("release %s was uninstalled since planning; run the command again", name), event.NewerRevision{Status: event.NoRelease},
	}
}

// lostRace reports whether an operation failed because another run came first.
func lostRace(err error) bool {
	var locked *lease.LockedError
	var changed *changedError
	return errors.As(err, &locked) || errors.As(err, &changed)
}
