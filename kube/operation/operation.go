// Package operation plans Helm's actions and runs them with wrapped versions of Helm's Kubernetes client and storage.
// Deploy, Rollback, Uninstall and ReleaseTest hold their options; the Prepare functions turn these into an
// Operation. Operation.Run makes an attempt: the namespace and crds/ (prelude.go), Helm's action, and the final state
// (failure.go). If it fails, the rollback is a second attempt (rollback_on_failure.go). Only packages
// kube and kube/stack import it.
package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/mask"
	"lockstep/kube/planfile"
	"lockstep/kube/preview"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Common holds the options that all operations share.
type Common = session.Common

// Operation is a checked and planned operation on a release. Run executes it.
type Operation struct {
	client    *connect.Client
	checked   *connect.Client // the connection of its checks; nil if this operation was made without them
	diagnoser *diagnose.Diagnoser
	prepared  *session.Prepared // the plan of main
	main      task
	// rollback is nil if there is nothing to roll back to.
	rollback *rollbackPlan
	// editOptions are the options that edits (R46) change, nil if the operation has no chart to edit.
	editOptions *Deploy
	// doneMessage is the message of the closing event after a success, "" for none.
	doneMessage string
	// unplanned is why this pod of a Job cannot plan the run that an earlier one began; nil if it can. Run then ends it.
	unplanned error
	*shared
}

// shared is the state that an operation and its edited revisions (R46) share.
type shared struct {
	feed   event.Feed
	writes connect.Writes
	ledger *release.Ledger
	taken  *cluster.TakenOver
	// applied are the objects of the operation that a Check looks at; nil for others.
	applied *cluster.Applied
	lock    *lockState

	mu              sync.Mutex // guards the fields below
	engine          *run.Engine
	pendingCommands []event.Command // received before the engine started
	// breakpoints and disabledBreakpoints are added by BreakOn.
	breakpoints, disabledBreakpoints []string
	noReturn                         []string         // by PassNoReturn before the engine started
	passedBefore                     []string         // by KeepNoReturn
	others                           map[string]int   // by KeepNoReturn
	approvedBefore                   []event.Approval // by KeepApprovals
	shown                            *planfile.Shown  // see Shown
	// previewers preview single objects of the running revision and, once it has started,
	// of the rollback.
	previewers previewers
	// running is the operation whose revision is being deployed. attempt is its attempt, nil until that starts.
	running  *Operation
	attempt  *attempt
	attempts []*attempt // all, in order
	// createdBeforeEdit is set if an edit has replaced a revision that was already created,
	// rollbackStarted when the rollback on failure starts.
	createdBeforeEdit bool
	rollbackStarted   bool
	kept              *string // by the last Kept
	// edits are the edits for which Command was called; their ids start at 1.
	edits []*Edit
	// revisions are the original operation and the edits that have started.
	revisions []*Operation
}

func newOperation(c *connect.Client, main task) *Operation {
	op := &Operation{client: c, diagnoser: diagnose.New(c.Clientset, c.Dynamic, c.Getter), prepared: main.prepared, main: main, shared: &shared{}}
	p := op.prepared
	op.Mask().AddRelease(p.Target.Release)
	op.Mask().AddNames(p.Info.Name, p.Info.Release, p.Info.Namespace, p.Info.Chart, p.Info.Context)
	op.Mask().AddPlan(p.Phases)
	op.running = op
	op.setLedger(release.NewLedger(op.prepared.Common.Namespace, op.prepared.Common.Release))
	if op.taken = p.Common.Taken; op.taken == nil {
		op.taken = cluster.NewTakenOver(p.Taken)
	}
	op.revisions = []*Operation{op}
	op.lock = &lockState{}
	op.lock.ctx, op.lock.cancel = context.WithCancelCause(context.Background())
	op.writes.SetGuard(op.guard)
	op.feed.OnEvent = op.noteWait
	return op
}

// ErrCompleted is the error of an operation that an earlier pod of the same Job has completed.
var ErrCompleted = errors.New("an earlier pod of this Job has completed the operation")

type planFunc func(*session.Session, *connect.Client) (*Operation, error)

// prepare completes the options, calls check (unless it is nil) before it sends any request, opens a session and calls
// makePlan with it. It returns an error if another run has locked the release. If an earlier pod of the Job has
// completed the operation, it deletes that pod's Lease, if it is still there, and returns ErrCompleted. Secret values
// are masked in errors of makePlan. If check or makePlan fails after an earlier pod has changed the release, the operation
// only ends the run, as e says.
func prepare(ctx context.Context, c *connect.Client, common *Common, e ending, check func() error, makePlan planFunc) (*Operation, error) {
	completed, err := common.Complete(c.Namespace())
	if err != nil {
		return nil, err
	}
	*common = completed
	if failed := checkStart(*common, check); failed != nil && common.Journal.Before().Start == nil {
		return nil, failed
	} else if failed != nil {
		makePlan = func(*session.Session, *connect.Client) (*Operation, error) { return nil, failed }
	}
	ctx, cancel := common.WithTimeout(ctx)
	defer cancel()
	s, err := session.OpenIfUnlocked(ctx, c, *common)
	if err != nil {
		return nil, common.Mask.Error(err)
	}
	if completedByJob(s) {
		if err := s.Lease.DeleteStale(s.Context, s.Client.Leases(common.Namespace)); err != nil {
			return nil, fmt.Errorf("release %s: delete the lock of a killed run: %w", common.Release, err)
		}
		return nil, ErrCompleted
	}
	if common.Journal.IsLost() {
		var lost error
		if common.Journal, lost = findStart(s); lost != nil {
			makePlan = func(*session.Session, *connect.Client) (*Operation, error) { return nil, lost }
		}
		s.Common.Journal = common.Journal
	}
	if common.Continues != nil {
		if err := s.LookAtRecords(ctx); err != nil {
			return nil, err
		}
	}
	defer s.Ledger.ReadAgain()
	op, err := makePlan(s, c)
	if err == nil {
		err = op.checkSavedPlan(ctx, *common)
	}
	if lost := s.Ledger.Lost(); lost != nil {
		return nil, lost
	}
	if err != nil {
		if op = e.unplanned(s, c, common.Mask.Error(err)); op != nil {
			err = nil
		}
	}
	if op != nil {
		if common.Journal.Before().Start != nil { // the run began in an earlier pod (S13)
			s.Ledger.Seal(time.Time{})
		}
		op.setLedger(s.Ledger)
		op.checked = s.Client
	}
	return op, common.Mask.Error(err)
}

// setLedger sets the ledger of the release records. Call it before Run.
func (op *Operation) setLedger(l *release.Ledger) {
	op.ledger = l
	l.OnLost(op.loseLock)
}

// current returns the operation whose revision is being deployed: this one, or an edit of it.
func (op *Operation) current() *Operation {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.running
}

// task is what an attempt runs: the action of the operation, or its rollback on failure.
type task struct {
	// prepared is the plan. The plan of a rollback on failure has no phases: they are planned while it runs.
	prepared *session.Prepared
	do       func(*attempt) (*rel1.Release, error)
	options  any // of the operation, a pointer to a struct, for saved plans

	rollbackOnFailure bool                   // the task is the rollback of a failed operation
	untouched         func(plan.Object) bool // what that operation has neither applied nor deleted, nil if it is not known
	uninstalling      bool
	deletionTimeout   time.Duration // for one object, 0 for no limit
	checksDeployed    bool          // the task checks a release that this run has deployed
	tests             bool          // the task ends with the tests of the release (S11)
	cleanupOnFail     bool          // the failure of a test deletes what the upgrade has created

	// reorder returns the record of the revision that is about to be stored. Nil means that of the plan.
	reorder func(*session.Prepared, *helmclient.Client, *rel1.Release) (*release.Record, error)
}

// prefix returns the prefix of the names of phases.
func (t task) prefix() string {
	if t.rollbackOnFailure {
		return event.RollbackPrefix
	}
	return ""
}

// rollbackPlan is the rollback of an operation (R33). prepare is called when it starts.
type rollbackPlan struct {
	info    event.Operation
	prepare func(*runner) (task, error)
	target  *rel1.Release // whose hooks it runs
	hooks   helmclient.HookEvents
}

// Feed returns the events of the operation. It ends when Run returns.
func (op *Operation) Feed() *event.Feed { return &op.feed }

// Info describes the operation, its release and the cluster.
func (op *Operation) Info() event.Operation { return op.prepared.Info }

// Phases returns the phases that Run runs, in order.
func (op *Operation) Phases() []event.Phase { return op.prepared.Phases }

// Unmatched returns warnings about what the operator says of objects that the release does not have, by Override.For. Those
// of a release in a stack are not among its Warnings.
func (op *Operation) Unmatched() map[string]plan.Warning { return op.prepared.Unmatched }

// Warnings returns the warnings about the chart and the plan.
func (op *Operation) Warnings() []plan.Warning { return op.Mask().Warnings(op.prepared.Warnings) }

// Conflicts returns the conflicts of an operation prepared with PlanOnly. Without PlanOnly they are an error.
func (op *Operation) Conflicts() []plan.Warning { return op.Mask().Warnings(op.prepared.Conflicts) }

// Preview returns the rendered release that an install or upgrade deploys.
func (op *Operation) Preview() *rel1.Release { return op.prepared.Target.Release }

// Tree returns the chart tree that the operation is planned by, nil if it has no order (R27).
func (op *Operation) Tree() *plan.Chart { return op.prepared.Target.Tree }

// Changes returns the action and the diff for each object that Run would write. It writes nothing.
func (op *Operation) Changes(ctx context.Context) ([]inspect.Change, error) {
	changes, err := preview.Changes(ctx, op.client, op.prepared)
	for i, c := range changes {
		changes[i] = c.Masked(op.Mask().Diff)
	}
	return changes, op.Mask().Error(err)
}

// Mask returns the mask for the secret values of the run. Everything that the operation reports goes through it.
func (op *Operation) Mask() *mask.Mask { return op.prepared.Common.Mask }

// Run runs the operation to the end and returns why it failed. The closing event has the exit code.
func (op *Operation) Run() error {
	op.feed.Mask = op.Mask().Event
	return op.Mask().Error(op.run())
}

// publishWarnings publishes the warnings about the plan.
func (op *Operation) publishWarnings(eng *run.Engine) {
	for _, w := range op.prepared.Warnings {
		e := event.WarningEvent(w)
		e.Code = event.PlanWarning
		eng.Publish(e)
	}
}

func (op *Operation) run() error {
	kept, outdated := op.keptSteering(context.Background())
	eng := op.start(kept)
	for _, w := range outdated {
		eng.Publish(event.WarningEvent(w))
	}
	warn := warnOnce(eng.Publish, op.prepared.Warnings)
	stopListening := op.client.Link().Listen(connect.Listener{
		Writes:      &op.writes,
		Unreachable: eng.ServerUnreachable,
		Reachable:   eng.ServerReachable,
		Retrying:    warnRecordRetries(eng),
		Warning: func(t connect.Target, text string) {
			warn(plan.Warning{Message: op.displayName(t) + ": the API server warns: " + text})
		},
	})
	defer stopListening()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	eng.Announce(op.phasesWithDurations()...)
	op.publishWarnings(eng)
	r, err := op.newRunner(ctx, eng)
	if err != nil {
		return op.fail(nil, nil, err)
	}
	defer r.stopWatching()
	if err := op.keepStart(ctx); err != nil {
		return op.fail(nil, nil, err)
	}
	if ended, err := r.continueEnding(); ended {
		return err
	}
	return op.runToEnd(r)
}

// runToEnd runs the operation, and its rollback if it fails.
func (op *Operation) runToEnd(r *runner) error {
	a, status, err := r.runOperation()
	if err == nil {
		err = op.engine.Finish(run.End{Status: event.Succeeded, Release: status, Message: text.Join("; ", op.doneMessage, op.Kept())})
	}
	if err == nil {
		return nil
	}
	return op.fail(r, a, err)
}

// start starts the engine as an earlier pod has kept it, nil for none, and sends it the queued commands.
func (op *Operation) start(kept *run.Steering) *run.Engine {
	op.mu.Lock()
	common := op.prepared.Common
	op.engine = run.New(run.Options{
		Operation: op.prepared.Info, Feed: &op.feed, Diagnose: op.diagnose, Refresh: op.refresh, LookAtPods: op.lookAtPods, Heartbeat: common.Heartbeat,
		Paused: common.Step, HoldOnFailure: common.HoldOnFailure, InStack: common.Stack != "",
		Breakpoints: slices.Concat(op.prepared.Breakpoints, op.breakpoints), DisabledBreakpoints: op.disabledBreakpoints,
		PausesBefore: op.prepared.PausesBefore(),
		Approve:      op.prepared.Approved, Author: lease.NewAuthor(common.Job).Name,
		NoReturn: slices.Concat(op.prepared.NoReturn, op.noReturn), PastNoReturn: common.PastNoReturn,
		Kept: kept, Keep: common.Journal.SteeringKeeper(op.keepSteering),
		BeforeEnd: op.endRun,
	})
	op.lock.mu.Lock()
	op.lock.engine = op.engine
	op.lock.mu.Unlock()
	op.mu.Unlock()
	for _, c := range op.pendingCommands { // no more are queued once the engine is set
		op.Command(c)
	}
	return op.engine
}

// Diagnoser returns the Diagnoser of the run, which remembers how its containers failed.
func (op *Operation) Diagnoser() *diagnose.Diagnoser { return op.diagnoser }

// diagnose finds out why an object is not ready, by the rule by which the run waits for it.
func (op *Operation) diagnose(ctx context.Context, o plan.Object) run.Finding {
	d := op.diagnoser.WithMask(op.Mask())
	op.mu.Lock()
	if op.attempt != nil {
		d = d.WithRules(op.attempt.runWatcher.Watcher.RuleOf)
	}
	op.mu.Unlock()
	return d.Object(ctx, o).Finding
}

// refresh makes the watches of an object and its pods report their state.
func (op *Operation) refresh(ctx context.Context, o plan.Object) {
	op.mu.Lock()
	a := op.attempt
	op.mu.Unlock()
	if a != nil {
		a.runWatcher.Signs.LookAtPods(ctx, []plan.Object{o})
		a.runWatcher.Watcher.Refresh(ctx, o)
	}
}

// lookAtPods makes the watches of pods report the state of the workloads among the objects.
func (op *Operation) lookAtPods(ctx context.Context, objects []plan.Object) {
	op.mu.Lock()
	a := op.attempt
	op.mu.Unlock()
	if a != nil {
		a.runWatcher.Signs.LookAtPods(ctx, objects)
	}
}

// newRunner opens the watches that the operation and its rollback share. They end with ctx.
func (op *Operation) newRunner(ctx context.Context, eng *run.Engine) (*runner, error) {
	notice := func(w plan.Warning) { eng.Publish(event.WarningEvent(w)) }
	runWatcher, stopWatching, err := op.prepared.Common.Watches.Open(ctx, op.client, notice)
	if err != nil {
		return nil, err
	}
	return &runner{op: op, engine: eng, runWatcher: runWatcher, stopWatching: stopWatching}, nil
}
