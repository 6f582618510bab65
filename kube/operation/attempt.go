package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	helmstorage "helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/drift"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// runner runs the attempts of one operation.
type runner struct {
	op           *Operation
	engine       *run.Engine
	runWatcher   cluster.RunWatcher
	stopWatching func() // ends runWatcher
}

// attempt is one run of a Helm action: the operation or its rollback. The engine can cancel its requests.
type attempt struct {
	*runner
	task           task
	helm           *connect.Helm
	session        cluster.Session
	client         *helmclient.Client
	driver         *release.Driver
	preludeStarted bool // a phase of the prelude has started
	// crdsApplied is set if applying crds/ may have changed which kinds the cluster serves.
	crdsApplied bool
	// confirmReady waits, once, until all groups are ready at the same time. unready is its error.
	confirmReady func() error
	unready      error
	// untested is the revision whose tests have not passed yet, 0 for none.
	untested int
}

// newAttempt returns an attempt with Helm's client and storage wrapped.
func (r *runner) newAttempt(t task) (*attempt, error) {
	ps, err := r.newSession()
	if err != nil {
		return nil, err
	}
	session := cluster.Session{
		Client:         ps.Client,
		Builder:        ps.Builder(t.prepared.Target.Root()),
		RunWatcher:     r.runWatcher,
		KeepBrokenPods: r.op.prepared.Common.KeepBrokenPods,
		Resumes:        r.op.prepared.Resumes,
		Replaces:       t.prepared.Replaces(),
		Claims:         t.prepared.Target.Claims,
		Taken:          r.op.taken,
		Applied:        cmp.Or(r.op.applied, cluster.NewApplied()),
		Warn:           warnOnce(r.engine.Publish, r.op.prepared.Warnings),
	}
	var driver *release.Driver
	check := r.planCheck(t)
	session.Gone = func() { go r.op.lookAgain(r.engine.RequestContext()) } // somebody may be uninstalling the release
	session.BeforeWrite = func(ctx context.Context, g *plan.Group, o plan.Object, removes bool) error {
		if check != nil {
			if err := check(ctx, g, o, removes); err != nil {
				return err
			}
		}
		if g.NoReturn == "" || removes || t.rollbackOnFailure {
			return nil
		}
		return driver.SaveNoReturn(r.op.prepared.Common.Release, g.NoReturn)
	}
	client := helmclient.New(r.clientConfig(t, ps, session))
	var a *attempt
	confirmReady := sync.OnceValue(func() error {
		a.unready = a.awaitAllReady()
		return a.unready
	})
	driver = r.newDriver(t, ps.Helm, client, confirmReady)
	r.op.taken.SaveWith(func() error { return driver.SaveTaken(r.op.prepared.Common.Release) })
	ps.Helm.Config.KubeClient = client
	ps.Helm.Config.HookOutputFunc = client.Output
	ps.Helm.Config.Releases = helmstorage.Init(driver)
	a = &attempt{runner: r, task: t, helm: ps.Helm, session: session, client: client, driver: driver, confirmReady: confirmReady}
	r.op.mu.Lock()
	defer r.op.mu.Unlock()
	r.op.attempts = append(r.op.attempts, a)
	return a, nil
}

func (r *runner) clientConfig(t task, ps *session.Session, session cluster.Session) helmclient.Config {
	p, common := t.prepared, r.op.prepared.Common
	return helmclient.Config{
		Context: ps.Context,
		Inner:   ps.Helm.Client,
		Session: session,
		Engine:  r.engine,
		Options: helmclient.Options{
			Prefix:      t.prefix(),
			Wait:        common.WaitStrategy(),
			InStack:     common.Stack != "",
			SkipLeaves:  common.SkipLeaves,
			Jobs:        common.WaitForJobs,
			Readiness:   common.ReadinessTimeout,
			FirstStatus: max(common.FirstStatusTimeout, 0),
			Settle:      common.Settle,
			WaitFor:     firstOutside(session.Builder, common, p.Info),
			Removal:     t.deletionTimeout,
			Method:      p.Target.Method,
			Untouched:   t.untouched,
		},
		Tree:         p.Target.Tree,
		Old:          p.Old.Revision,
		Work:         p.Work,
		Announced:    r.op.prepared.Phases,
		Stored:       func(text string) bool { return p.Target.Stored || text == p.Old.Manifest() },
		Uninstalling: t.uninstalling,
	}
}

func (r *runner) newDriver(t task, helm *connect.Helm, client *helmclient.Client, beforeDeployed func() error) *release.Driver {
	span := r.op.ledger.Span
	if t.uninstalling { // it creates no revision
		span = nil
	}
	return release.NewDriver(helm.Config.Releases.Driver, release.DriverOptions{
		BeforeCreate: func(rel *rel1.Release) (*release.Record, error) {
			record := t.prepared.Target.Record
			if t.reorder != nil {
				var err error
				if record, err = t.reorder(t.prepared, client, rel); err != nil {
					return nil, err
				}
			}
			return record, client.ExpectHooks(rel)
		},
		BeforeDeployed: beforeDeployed,
		HoldsLease:     r.op.HoldsLease,
		Job:            r.op.prepared.Common.Job,
		Undo:           t.rollbackOnFailure, // it does not complete the operation
		Taken:          r.op.taken.All,
		Passed:         r.op.prepared.Passed,
		NoReturn: release.StackPoint{
			Reasons: slices.Concat(r.op.prepared.NoReturn, r.op.passedBefore, r.op.passedByOthers()), Others: r.op.others,
		},
		Span: span,
		Mask: r.op.Mask().Text,
		Course: func(deployed bool) release.Course {
			c := release.CourseIn(r.op.feed.Events(), t.rollbackOnFailure)
			if !t.rollbackOnFailure {
				c.NoReturn = slices.Concat(r.op.passedBefore, c.NoReturn)
				c.Approvals = slices.Concat(r.op.approvedBefore, c.Approvals)
			}
			if !t.rollbackOnFailure && !deployed { // the next run of the stack does not roll it back either
				c.NoReturn = slices.Concat(c.NoReturn, r.op.passedByOthers())
			}
			return c
		},
	})
}

// runOperation runs the operation, without its rollback, and returns the status in the release record. The attempt is
// nil if it never started.
func (r *runner) runOperation() (a *attempt, status string, err error) {
	if a, err = r.newAttempt(r.op.main); err != nil {
		return nil, "", err
	}
	r.op.mu.Lock()
	r.op.attempt = a
	r.op.mu.Unlock()
	rel, status, err := a.runAction(r.op.prepared.Info.Name)
	if err == nil {
		publishNotes(r.engine, rel)
	}
	return a, status, err
}

// runAction runs Helm's action, makes sure that the release record is final, and returns the status in it.
func (a *attempt) runAction(operation string) (rel *rel1.Release, status string, err error) {
	if rel, err = a.task.do(a); err == nil {
		err = a.confirmReady()
	}
	if err == nil {
		status, err = a.confirmRecord(operation)
		a.warnOfTerminating()
	}
	if err == nil && a.task.tests {
		if status, err = a.runTests(); err != nil && a.task.cleanupOnFail {
			a.client.DeleteCreated()
		}
	}
	return rel, status, err
}

// awaitAllReady waits until all groups are ready at the same time, unless some are not checked or --wait says how Helm checks
// them. Then it makes sure that the objects are still the release's.
func (a *attempt) awaitAllReady() error {
	c := a.op.prepared.Common
	if a.task.uninstalling || c.SkipLeaves || c.WaitStrategy() != helmclient.WaitOrdered {
		return nil
	}
	if err := a.engine.ConfirmReady(); err != nil {
		return err
	}
	namespaces := []string{c.Namespace}
	for _, r := range a.task.prepared.Apply.Resources {
		if ns := r.Object.Namespace; ns != "" && !slices.Contains(namespaces, ns) {
			namespaces = append(namespaces, ns)
		}
	}
	ctx := a.engine.RequestContext()
	if ns, err := preflight.Terminating(ctx, a.session.Client, namespaces); ns != "" {
		return &LostObject{plan.Object{Kind: "Namespace", Name: ns}, err}
	}
	return a.confirmApplied(ctx)
}

// LostObject is the error about an object that others have taken from the release after the run had applied it, or about a namespace
// that they delete.
type LostObject struct {
	Object plan.Object
	error
}

// confirmApplied looks again at the objects to which somebody has written since the run applied them. It returns an error if one
// is not the release's any more. What others have changed stays so: it is published.
func (a *attempt) confirmApplied(ctx context.Context) error {
	rel, written := a.task.prepared.Target.Release, a.session.Applied.Written()
	if rel == nil || len(written) == 0 {
		return nil
	}
	compared, err := drift.Compare(ctx, a.session.Client, a.op.Mask(), []*rel1.Release{rel}, written)
	if err != nil {
		return err
	}
	found, scope := compared[0], a.session.Builder.Scope()
	for _, o := range found.Objects {
		if live := found.Live(o.Object); live != nil {
			if other := a.session.Applied.Taken(scope, o.Object, live); other != "" {
				return &LostObject{o.Object, fmt.Errorf("%s belongs to %s now: it was taken over after this run had applied it", o.Object, other)}
			}
			if a.session.Applied.Replaced(scope, o.Object, live) {
				return &LostObject{o.Object, fmt.Errorf("%s is not the release's any more: somebody else deleted it and created it again", o.Object)}
			}
		}
		a.session.Applied.Reported(o.Object)
		var drift []event.Drift
		for _, f := range o.Fields {
			drift = append(drift, f.Drift)
		}
		if drift == nil {
			continue
		}
		unit := a.appliedIn(o.Object)
		a.engine.Publish(event.Event{Kind: event.KindDrift, Phase: unit.Phase, Group: unit.Group, Object: &o.Object, Drift: drift})
	}
	return nil
}

// appliedIn returns the last unit in which the attempt has applied an object.
func (a *attempt) appliedIn(o plan.Object) (unit event.Unit) {
	for _, e := range a.op.feed.Events() {
		for g, of := range event.Objects(e.Phases) {
			if of == o && g.Phase.Kind == event.PhaseApply && event.IsRollback(g.Phase.Name) == a.task.rollbackOnFailure {
				unit = event.Unit{Phase: g.Phase.Name, Group: g.ID}
			}
		}
	}
	return unit
}

// warnOfTerminating warns about removed objects that are still being deleted at the end of an upgrade or rollback (R30).
// An uninstall waits for them.
func (a *attempt) warnOfTerminating() {
	if a.task.uninstalling {
		return
	}
	ctx, cancel := a.finalContext()
	defer cancel()
	for _, o := range notYetGone(a.op.feed.Events()) {
		why, still := a.op.diagnoser.Terminating(ctx, o)
		if !still {
			continue
		}
		a.engine.Publish(event.WarningEvent(plan.Warning{Rule: "R30", Object: &o, Message: fmt.Sprintf(
			"%s is still being deleted (%s); lockstep no longer waits for it", o, why)}))
	}
}

// notYetGone returns the removed objects that still existed at their last event, in the order of deletion.
func notYetGone(events []event.Event) (objects []plan.Object) {
	terminating := map[plan.Object]bool{}
	for _, e := range events {
		phase := strings.TrimPrefix(e.Phase, event.RollbackPrefix)
		if e.Kind != event.KindObject || e.Object == nil || !strings.HasPrefix(phase, helmclient.PhaseRemove) {
			continue
		}
		if _, known := terminating[*e.Object]; !known && e.Status == event.Deleting {
			objects = append(objects, *e.Object)
		}
		terminating[*e.Object] = e.Status == event.Deleting
	}
	return slices.DeleteFunc(objects, func(o plan.Object) bool { return !terminating[o] })
}

// warnOnce returns a function that publishes each warning once and skips those in known.
func warnOnce(publish func(event.Event), known []plan.Warning) func(plan.Warning) {
	var mu sync.Mutex
	published := map[string]bool{}
	for _, w := range known {
		published[w.Message] = true
	}
	return func(w plan.Warning) {
		mu.Lock()
		defer mu.Unlock()
		if !published[w.Message] {
			published[w.Message] = true
			publish(event.WarningEvent(w))
		}
	}
}

// withContext returns the attempt's storage and session with requests that end with ctx, because the engine may have
// cancelled the attempt's own.
func (a *attempt) withContext(ctx context.Context) (*helmstorage.Storage, cluster.Session, error) {
	ps, err := a.op.newSession(ctx, &a.op.writes)
	if err != nil {
		return nil, cluster.Session{}, err
	}
	session := a.session
	session.Client = ps.Client
	session.Builder = ps.Builder(a.task.prepared.Target.Root())
	return helmstorage.Init(a.driver.WithInner(ps.Releases().Driver)), session, nil
}

// newSession returns a session whose requests the engine can cancel.
func (r *runner) newSession() (*session.Session, error) {
	return r.op.newSession(r.engine.RequestContext(), &r.op.writes)
}

// newSession returns a session whose requests end with ctx. Once the operation has written, it asks the cluster again which
// kinds there are: it may have made some.
func (op *Operation) newSession(ctx context.Context, writes *connect.Writes) (*session.Session, error) {
	s, err := session.New(ctx, op.client, op.prepared.Common, writes, op.ledger)
	if err == nil && op.checked != nil && !op.writes.Any() {
		s.Client.TakeKinds(op.checked)
	}
	return s, err
}

// recordRetryGrace is how long a request for a release record is retried before a warning.
const recordRetryGrace = 3 * time.Second

// warnRecordRetries returns a listener that warns of requests for release records that are still being retried (R53),
// once per answer of the API server. Other objects have events that show this.
func warnRecordRetries(eng *run.Engine) func(connect.Target, time.Time, string) {
	known := map[string]bool{}
	return func(t connect.Target, since time.Time, answer string) {
		database := t.Resource == connect.DatabaseResource
		if !database && !strings.HasPrefix(t.Name, "sh.helm.release.v1.") || time.Since(since) < recordRetryGrace || known[answer] {
			return
		}
		known[answer] = true
		what := "release record " + t.Name
		if database {
			what = "the database of the release records"
		}
		message := fmt.Sprintf("a request for %s failed; retrying: %s", what, answer)
		eng.Publish(event.Event{Kind: event.KindWarning, Rule: "R53", Message: message})
	}
}
