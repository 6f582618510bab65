package operation

import (
	"context"
	"fmt"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	helmstorage "helm.sh/helm/v4/pkg/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// attempts is the state that the attempts of one operation share.
type attempts struct {
	op           *Operation
	engine       *run.Engine
	runWatcher   cluster.RunWatcher
	stopWatching func() // ends runWatcher
}

// spec holds the settings that differ between the attempts of an operation.
type spec struct {
	prefix string // "" or event.RollbackPrefix
	wait   helmkube.WaitStrategy
	force  bool
	root   string
	tree   *plan.Chart
	old    helmclient.Revision
	// apply and remove are the plan, empty if it is made when the attempt runs.
	apply, remove helmclient.Planned
	leftovers     helmclient.Leftovers
	hooks         helmclient.HookEvents
	uninstalling  bool
	removal       time.Duration         // limit for the deletion of one object, 0 for none
	record        *release.Record       // stored with a new revision; nil: keep the record in its chart
	deferredAPIs  []schema.GroupVersion // see preflight.Prepared
	preview       *preflight.Prepared   // of a rollback, for previews of its objects
}

func newSpec(p *preflight.Prepared) spec {
	return spec{
		wait: p.Common.Strategy(), force: p.Target.Force, root: p.Target.Root(), tree: p.Target.Tree, old: p.Old.Revision,
		apply: p.Apply, remove: p.Remove, leftovers: p.Leftovers, hooks: p.Hooks, record: p.Target.Record, deferredAPIs: p.DeferredAPIs,
	}
}

// attempt is one run of a Helm action: the operation itself or its rollback. The engine
// cancels its requests.
type attempt struct {
	attempts
	spec     spec
	helm     *connect.Helm
	session  cluster.Session
	client   *helmclient.Client
	driver   *release.Driver
	preluded bool // a phase of the prelude was started
	// crdsApplied is set if applying crds/ may have changed the kinds that the cluster serves.
	crdsApplied bool
}

// newAttempt configures Helm's action with our decorators.
func (as *attempts) newAttempt(s spec) (*attempt, error) {
	common := as.op.prepared.Common
	b, err := as.newSession()
	if err != nil {
		return nil, err
	}
	helm := b.Helm
	session := cluster.Session{
		Client: b.Client, Builder: b.Builder(s.root), RunWatcher: as.runWatcher,
		JobsComplete: common.WaitForJobs, Resumes: as.op.prepared.Resumes, Warn: warnOnce(as.engine.Publish, as.op.prepared.Warnings),
	}
	client := helmclient.New(helmclient.Config{
		Context: b.Context, Inner: helm.Client, Session: session, Engine: as.engine,
		Options: helmclient.Options{Prefix: s.prefix, Wait: s.wait, SkipLeaves: common.SkipLeaves, Readiness: common.ReadinessTimeout, Removal: s.removal, Force: s.force},
		Tree:    s.tree, Old: s.old, Apply: s.apply, Remove: s.remove, Leftovers: s.leftovers, Hooks: s.hooks, Uninstalling: s.uninstalling, Announced: as.op.prepared.Phases, DeferredAPIs: s.deferredAPIs,
	})
	job := ""
	if s.prefix == "" { // a rollback on failure does not complete the operation
		job = common.Job
	}
	driver := release.NewDriver(helm.Config.Releases.Driver, release.DriverOptions{
		BeforeCreate: func(rel *rel1.Release) (*release.Record, error) { return s.record, client.ExpectHooks(rel) },
		Held:         as.op.holdsLease,
		Job:          job,
		Mask:         as.op.Mask().Text,
		Timings:      func() []release.Timing { return release.TimingsIn(as.op.feed.Events(), s.prefix != "") },
	})
	helm.Config.KubeClient, helm.Config.HookOutputFunc = client, client.Output
	helm.Config.Releases = helmstorage.Init(driver)
	return &attempt{attempts: *as, spec: s, helm: helm, session: session, client: client, driver: driver}, nil
}

// runTask runs the operation itself and returns the status in its record. The attempt
// is nil if it never started.
func (as *attempts) runTask(j task) (a *attempt, status string, err error) {
	if a, err = as.newAttempt(j.spec); err != nil {
		return nil, "", err
	}
	as.op.mu.Lock()
	as.op.attempt = a
	as.op.mu.Unlock()
	rel, status, err := a.perform(j, as.op.prepared.Info.Name)
	if err == nil {
		publishNotes(as.engine, rel)
	}
	return a, status, err
}

// perform runs Helm's action, confirms the release record and returns the status in it.
func (a *attempt) perform(j task, operation string) (rel *rel1.Release, status string, err error) {
	if rel, err = j.do(a); err == nil {
		status, err = a.confirmRecord(operation)
		a.warnOfTerminating()
	}
	return rel, status, err
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

// rebound returns the attempt's storage and session with requests bound to ctx, because
// the engine may have cancelled the attempt's own.
func (a *attempt) rebound(ctx context.Context) (*helmstorage.Storage, cluster.Session, error) {
	b, err := a.op.newSession(ctx, &a.op.writes)
	if err != nil {
		return nil, cluster.Session{}, err
	}
	session := a.session
	session.Client, session.Builder = b.Client, b.Builder(a.spec.root)
	return helmstorage.Init(a.driver.Over(b.Releases().Driver)), session, nil
}

// newSession returns a session whose requests the engine cancels.
func (as *attempts) newSession() (*preflight.Session, error) {
	return as.op.newSession(as.engine.Requests(), &as.op.writes)
}

// newSession returns a session whose requests end with ctx.
func (op *Operation) newSession(ctx context.Context, writes *connect.Writes) (*preflight.Session, error) {
	return preflight.NewSession(ctx, op.client, op.prepared.Common, writes, op.ledger)
}

// buildRevision returns the objects in the manifest of a revision.
func buildRevision(b *manifest.Builder, rel *rel1.Release) (helmkube.ResourceList, error) {
	list, _, err := b.Build(rel.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	return list, nil
}

// readRevision returns a revision with its objects, lists among them expanded.
func readRevision(ctx context.Context, b *manifest.Builder, rel *rel1.Release) (preflight.Old, helmkube.ResourceList, []plan.Warning, error) {
	list, err := buildRevision(b, rel)
	if err != nil {
		return preflight.Old{}, nil, nil, err
	}
	list, warnings := b.Expand(ctx, list)
	return preflight.Old{Release: rel, Revision: helmclient.Revision{Tree: release.TreeOf(rel), Resources: b.Resources(list)}}, list, warnings, nil
}
