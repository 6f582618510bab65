package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// One run at a time (R51, R51a): the Lease of the release is taken before the first
// write, kept while the operation is rolled back, and given back at the end.

// holding is what an operation holds of its release.
type lockState struct {
	// kept ends when somebody else has the release: lose ends it.
	ctx  context.Context
	lose context.CancelCauseFunc

	mu    sync.Mutex   // of what follows
	lease *lease.Lease // nil where it does without, or has not come to it
	end   context.CancelFunc
	// taken is why nothing is written any more: somebody else has the release.
	lostErr error
	// undoing tells that the rollback has begun: the first order to stop is only
	// answered then (R43).
	undoing bool
}

// alone takes the Lease of the release, and then makes sure that its latest
// revision is the one that was planned on: another run may have come and gone. A
// rollback that is part of an operation goes on with that one's Lease.
func (a *attempt) lockRelease(planned *rel1.Release) (*rel1.Release, error) {
	if a.spec.prefix == "" {
		if err := a.op.acquire(a.engine); err != nil {
			return nil, err
		}
	}
	return a.verifyUnchanged(planned)
}

// acquire takes the Lease of the release, where there are Leases.
func (op *Operation) acquire(eng *run.Engine) error {
	p := op.prepared
	if p.Lease.Kind == lease.Unavailable || op.holdsLease() { // that has been told, or an edit goes on with it
		return nil
	}
	ctx, end := context.WithCancel(context.Background()) // not the engine's: it outlives a stop
	client, err := op.client.Bind(ctx, &connect.Writes{})
	if err != nil {
		end()
		return err
	}
	opts := p.Common.Lease
	opts.Waits = func(message string) { eng.Publish(event.Event{Kind: event.KindWarning, Rule: "R51", Message: message}) }
	mine := lease.Run{
		Namespace: p.Common.Namespace, Release: p.Common.Release, Operation: p.Info.Name, CheckRecords: op.checkRecords,
		OnForbidden: func(s lease.State) { eng.Publish(event.OfWarning(s.Warning())) },
	}
	l, found, err := lease.Acquire(run.Winding(eng.Requests()), client.Leases(p.Common.Namespace), mine, p.Lease, opts)
	if l == nil {
		end()
		if err == nil {
			eng.Publish(event.OfWarning(found.Warning()))
		}
		return err
	}
	op.lock.mu.Lock()
	op.lock.lease, op.lock.end = l, end
	op.lock.mu.Unlock()
	go func() {
		select {
		case <-l.Lost():
			op.stop(l.Err())
		case <-ctx.Done():
		}
	}()
	return nil
}

// checkRecords reports whether the release records are as this run left them.
func (op *Operation) checkRecords(ctx context.Context) error {
	s, err := preflight.NewSession(ctx, op.client, op.prepared.Common, &connect.Writes{}, op.ledger)
	if err != nil {
		return err
	}
	return op.ledger.Look(s.Releases())
}

// guard lets what writes go while the release is this run's.
func (op *Operation) guard(ctx context.Context) error {
	op.lock.mu.Lock()
	l, lostErr := op.lock.lease, op.lock.lostErr
	op.lock.mu.Unlock()
	if lostErr != nil || l == nil {
		return lostErr
	}
	return l.Guard(ctx)
}

// stop ends a run whose release somebody else has, whatever it is about.
func (op *Operation) stop(why error) {
	op.lock.mu.Lock()
	first, undoing := op.lock.lostErr == nil, op.lock.undoing
	if first {
		op.lock.lostErr = why
	}
	op.lock.mu.Unlock()
	op.lock.lose(why)
	op.mu.Lock()
	eng := op.engine
	op.mu.Unlock()
	if !first || eng == nil {
		return
	}
	eng.Publish(event.Event{Kind: event.KindWarning, Rule: "R51a", Message: why.Error()})
	stop := event.Command{Name: event.Stop, Reason: why.Error()}
	eng.Command(stop)
	if undoing {
		eng.Command(stop)
	}
}

// holds reports whether the operation holds the Lease of the release.
func (op *Operation) holdsLease() bool {
	op.lock.mu.Lock()
	defer op.lock.mu.Unlock()
	return op.lock.lease != nil
}

// lost is why the operation must not write any more, nil where it may.
func (op *Operation) lost() error {
	op.lock.mu.Lock()
	defer op.lock.mu.Unlock()
	if op.lock.lostErr == nil && op.lock.lease != nil {
		return op.lock.lease.Err()
	}
	return op.lock.lostErr
}

// undoes notes that the rollback is about to begin.
func (op *Operation) noteRollback() {
	op.lock.mu.Lock()
	defer op.lock.mu.Unlock()
	op.lock.undoing = true
}

// giveBackTime is how long to try to give a Lease back: as long as an API server
// is away that is only started anew. Then it is left to be found dead.
const unlockTime = 10 * time.Second

// giveBack gives the Lease back that the operation holds.
func (op *Operation) unlock() {
	op.lock.mu.Lock()
	l, end := op.lock.lease, op.lock.end
	op.lock.mu.Unlock()
	if l == nil {
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), unlockTime)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		op.client.Log().Warn(err.Error())
	}
}

// meanwhileError refuses to go on: the release is not what was planned on.
type changedError struct{ message string }

func (e *changedError) Error() string { return e.message }

// since reads the latest revision again, and refuses to go on where that is not
// the one that was planned on, as it was then.
func (a *attempt) verifyUnchanged(planned *rel1.Release) (*rel1.Release, error) {
	name := a.op.prepared.Common.Release
	last, there, err := release.Last(a.helm.Config.Releases, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read release %s again: %w", name, err)
	case !there && planned == nil, there && planned != nil && release.Same(last, planned):
		a.op.ledger.Seal()
		return last, nil
	case there:
		return nil, &changedError{fmt.Sprintf("release %s changed since planning (now revision %d, %s); rerun", name, last.Version, last.Info.Status)}
	}
	return nil, &changedError{fmt.Sprintf("release %s was uninstalled by another operation", name)}
}

// refused reports whether an error is that another run has come first.
func lostRace(err error) bool {
	var held *lease.HeldError
	var meanwhile *changedError
	return errors.As(err, &held) || errors.As(err, &meanwhile)
}
