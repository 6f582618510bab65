package kube

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/status"
)

// OrderedOptions are for NewOrdered. Durations of 0 mean the defaults of R25.
type OrderedOptions struct {
	// Timeout is for the ordered part of one action: Helm tells its client
	// nothing of an action's own timeout. ReadinessTimeout is for one resource.
	Timeout, ReadinessTimeout time.Duration
	// WaitAll also waits for the groups that nothing waits for (R21).
	WaitAll, WaitForJobs bool
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
// Hooks, crds/, the namespace and endings are Helm's own affair. All actions of
// the configuration are ordered, one at a time. When ctx ends, what is under way
// is aborted and fails; an action's own context should not be ended, since Helm
// then goes on behind it. The function returned ends the watches.
func NewOrdered(ctx context.Context, cfg *action.Configuration, opts OrderedOptions) (func(), error) {
	common := Common{Timeout: opts.Timeout, ReadinessTimeout: opts.ReadinessTimeout}
	if err := common.complete(""); err != nil {
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
	client := &Client{settings: &cli.EnvSettings{}, getter: newRESTGetter(getter), log: slog.New(cfg.Logger().Handler()), registry: cfg.RegistryClient}
	if err := client.dial(); err != nil {
		return nil, err
	}
	namespace := inner.Namespace // as Helm's client does
	if namespace == "" {
		namespace, _, _ = getter.ToRawKubeConfigLoader().Namespace()
	}
	p, err := client.newPass(namespace, "")
	if err != nil {
		return nil, err
	}
	client.getter.bound.set(ctx)
	p.ord.alone = false
	p.ord.opts = runOptions{wait: WaitOrdered, waitAll: opts.WaitAll, waitForJobs: opts.WaitForJobs, readiness: opts.ReadinessTimeout, timeout: opts.Timeout}
	watching, stop := context.WithCancel(ctx)
	p.ord.watcher = status.NewWatcher(watching, client.dynamic, status.Options{})
	p.rec.Driver = cfg.Releases.Driver
	l := &library{ordered: p.ord, ctx: ctx, cfg: cfg, rec: p.rec, opts: opts}
	p.rec.seen, p.rec.removed = l.begin, l.beginUninstall
	cfg.Releases.Driver, cfg.KubeClient = p.rec, l
	funcs := charts.TemplateFuncs()
	maps.Copy(funcs, cfg.CustomTemplateFuncs)
	cfg.CustomTemplateFuncs = funcs
	return func() { p.ord.watcher.Close(); stop() }, nil
}

// library is the decorator of Helm's client for actions that are not ours. What
// they are about it learns when they store a release, which they do before they
// send anything of it.
type library struct {
	*ordered
	ctx  context.Context
	cfg  *action.Configuration
	rec  *recorder
	opts OrderedOptions

	turn sync.Mutex // of the one action under way
	info event.Operation
}

// begin learns from a new revision what is about to be applied.
func (l *library) begin(rel *rel1.Release) error {
	l.about("upgrade", rel)
	current, err := (&pass{cfg: l.cfg}).revisions(rel.Name)
	l.old = oldRevision{}
	if err == nil { // without an earlier revision there is nothing to remove
		l.old.tree = treeOf(current.current)
	}
	switch rel.Info.Status {
	case rcommon.StatusPendingRollback: // the record comes back with the chart
		l.info.Name, l.rec.record, l.tree = "rollback", nil, treeOf(rel)
		if err == nil {
			l.old.tree = treeOf(current.last)
		}
		return nil
	case rcommon.StatusPendingInstall:
		l.info.Name = "install"
	}
	if l.tree, err = treeOfHelm(rel); err != nil {
		return err
	}
	l.rec.record = &record{Version: recordVersion, Sequenced: true, Tree: l.tree}
	return nil
}

// beginUninstall learns what is about to be deleted.
func (l *library) beginUninstall(rel *rel1.Release) {
	l.about("uninstall", rel)
	if _, err := l.hold(l.ctx, rel); err != nil { // then what goes is ordered by itself
		l.old = oldRevision{tree: treeOf(rel)}
	}
}

func (l *library) about(name string, rel *rel1.Release) {
	l.builder.root, l.self = rel.Chart.Name(), owner(rel.Name, rel.Namespace)
	l.info = event.Operation{
		Name: name, Release: rel.Name, Namespace: rel.Namespace, Context: l.client.ContextName(), Revision: rel.Version,
		Chart: rel.Chart.Name() + "-" + rel.Chart.Metadata.Version, Timeout: l.opts.Timeout, ReadinessTimeout: l.opts.ReadinessTimeout,
	}
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
	if !l.builder.ours(list) {
		return l.ordered.Create(list, opts...)
	}
	err = l.run(func() error {
		res, err = l.ordered.Create(list, opts...)
		return err
	})
	return res, err
}

// Update upgrades in order.
func (l *library) Update(original, target helmkube.ResourceList, opts ...helmkube.ClientUpdateOption) (res *helmkube.Result, err error) {
	err = l.run(func() error {
		res, err = l.ordered.Update(original, target, opts...)
		return err
	})
	return res, err
}

// Delete removes in reverse order what is a release's.
func (l *library) Delete(list helmkube.ResourceList, policy metav1.DeletionPropagation) (res *helmkube.Result, errs []error) {
	if !l.builder.ours(list) {
		return l.ordered.Delete(list, policy)
	}
	err := l.run(func() error {
		if res, errs = l.ordered.Delete(list, policy); len(errs) > 0 {
			return errs[0]
		}
		return nil
	})
	if err != nil && len(errs) == 0 {
		errs = []error{err}
	}
	return res, errs
}

// run carries out the ordered part of an action with an engine of its own.
func (l *library) run(do func() error) error {
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
	eng := run.New(run.Options{Operation: l.info, Feed: feed, Diagnose: l.client.diagnose})
	abort := context.AfterFunc(l.ctx, func() { eng.Command(event.Command{Name: event.Abort, Reason: context.Cause(l.ctx).Error()}) })
	l.engine, l.announced = eng, nil
	err := do()
	l.engine = nil
	abort()
	if err != nil {
		finish(eng, run.End{Status: event.Failed, Message: err.Error(), Exit: 1})
	} else {
		finish(eng, run.End{Status: event.Succeeded})
	}
	told.Wait()
	return err
}
