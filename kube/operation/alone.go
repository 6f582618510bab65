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
	"lockstep/kube/release"
)

// One run at a time (R51): the Lease of the release is taken before the first
// write, kept while the operation is rolled back, and given back at the end.

// holding is what an operation holds of its release.
type holding struct {
	mu    sync.Mutex
	lease *lease.Lease // nil where it does without, or has not come to it
	end   context.CancelFunc
	// kept ends when the Lease is lost. It is nil where there is none.
	kept context.Context
	lose context.CancelCauseFunc
	// undoing tells that the rollback has begun: the first order to stop is only
	// answered then (R43).
	undoing bool
}

// alone takes the Lease of the release, and then makes sure that its latest
// revision is the one that was planned on: another run may have come and gone. A
// rollback that is part of an operation goes on with that one's Lease.
func (a *attempt) alone(planned *rel1.Release) (*rel1.Release, error) {
	if a.spec.prefix == "" {
		if err := a.op.acquire(a.engine); err != nil {
			return nil, err
		}
	}
	return a.since(planned)
}

// acquire takes the Lease of the release, where there are Leases.
func (op *Operation) acquire(eng *run.Engine) error {
	p := op.prepared
	if p.Lease.Kind == lease.Unavailable || op.holds() { // that has been told, or an edit goes on with it
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
	l, found, err := lease.Acquire(run.Winding(eng.Requests()), client.Leases(p.Common.Namespace), p.Common.Namespace, p.Common.Release, p.Info.Name, p.Lease, opts)
	if l == nil {
		end()
		if err == nil {
			eng.Publish(event.OfWarning(found.Warning()))
		}
		return err
	}
	op.hold.mu.Lock()
	op.hold.lease, op.hold.end = l, end
	op.hold.kept, op.hold.lose = context.WithCancelCause(ctx)
	op.hold.mu.Unlock()
	op.writes.Guard(l.Guard)
	go func() {
		select {
		case <-l.Lost():
			op.stop(eng, l.Err())
		case <-ctx.Done():
		}
	}()
	return nil
}

// stop ends a run that has lost its Lease, whatever it is about.
func (op *Operation) stop(eng *run.Engine, why error) {
	op.hold.lose(why)
	eng.Publish(event.Event{Kind: event.KindWarning, Rule: "R51", Message: why.Error()})
	stop := event.Command{Name: event.Stop, Reason: why.Error()}
	eng.Command(stop)
	op.hold.mu.Lock()
	defer op.hold.mu.Unlock()
	if op.hold.undoing {
		eng.Command(stop)
	}
}

// holds reports whether the operation holds the Lease of the release.
func (op *Operation) holds() bool {
	op.hold.mu.Lock()
	defer op.hold.mu.Unlock()
	return op.hold.lease != nil
}

// kept is a context that ends when the Lease is lost.
func (op *Operation) kept() context.Context {
	op.hold.mu.Lock()
	defer op.hold.mu.Unlock()
	if op.hold.kept == nil {
		return context.Background()
	}
	return op.hold.kept
}

// lost is why the operation must not write any more, nil where it may.
func (op *Operation) lost() error {
	op.hold.mu.Lock()
	defer op.hold.mu.Unlock()
	if op.hold.lease == nil {
		return nil
	}
	return op.hold.lease.Err()
}

// undoes notes that the rollback is about to begin.
func (op *Operation) undoes() {
	op.hold.mu.Lock()
	defer op.hold.mu.Unlock()
	op.hold.undoing = true
}

// giveBackTime is how long to try to give a Lease back: as long as an API server
// is away that is only started anew. Then it is left to be found dead.
const giveBackTime = 10 * time.Second

// giveBack gives the Lease back that the operation holds.
func (op *Operation) giveBack() {
	op.hold.mu.Lock()
	defer op.hold.mu.Unlock()
	if op.hold.lease == nil {
		return
	}
	defer op.hold.end()
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
	defer cancel()
	if err := op.hold.lease.Release(ctx); err != nil {
		op.client.Log().Warn(err.Error())
	}
	op.hold.lease = nil
}

// meanwhileError refuses to go on: the release is not what was planned on.
type meanwhileError struct{ message string }

func (e *meanwhileError) Error() string { return e.message }

// since reads the latest revision again, and refuses to go on where that is not
// the one that was planned on, as it was then.
func (a *attempt) since(planned *rel1.Release) (*rel1.Release, error) {
	name := a.op.prepared.Common.Release
	last, there, err := release.Last(a.helm.Config.Releases, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look again for release %s: %w", name, err)
	case !there && planned == nil, there && planned != nil && release.Same(last, planned):
		return last, nil
	case there:
		return nil, &meanwhileError{fmt.Sprintf("release %s: revision %d, %s, has come in between: another operation is under way, or was; look again what is to be done", name, last.Version, last.Info.Status)}
	}
	return nil, &meanwhileError{fmt.Sprintf("release %s is gone: another operation has uninstalled it meanwhile", name)}
}

// refused reports whether an error is that another run has come first.
func refused(err error) bool {
	var held *lease.HeldError
	var meanwhile *meanwhileError
	return errors.As(err, &held) || errors.As(err, &meanwhile)
}
