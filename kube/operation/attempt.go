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

// attempts makes the attempts of one operation: itself, then perhaps its
// rollback.
type attempts struct {
	op           *Operation
	engine       *run.Engine
	runWatcher   cluster.RunWatcher
	stopWatching func() // ends runWatcher
}

// spec is all that makes one attempt differ from another.
type spec struct {
	prefix string // "" or event.RollbackPrefix
	wait   helmkube.WaitStrategy
	force  bool
	root   string
	tree   *plan.Chart
	old    helmclient.Revision
	// apply and remove are what was planned, empty where that is done once it
	// is known what there is.
	apply, remove helmclient.Planned
	leftovers     helmclient.Leftovers
	hooks         helmclient.HookEvents
	uninstalling  bool
	removal       time.Duration         // that an object may take to go, 0 for no limit of its own
	record        *release.Record       // what a new revision keeps, nil for what it has
	later         []schema.GroupVersion // see preflight.Prepared
	// looks is what questions about objects of a rollback are answered from.
	preview *preflight.Prepared
}

// specOf is the spec of the operation itself.
func newSpec(p *preflight.Prepared) spec {
	return spec{
		wait: p.Common.Strategy(), force: p.Target.Force, root: p.Target.Root(), tree: p.Target.Tree, old: p.Old.Revision,
		apply: p.Apply, remove: p.Remove, leftovers: p.Leftovers, hooks: p.Hooks, record: p.Target.Record, later: p.Later,
	}
}

// attempt is one run of Helm's action: the operation itself, or its rollback.
// All its requests end with the engine's.
type attempt struct {
	attempts
	spec     spec
	helm     *connect.Helm
	session  cluster.Session
	client   *helmclient.Client
	driver   *release.Driver
	preluded bool // a phase of the prelude has been begun
	// crdsApplied tells that crds/ have changed what the cluster serves.
	crdsApplied bool
}

// begin puts Helm's action configuration together with our decorators.
func (as *attempts) newAttempt(s spec) (*attempt, error) {
	common := as.op.prepared.Common
	b, err := as.newSession()
	if err != nil {
		return nil, err
	}
	ctx, helm := b.Context, b.Helm
	session := cluster.Session{
		Client: b.Client, Builder: b.Builder(s.root), RunWatcher: as.runWatcher,
		JobsComplete: common.WaitForJobs, Resumes: as.op.prepared.Resumes, Warn: warnOnce(as.engine.Publish, as.op.prepared.Warnings),
	}
	client := helmclient.New(helmclient.Config{
		Context: ctx, Inner: helm.Client, Session: session, Engine: as.engine,
		Options: helmclient.Options{Prefix: s.prefix, Wait: s.wait, SkipLeaves: common.SkipLeaves, Readiness: common.ReadinessTimeout, Removal: s.removal, Force: s.force},
		Tree:    s.tree, Old: s.old, Apply: s.apply, Remove: s.remove, Leftovers: s.leftovers, Hooks: s.hooks, Uninstalling: s.uninstalling, Announced: as.op.prepared.Phases, Later: s.later,
	})
	driver := release.NewDriver(helm.Config.Releases.Driver, release.DriverOptions{
		BeforeCreate: func(rel *rel1.Release) (*release.Record, error) { return s.record, client.ExpectHooks(rel) },
		Held:         as.op.holdsLease,
		Mask:         as.op.Mask().Text,
		Timings:      func() []release.Timing { return release.TimingsIn(as.op.feed.Events(), s.prefix != "") },
	})
	helm.Config.KubeClient, helm.Config.HookOutputFunc = client, client.Hooks().Output
	helm.Config.Releases = helmstorage.Init(driver)
	return &attempt{attempts: *as, spec: s, helm: helm, session: session, client: client, driver: driver}, nil
}

// carryOut carries the operation itself out, and returns what its record says
// then. The attempt is nil where it never began.
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

// act lets Helm act, and makes sure that the records say what it has done. It
// returns what that of the release says.
func (a *attempt) perform(j task, operation string) (rel *rel1.Release, status string, err error) {
	if rel, err = j.do(a); err == nil {
		status, err = a.confirmRecord(operation)
		a.warnOfTerminating()
	}
	return rel, status, err
}

// onceEach returns a function that publishes warnings, each message once; those
// that are known have been told.
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
			publish(event.OfWarning(w))
		}
	}
}

// rebound is the attempt's storage and session over a connection whose requests
// end with ctx: its own may have been stopped.
func (a *attempt) rebound(ctx context.Context) (*helmstorage.Storage, cluster.Session, error) {
	b, err := preflight.NewSession(ctx, a.op.client, a.op.prepared.Common, &a.op.writes, a.op.ledger)
	if err != nil {
		return nil, cluster.Session{}, err
	}
	session := a.session
	session.Client, session.Builder = b.Client, b.Builder(a.spec.root)
	return helmstorage.Init(a.driver.Over(b.Releases().Driver)), session, nil
}

// look is what an attempt works with, and what a rollback is planned with.
// Requests end with the engine's.
func (as *attempts) newSession() (*preflight.Session, error) {
	return preflight.NewSession(as.engine.Requests(), as.op.client, as.op.prepared.Common, &as.op.writes, as.op.ledger)
}

// hold reads what a revision holds from its manifest.
func readRevision(ctx context.Context, b *manifest.Builder, rel *rel1.Release) (preflight.Old, helmkube.ResourceList, []plan.Warning, error) {
	list, _, err := b.Build(rel.Manifest)
	if err != nil {
		return preflight.Old{}, nil, nil, fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	list, warnings := b.Expand(ctx, list)
	return preflight.Old{Release: rel, Revision: helmclient.Revision{Tree: release.TreeOf(rel), Resources: b.Resources(list)}}, list, warnings, nil
}
