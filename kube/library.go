package kube

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/release"
)

// OrderedOptions are the options of NewOrdered. Durations of 0 mean the defaults of R25.
type OrderedOptions struct {
	// Timeout limits the ordered part of one action: Helm does not pass an action's own
	// timeout to its client. ReadinessTimeout limits the wait for one object.
	Timeout, ReadinessTimeout time.Duration
	WaitForJobs               Jobs
	// SkipLeaves does not wait for groups that no other group waits for (R21).
	SkipLeaves bool
	// Watches, if set, are shared. The caller closes them after calling the function
	// that NewOrdered returned.
	Watches *Watches
	// Approve is asked for each approval (R42a) when the run waits for it, and returns who gave it; an error aborts the action. Without
	// Approve, an action that asks for approvals fails before it writes an object.
	Approve func(context.Context, plan.Approval) (by string, err error)
	// Events, if set, is called with each event. Each action is its own run, or two
	// if Helm rolls it back.
	Events func(event.Event)
}

// NewOrdered makes Helm's own Install, Upgrade, Rollback and Uninstall apply releases
// group by group, with WaitStrategy WaitOrdered. cfg must be initialised (Init). Releases
// keep their order for later operations (R28).
//
// A chart may come from Helm's loader; lists in its annotations must then be JSON strings (R1).
// To use YAML lists, load it with charts.Load, convert it with Chart.Helm, and let a charts.Rendering of the result render it.
// Either way, Chart.yaml orders the subcharts (R4).
//
// There is no lock (R51), only Helm's pending status: Helm does not report the end of an action, so a
// Lease could not be released. If you need the lock, use the Prepare methods of Client instead.
//
// Helm itself handles hooks, crds/, the namespace and the end of an action. Helm's
// kube.ManagedFieldsManager owns the applied fields. Actions of cfg run one at a time. When ctx ends, the
// running action is aborted and fails. Do not cancel the context of an action itself: Helm would
// continue in the background. Call the returned function to end the watches.
func NewOrdered(ctx context.Context, cfg *action.Configuration, opts OrderedOptions) (func(), error) {
	common, err := Common{Timeout: opts.Timeout, ReadinessTimeout: opts.ReadinessTimeout}.Complete("")
	if err != nil {
		return nil, err
	}
	opts.Timeout, opts.ReadinessTimeout = common.Timeout, common.ReadinessTimeout
	inner, ok := cfg.KubeClient.(*helmkube.Client)
	if !ok || cfg.Releases == nil {
		return nil, fmt.Errorf("make a configuration ordered: its client is %T; call Init first", cfg.KubeClient)
	}
	getter, ok := cfg.RESTClientGetter.(genericclioptions.RESTClientGetter)
	if !ok {
		return nil, fmt.Errorf("make a configuration ordered: its getter %T has no kubeconfig; give Init one of cli.EnvSettings", cfg.RESTClientGetter)
	}
	connection, err := connect.NewFromGetter(getter, &cli.EnvSettings{}, slog.New(cfg.Logger().Handler()), cfg.RegistryClient)
	if err != nil {
		return nil, err
	}
	client, err := connection.Bind(ctx, &connect.Writes{})
	if err != nil {
		return nil, err
	}
	namespace := inner.Namespace
	if namespace == "" { // Helm's client does the same
		namespace, _, _ = getter.ToRawKubeConfigLoader().Namespace()
	}
	helm, err := client.Helm(namespace)
	if err != nil {
		return nil, err
	}
	runWatcher, done, err := opts.Watches.Open(ctx, client, nil)
	if err != nil {
		return nil, err
	}
	scope := manifest.Scope{Namespace: namespace} // the release is not known yet
	l := &library{Interface: helm.Client, ctx: ctx, opts: opts, helm: helm, releases: cfg.Releases, subject: subject{scope: scope}}
	l.session = cluster.Session{
		Client: client, Builder: manifest.NewBuilder(client, helm, nil, scope), RunWatcher: runWatcher,
		Claims: manifest.Claims{Checked: true}, Warn: func(plan.Warning) {},
	}
	secrets := &mask.Mask{}
	cfg.Releases.Driver = release.NewDriver(release.Checked(cfg.Releases.Driver, secrets), release.DriverOptions{
		BeforeCreate: l.beforeCreate, BeforeUninstall: l.beforeUninstall, Mask: secrets.Text,
	})
	cfg.KubeClient = l
	return done, nil
}

// library decorates Helm's client for actions of other programs. Helm stores a release before it sends
// an object, so library reads the subject of the action from the stored release.
type library struct {
	helmkube.Interface // Helm's own client
	ctx                context.Context
	opts               OrderedOptions
	helm               *connect.Helm
	releases           *storage.Storage
	session            cluster.Session

	running sync.Mutex // held by the running action
	subject subject
}

// subject is the release of an action, and the order of its objects.
type subject struct {
	info  event.Operation
	scope manifest.Scope
	tree  *plan.Chart
	old   helmclient.Revision
}

var (
	_ helmkube.Interface            = (*library)(nil)
	_ helmkube.InterfaceWaitOptions = (*library)(nil)
)

// beforeCreate reads the subject from a new revision, and returns the record to store with it.
func (l *library) beforeCreate(rel *rel1.Release) (*release.Record, error) {
	s := l.newSubject("upgrade", rel)
	revs, found, err := release.Read(l.releases, rel.Name)
	if err != nil {
		return nil, fmt.Errorf("list the revisions of release %s: %w", rel.Name, err)
	}
	if found { // without an earlier revision there is nothing to remove
		s.old.Tree = release.TreeOf(revs.Current)
	}
	switch rel.Info.Status {
	case rcommon.StatusPendingRollback: // the chart of the revision already contains the record
		s.info.Name, s.tree = "rollback", release.TreeOf(rel)
		if found {
			s.old.Tree = release.TreeOf(revs.Last)
		}
		l.subject = s
		return nil, nil
	case rcommon.StatusPendingInstall:
		s.info.Name = "install"
	}
	if s.tree, err = treeOfHelm(rel); err != nil {
		return nil, err
	}
	l.subject = s
	return release.NewRecord(true, s.tree), nil
}

// beforeUninstall reads the subject from the revision that will be uninstalled.
func (l *library) beforeUninstall(rel *rel1.Release) {
	s := l.newSubject("uninstall", rel)
	s.old.Tree = release.TreeOf(rel)
	b := l.session.Builder.For(s.scope)
	if list, _, err := b.Build(rel.Manifest); err == nil { // otherwise Delete has only the order of the tree
		list, _ = b.Expand(l.ctx, list)
		s.old.Resources = b.Resources(list)
	}
	l.subject = s
}

func (l *library) newSubject(name string, rel *rel1.Release) subject {
	return subject{
		scope: manifest.Scope{Release: rel.Name, Namespace: rel.Namespace, Root: rel.Chart.Name()},
		info: event.Operation{
			Name: name, Release: rel.Name, Namespace: rel.Namespace, Context: l.session.Client.ContextName(), Revision: rel.Version,
			Chart: rel.Chart.Name() + "-" + rel.Chart.Metadata.Version, Timeout: l.opts.Timeout, ReadinessTimeout: l.opts.ReadinessTimeout,
		},
	}
}

// client returns the decorator for the current action. If eng is nil, the decorator can only send
// objects that have no order.
func (l *library) client(eng *run.Engine) *helmclient.Client {
	session := l.session
	session.Builder = session.Builder.For(l.subject.scope)
	return helmclient.New(helmclient.Config{
		Context: l.ctx, Inner: l.helm.Client, Session: session, Engine: eng, Embedded: &helmclient.Embedded{Check: l.checkApprovals},
		Options: helmclient.Options{Wait: WaitOrdered, SkipLeaves: l.opts.SkipLeaves, Jobs: l.opts.WaitForJobs, Readiness: l.opts.ReadinessTimeout, FirstStatus: DefaultFirstStatus},
		Tree:    l.subject.tree, Old: l.subject.old,
	})
}

func treeOfHelm(rel *rel1.Release) (*plan.Chart, error) {
	if len(rel.Chart.Raw) == 0 { // created in memory: without Chart.yaml, only its groups are ordered
		return &plan.Chart{Path: rel.Chart.Name()}, nil
	}
	c, err := charts.FromHelm(rel.Chart)
	if err != nil {
		return nil, err
	}
	tree, _, err := c.Tree(rel.Config)
	return tree, err
}

// Create installs the objects of a release in order.
func (l *library) Create(list helmkube.ResourceList, opts ...helmkube.ClientCreateOption) (res *helmkube.Result, err error) {
	if !l.session.Builder.HasReleaseObjects(list) {
		return l.client(nil).Create(list, opts...)
	}
	err = l.run(func(c *helmclient.Client) error {
		res, err = c.Create(list, opts...)
		return err
	})
	return res, err
}

// Update upgrades a release in order.
func (l *library) Update(original, target helmkube.ResourceList, opts ...helmkube.ClientUpdateOption) (res *helmkube.Result, err error) {
	err = l.run(func(c *helmclient.Client) error {
		res, err = c.Update(original, target, opts...)
		return err
	})
	if err != nil { // CleanupOnFail deletes in the reverse order of the same plan
		l.subject.old = helmclient.Revision{Tree: l.subject.tree, Resources: l.session.Builder.Resources(target)}
	}
	return res, err
}

// Delete removes the objects of a release in reverse order.
func (l *library) Delete(list helmkube.ResourceList, policy metav1.DeletionPropagation) (res *helmkube.Result, errs []error) {
	if !l.session.Builder.HasReleaseObjects(list) {
		return l.client(nil).Delete(list, policy)
	}
	err := l.run(func(c *helmclient.Client) error {
		if res, errs = c.Delete(list, policy); len(errs) > 0 {
			return errs[0]
		}
		return nil
	})
	if err != nil && len(errs) == 0 {
		errs = []error{err}
	}
	return res, errs
}

func (l *library) Build(r io.Reader, validate bool) (helmkube.ResourceList, error) {
	return l.client(nil).Build(r, validate)
}

func (l *library) GetWaiter(ws helmkube.WaitStrategy) (helmkube.Waiter, error) {
	return l.client(nil).GetWaiter(ws)
}

func (l *library) GetWaiterWithOptions(ws helmkube.WaitStrategy, opts ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return l.client(nil).GetWaiterWithOptions(ws, opts...)
}

// run executes the ordered part of an action with a new engine.
func (l *library) run(do func(*helmclient.Client) error) error {
	l.running.Lock()
	defer l.running.Unlock()
	feed := &event.Feed{}
	diagnoser := l.session.Diagnoser()
	eng := run.New(run.Options{Operation: l.subject.info, Feed: feed, Diagnose: func(ctx context.Context, o plan.Object) run.Finding {
		return diagnoser.Object(ctx, o).Finding
	}})
	asked := &approvals{ctx: l.ctx, approve: l.opts.Approve, engine: eng}
	var events sync.WaitGroup
	events.Go(func() {
		for e := range feed.Reader().All(context.Background()) {
			asked.consume(e)
			if l.opts.Events != nil {
				l.opts.Events(e)
			}
		}
	})
	stopAborting := context.AfterFunc(l.ctx, func() { eng.Command(event.Command{Name: event.Abort, Reason: context.Cause(l.ctx).Error()}) })
	err := do(l.client(eng))
	stopAborting()
	if refused := asked.refusal(); err != nil && refused != nil {
		err = refused
	}
	end := run.End{Status: event.Succeeded}
	if err != nil {
		end = run.End{Status: event.Failed, Message: err.Error(), Exit: event.ExitFailed}
	}
	eng.Close(end)
	events.Wait()
	return err
}
