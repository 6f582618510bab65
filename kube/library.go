package kube

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
)

// OrderedOptions are for NewOrdered. Durations of 0 mean the defaults of R25.
type OrderedOptions struct {
	// Timeout is for the ordered part of one action: Helm tells its client
	// nothing of an action's own timeout. ReadinessTimeout is for one resource.
	Timeout, ReadinessTimeout time.Duration
	WaitForJobs               bool
	// SkipLeaves leaves the groups that nothing waits for unchecked (R21).
	SkipLeaves bool
	// Watches are shared with others that are given the same; nil for some of its own.
	// Whoever made them closes them, after the function that NewOrdered returns.
	Watches *Watches
	// Events, where set, is told what happens, event by event. Each action is a
	// run of its own, or two where Helm rolls it back.
	Events func(event.Event)
}

// NewOrdered makes a configuration of Helm's, on which Init was called, apply
// releases in order: Helm's own Install, Upgrade, Rollback and Uninstall then
// send what a chart holds group by group, with WaitStrategy "ordered"
// (WaitOrdered), and the releases tell their order to a later operation (R28).
//
// Charts may come from Helm's loader, with lists in annotations as JSON in a
// string (R1), or from charts.Load, whose Helm method gives Helm's type; then
// charts.WrapTemplates lets templates have YAML lists, too. What Chart.yaml
// says of the order of subcharts counts either way (R4).
//
// Fields are owned as kube.ManagedFieldsManager of Helm says.
//
// Nothing keeps two runs apart (R51) but what Helm looks at: its actions do not
// tell when they end, so that no Lease could be held for as long as one works. Who
// wants that prepares Operations instead.
//
// Hooks, crds/, the namespace and endings are Helm's own affair. All actions of
// the configuration are ordered, one at a time. When ctx ends, what is under way
// is aborted and fails; an action's own context should not be ended, since Helm
// then goes on behind it. The function returned ends the watches.
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
	connection, err := connect.From(getter, &cli.EnvSettings{}, slog.New(cfg.Logger().Handler()), cfg.RegistryClient)
	if err != nil {
		return nil, err
	}
	client, err := connection.Bind(ctx, &connect.Writes{})
	if err != nil {
		return nil, err
	}
	namespace := inner.Namespace // as Helm's client does
	if namespace == "" {
		namespace, _, _ = getter.ToRawKubeConfigLoader().Namespace()
	}
	helm, err := client.Helm(namespace)
	if err != nil {
		return nil, err
	}
	sight, done, err := opts.Watches.See(ctx, client, nil)
	if err != nil {
		return nil, err
	}
	scope := manifest.Scope{Namespace: namespace} // until it is known which release
	l := &library{ctx: ctx, opts: opts, helm: helm, releases: cfg.Releases, about: subject{scope: scope}, session: cluster.Session{
		Client: client, Builder: manifest.NewBuilder(client, helm, nil, scope), Sight: sight,
		JobsComplete: opts.WaitForJobs, Warn: func(plan.Warning) {},
	}}
	cfg.Releases.Driver = release.NewDriver(release.Checked(cfg.Releases.Driver), release.DriverOptions{BeforeCreate: l.begin, BeforeUninstall: l.beginUninstall})
	cfg.KubeClient = l
	funcs := charts.TemplateFuncs()
	maps.Copy(funcs, cfg.CustomTemplateFuncs)
	cfg.CustomTemplateFuncs = funcs
	return done, nil
}

// library is the decorator of Helm's client for actions that are not ours. What
// they are about it learns when they store a release, which they do before they
// send anything of it.
type library struct {
	ctx      context.Context
	opts     OrderedOptions
	helm     *connect.Helm
	releases *storage.Storage
	session  cluster.Session

	turn  sync.Mutex // of the one action under way
	about subject
}

// subject is what an action of Helm's is about.
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

// begin learns from a new revision what is about to be applied, and returns what
// the revision keeps of its order.
func (l *library) begin(rel *rel1.Release) (*release.Record, error) {
	about := l.subject("upgrade", rel)
	revs, there, err := release.Read(l.releases, rel.Name)
	if err != nil {
		return nil, fmt.Errorf("list the revisions of release %s: %w", rel.Name, err)
	}
	if there { // without an earlier revision there is nothing to remove
		about.old.Tree = release.TreeOf(revs.Current)
	}
	switch rel.Info.Status {
	case rcommon.StatusPendingRollback: // the record comes back with the chart
		about.info.Name, about.tree = "rollback", release.TreeOf(rel)
		if there {
			about.old.Tree = release.TreeOf(revs.Last)
		}
		l.about = about
		return nil, nil
	case rcommon.StatusPendingInstall:
		about.info.Name = "install"
	}
	if about.tree, err = treeOfHelm(rel); err != nil {
		return nil, err
	}
	l.about = about
	return release.NewRecord(true, about.tree), nil
}

// beginUninstall learns what is about to be deleted.
func (l *library) beginUninstall(rel *rel1.Release) {
	about := l.subject("uninstall", rel)
	about.old.Tree = release.TreeOf(rel)
	b := l.session.Builder.For(about.scope)
	if list, _, err := b.Build(rel.Manifest); err == nil { // or else what goes is ordered by itself
		list, _ = b.Expand(l.ctx, list)
		about.old.Resources = b.Resources(list)
	}
	l.about = about
}

func (l *library) subject(name string, rel *rel1.Release) subject {
	return subject{
		scope: manifest.Scope{Release: rel.Name, Namespace: rel.Namespace, Root: rel.Chart.Name()},
		info: event.Operation{
			Name: name, Release: rel.Name, Namespace: rel.Namespace, Context: l.session.Client.ContextName(), Revision: rel.Version,
			Chart: rel.Chart.Name() + "-" + rel.Chart.Metadata.Version, Timeout: l.opts.Timeout, ReadinessTimeout: l.opts.ReadinessTimeout,
		},
	}
}

// client is the decorator for what the action is about now. Without an engine
// nothing can be sent through it that has an order.
func (l *library) client(eng *run.Engine) *helmclient.Client {
	session := l.session
	session.Builder = session.Builder.For(l.about.scope)
	return helmclient.New(helmclient.Config{
		Context: l.ctx, Inner: l.helm.Client, Session: session, Engine: eng, Embedded: true,
		Options: helmclient.Options{Wait: WaitOrdered, SkipLeaves: l.opts.SkipLeaves, Readiness: l.opts.ReadinessTimeout},
		Tree:    l.about.tree, Old: l.about.old,
	})
}

// treeOfHelm is the chart tree of a release that Helm's action has rendered.
func treeOfHelm(rel *rel1.Release) (*plan.Chart, error) {
	if len(rel.Chart.Raw) == 0 { // made in memory: the order is that of its groups
		return &plan.Chart{Path: rel.Chart.Name()}, nil
	}
	c, err := charts.FromHelm(rel.Chart)
	if err != nil {
		return nil, err
	}
	tree, _, err := c.Tree(rel.Config)
	return tree, err
}

// Create installs in order what is a release's.
func (l *library) Create(list helmkube.ResourceList, opts ...helmkube.ClientCreateOption) (res *helmkube.Result, err error) {
	if !l.session.Builder.Ours(list) {
		return l.client(nil).Create(list, opts...)
	}
	err = l.run(func(c *helmclient.Client) error {
		res, err = c.Create(list, opts...)
		return err
	})
	return res, err
}

// Update upgrades in order.
func (l *library) Update(original, target helmkube.ResourceList, opts ...helmkube.ClientUpdateOption) (res *helmkube.Result, err error) {
	err = l.run(func(c *helmclient.Client) error {
		res, err = c.Update(original, target, opts...)
		return err
	})
	if err != nil { // what CleanupOnFail deletes goes by the plan that brought it
		l.about.old = helmclient.Revision{Tree: l.about.tree, Resources: l.session.Builder.Resources(target)}
	}
	return res, err
}

// Delete removes in reverse order what is a release's.
func (l *library) Delete(list helmkube.ResourceList, policy metav1.DeletionPropagation) (res *helmkube.Result, errs []error) {
	if !l.session.Builder.Ours(list) {
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

// Build makes the objects of a manifest.
func (l *library) Build(r io.Reader, validate bool) (helmkube.ResourceList, error) {
	return l.client(nil).Build(r, validate)
}

// GetWaiter returns the waiter of a strategy.
func (l *library) GetWaiter(ws helmkube.WaitStrategy) (helmkube.Waiter, error) {
	return l.client(nil).GetWaiter(ws)
}

// GetWaiterWithOptions returns a waiter that leaves out what was waited for.
func (l *library) GetWaiterWithOptions(ws helmkube.WaitStrategy, opts ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return l.client(nil).GetWaiterWithOptions(ws, opts...)
}

// Get is Helm's own.
func (l *library) Get(list helmkube.ResourceList, related bool) (map[string][]runtime.Object, error) {
	return l.helm.Client.Get(list, related)
}

// IsReachable is Helm's own.
func (l *library) IsReachable() error { return l.helm.Client.IsReachable() }

// GetPodList is Helm's own.
func (l *library) GetPodList(namespace string, opts metav1.ListOptions) (*corev1.PodList, error) {
	return l.helm.Client.GetPodList(namespace, opts)
}

// OutputContainerLogsForPodList is Helm's own.
func (l *library) OutputContainerLogsForPodList(pods *corev1.PodList, namespace string, to func(namespace, pod, container string) io.Writer) error {
	return l.helm.Client.OutputContainerLogsForPodList(pods, namespace, to)
}

// BuildTable is Helm's own.
func (l *library) BuildTable(r io.Reader, validate bool) (helmkube.ResourceList, error) {
	return l.helm.Client.BuildTable(r, validate)
}

// run carries out the ordered part of an action with an engine of its own.
func (l *library) run(do func(*helmclient.Client) error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	feed := &event.Feed{}
	var told sync.WaitGroup
	told.Go(func() {
		for reader := feed.Reader(); ; {
			batch, ok := reader.Next(context.Background())
			if !ok {
				return
			}
			for _, e := range batch {
				if l.opts.Events != nil {
					l.opts.Events(e)
				}
			}
		}
	})
	eng := run.New(run.Options{Operation: l.about.info, Feed: feed, Diagnose: l.session.Client.Diagnose})
	abort := context.AfterFunc(l.ctx, func() { eng.Command(event.Command{Name: event.Abort, Reason: context.Cause(l.ctx).Error()}) })
	err := do(l.client(eng))
	abort()
	if err != nil {
		eng.Close(run.End{Status: event.Failed, Message: err.Error(), Exit: 1})
	} else {
		eng.Close(run.End{Status: event.Succeeded})
	}
	told.Wait()
	return err
}
