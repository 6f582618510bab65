// Package operation carries out what is done to a release: Helm's own actions,
// between the decorators of its client and of its storage, one file an
// operation. What comes before them (the namespace, crds/) is in prelude.go,
// what comes after them, rollbacks included, in ending.go.
package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/mask"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
	"lockstep/kube/release"
)

// Common are the options that all operations share.
type Common = preflight.Common

// Operation is something that is about to be done, or is being done, to a
// release. Everything has been checked; nothing has been written.
type Operation struct {
	client   *connect.Client
	prepared *preflight.Prepared
	method
	masked sync.Once
	*shared
}

// method is how an operation is carried out.
type method struct {
	main task
	undo *undo    // nil where there is nothing to go back to
	edit *Upgrade // what an edit begins with (R46), nil where nothing is applied
}

// course is what an operation shares with those that edits make of it.
type shared struct {
	feed   event.Feed
	mask   mask.Mask
	writes connect.Writes
	ledger *release.Ledger
	lock   lockState

	mu     sync.Mutex // of what follows
	engine *run.Engine
	early  []event.Command
	// outlooks answer what is asked of single objects: of the revision under way and,
	// once that has begun, of its rollback.
	outlooks outlooks
	// now is the operation whose revision is under way, attempt how, nil before it
	// has begun; made tells that one which was replaced has been made.
	now     *Operation
	attempt *attempt
	made    bool
	// edits are those that were ordered, by their numbers from 1.
	edits []*Edited
	// brought are the operations whose revisions have begun, as they were planned.
	revisions []*Operation
}

func newOperation(c *connect.Client, p *preflight.Prepared, how method) *Operation {
	op := &Operation{client: c, prepared: p, method: how, shared: &shared{}}
	op.now, op.revisions = op, []*Operation{op}
	op.ledger = release.NewLedger(p.Common.Namespace, p.Common.Release, op.stop)
	op.lock.ctx, op.lock.lose = context.WithCancelCause(context.Background())
	op.writes.Guard(op.guard)
	return op
}

// prepare opens a session for an operation that may be carried out, and plans in it.
// common is completed. Secret values are hidden in the error.
func prepare(ctx context.Context, c *connect.Client, common *Common, plan func(*preflight.Session) (*Operation, error)) (*Operation, error) {
	ctx, cancel := common.Within(ctx)
	defer cancel()
	s, err := preflight.OpenAlone(ctx, c, *common)
	if err != nil {
		return nil, err
	}
	op, err := plan(s)
	return op, s.Secrets.Error(err)
}

// present is the operation whose revision is under way: this one, or what an edit
// has made of it.
func (op *Operation) present() *Operation {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.now
}

// job is what one attempt carries out: the operation itself, or its rollback.
type task struct {
	spec spec
	do   func(*attempt) (*rel1.Release, error)
}

// undo is how an operation is rolled back (R33). What that takes is read when it
// begins.
type undo struct {
	info event.Operation
	task func(*attempts) (task, error)
}

// Feed is the record of the operation. It ends when Run returns.
func (op *Operation) Feed() *event.Feed { return &op.feed }

// Info names the operation: what is done to which release, and where.
func (op *Operation) Info() event.Operation { return op.prepared.Info }

// Phases is what will run, in order.
func (op *Operation) Phases() []event.Phase { return op.prepared.Phases }

// Warnings are about the chart.
func (op *Operation) Warnings() []plan.Warning { return op.Mask().Warnings(op.prepared.Warnings) }

// Refused is what keeps an operation that is only planned from being carried out.
func (op *Operation) Refused() []plan.Warning { return op.Mask().Warnings(op.prepared.Refused) }

// Preview is the release as it would be stored.
func (op *Operation) Preview() *rel1.Release { return op.prepared.Target.Release }

// Changes says what Run would do to each object. It writes nothing.
func (op *Operation) Changes(ctx context.Context) ([]preview.Change, error) {
	changes, err := preview.Changes(ctx, op.client, op.prepared)
	for i, c := range changes {
		changes[i] = c.Masked(op.Mask().Text)
	}
	return changes, op.Mask().Error(err)
}

// Mask hides the secret values of what is brought and of what is there. All that
// the operation tells has gone through it.
func (op *Operation) Mask() *mask.Mask {
	op.masked.Do(func() {
		p := op.prepared
		op.mask.Release(p.Target.Release)
		op.mask.Release(p.Old.Release)
		op.mask.Public(p.Info.Name, p.Info.Release, p.Info.Namespace, p.Info.Chart, p.Info.Context)
		for _, phase := range p.Phases {
			for _, g := range phase.Groups {
				op.mask.Public(g.ID)
				for _, o := range g.Objects {
					op.mask.Public(o.String())
				}
			}
		}
	})
	return &op.mask
}

// Command gives an order to the run; before Run it is kept for its start.
func (op *Operation) Command(c event.Command) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.engine == nil {
		op.early = append(op.early, c)
		return
	}
	if c.Name == event.Edit && c.Edit == 0 && c.Values != "" {
		go op.editFrom(op.engine, c) // it takes requests
		return
	}
	op.engine.Command(c)
}

// Run carries the operation out, from its first event to its last. What it
// returns is why it failed; the exit code is in the State that the feed draws.
func (op *Operation) Run() error {
	op.feed.Mask = op.Mask().Event
	return op.Mask().Error(op.run())
}

// called is what a request is about, in the plan's words where it is of the plan.
func (op *Operation) displayName(t connect.Target) string {
	for _, phase := range op.Phases() {
		for _, g := range phase.Groups {
			for _, o := range g.Objects {
				plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: o.Kind})
				if plural.Resource == t.Resource && o.Group == t.Group && o.Namespace == t.Namespace && o.Name == t.Name {
					return o.String()
				}
			}
		}
	}
	return strings.TrimSpace(t.Resource + " " + t.Name)
}

func (op *Operation) run() error {
	eng := op.start()
	warn := warnOnce(eng.Publish, op.prepared.Warnings)
	defer op.client.Link().Listen(connect.Listener{Of: &op.writes, Away: eng.Away, Back: eng.Back, Trying: warnRecordRetries(eng), Warned: func(t connect.Target, text string) {
		warn(plan.Warning{Message: op.displayName(t) + ": the API server warns: " + text})
	}})()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	eng.Announce(op.phasesWithUsual()...)
	for _, w := range op.prepared.Warnings {
		eng.Publish(event.OfWarning(w))
	}
	defer op.unlock()
	as, err := op.attempts(ctx, eng)
	if err != nil {
		return op.fail(nil, nil, err)
	}
	defer as.stopWatching()
	return op.runToEnd(as)
}

// carry carries the operation out to its end.
func (op *Operation) runToEnd(as *attempts) error {
	a, status, err := as.runTask(op.main)
	if err == nil {
		err = op.engine.Finish(run.End{Status: event.Succeeded, Release: status})
	}
	if err == nil {
		return nil
	}
	return op.fail(as, a, err)
}

// announced are the phases with how long their groups usually take.
func (op *Operation) phasesWithUsual() []event.Phase {
	phases := slices.Clone(op.prepared.Phases)
	for n, p := range phases {
		usual := map[string]time.Duration{}
		for _, g := range p.Groups {
			if took, known := op.prepared.Usual[event.Unit{Phase: p.Name, Group: g.ID}]; known {
				usual[g.ID] = took
			}
		}
		if len(usual) > 0 {
			phases[n].Usual = usual
		}
	}
	return phases
}

// troubleAfter is how long a write of the release record is tried again without a
// word.
const recordRetryGrace = 3 * time.Second

// recordTrouble tells that the API server takes no release record, each answer
// once: no object's events would tell (R53).
func warnRecordRetries(eng *run.Engine) func(connect.Target, time.Time, string) {
	known := map[string]bool{}
	return func(t connect.Target, since time.Time, answer string) {
		if !strings.HasPrefix(t.Name, "sh.helm.release.v1.") || time.Since(since) < recordRetryGrace || known[answer] {
			return
		}
		known[answer] = true
		eng.Publish(event.Event{Kind: event.KindWarning, Rule: "R53", Message: fmt.Sprintf("release record %s, retrying: %s", t.Name, answer)})
	}
}

func (op *Operation) start() *run.Engine {
	op.mu.Lock()
	defer op.mu.Unlock()
	common := op.prepared.Common
	op.engine = run.New(run.Options{
		Operation: op.prepared.Info, Feed: &op.feed, Paused: common.Step, Breakpoints: common.BreakOn,
		HoldOnFailure: common.HoldOnFailure, Heartbeat: common.Heartbeat, Diagnose: op.client.Diagnose,
	})
	for _, c := range op.early {
		op.engine.Command(c)
	}
	return op.engine
}

// attempts makes what the operation and its rollback share: the engine, and what is
// seen of the cluster, until ctx ends.
func (op *Operation) attempts(ctx context.Context, eng *run.Engine) (*attempts, error) {
	notice := func(w plan.Warning) { eng.Publish(event.OfWarning(w)) }
	runWatcher, stopWatching, err := op.prepared.Common.Watches.Open(ctx, op.client, notice)
	if err != nil {
		return nil, err
	}
	return &attempts{op: op, engine: eng, runWatcher: runWatcher, stopWatching: stopWatching}, nil
}

// publishNotes tells the notes of a release.
func publishNotes(eng *run.Engine, rel *rel1.Release) {
	if rel == nil || rel.Info == nil || strings.TrimSpace(rel.Info.Notes) == "" {
		return
	}
	eng.Publish(event.Event{Kind: event.KindNotes, Lines: strings.Split(strings.TrimRight(rel.Info.Notes, "\n"), "\n")})
}
