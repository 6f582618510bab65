package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// WaitOrdered is the wait strategy of HIP-0025: in order, by the DAG (R27).
const WaitOrdered helmkube.WaitStrategy = "ordered"

// ordered is the decorator of Helm's Kubernetes client: Build learns where each
// object comes from, Create, Update and Delete hand release objects to the
// engine, which sends them group by group, and hooks become units of their own.
// Whatever else Helm writes passes through.
type ordered struct {
	*helmkube.Client // the inner client
	builder          *builder
	client           *Client
	engine           *run.Engine
	watcher          *status.Watcher
	opts             runOptions
	// tree is the chart tree of what is being applied, old the revision that
	// objects are removed of.
	tree  *plan.Chart
	old   oldRevision
	hooks hookQueue
	// self is the release that is worked on, as owner has it. uninstalling
	// tells that what is built is to be deleted.
	self         string
	uninstalling bool
	// alone tells that nothing but the release and its hooks comes by: the
	// namespace and crds/ are not left to Helm's action.
	alone bool

	announced map[string]event.Phase
	removeErr error // why a removal failed: Helm tells only that it did

	mu       sync.Mutex
	warnings []plan.Warning
	told     map[string]bool         // the messages of those that tell has told
	built    []helmkube.ResourceList // each Build of a release
}

// runOptions are what the decorator needs to know of an operation.
type runOptions struct {
	// prefix is "" or engine.RollbackPrefix: it goes before the names of phases.
	prefix      string
	wait        helmkube.WaitStrategy
	waitAll     bool
	waitForJobs bool
	readiness   time.Duration
	timeout     time.Duration
	force       bool // take fields over from their owners
}

var (
	_ helmkube.Interface            = (*ordered)(nil)
	_ helmkube.InterfaceWaitOptions = (*ordered)(nil)
)

// Build makes the Infos of a manifest. Those of a hook are tied to its unit.
func (o *ordered) Build(r io.Reader, validate bool) (helmkube.ResourceList, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if o.hooks.isScoped(string(raw)) {
		return nil, nil // it is in the plan
	}
	list, warnings, err := o.builder.build(string(raw))
	if err != nil {
		return nil, err
	}
	if unit := o.hooks.match(string(raw), validate); unit != nil {
		for _, i := range list {
			f := o.builder.fact(i)
			f.hook, f.rule.Hook = unit, true
		}
		if validate { // it is about to be created
			o.client.lookAhead(o.requests(), o.builder, list)
		}
		return list, nil
	}
	if !isRelease(raw) && (!o.alone || isHook(raw)) {
		for _, i := range list { // what Helm writes besides: the namespace, crds/
			delete(o.builder.facts, i.Source)
		}
		return list, nil
	}
	if o.uninstalling {
		list = o.expand(o.requests(), list)
	}
	o.mu.Lock()
	o.warnings = append(o.warnings, warnings...)
	o.built = append(o.built, list)
	o.mu.Unlock()
	o.client.lookAhead(o.requests(), o.builder, list)
	if o.uninstalling {
		list = o.removable(list)
		return list, o.nothingToDelete(list)
	}
	return list, nil
}

// Create installs: the release's objects in order, anything else as it is.
func (o *ordered) Create(list helmkube.ResourceList, opts ...helmkube.ClientCreateOption) (*helmkube.Result, error) {
	if len(list) == 0 {
		return &helmkube.Result{}, nil
	}
	forget(list)
	if unit := o.hookOf(list); unit != nil {
		return o.createHook(unit, list, opts)
	}
	if !o.builder.ours(list) {
		return o.Client.Create(list, opts...)
	}
	if o.opts.force { // for a retry; Helm expects no conflict where nothing was
		opts = append(slices.Clone(opts), helmkube.ClientCreateOptionServerSideApply(true, true))
	}
	err := o.apply(list, func(i *resource.Info) error {
		_, err := o.Client.Create(helmkube.ResourceList{i}, opts...)
		return err
	})
	return &helmkube.Result{Created: list}, err
}

// Update upgrades: objects of the target in order, then what the target no
// longer has in reverse of the old order (R30). The result is never nil, since
// Helm reads it after an error.
func (o *ordered) Update(original, target helmkube.ResourceList, opts ...helmkube.ClientUpdateOption) (*helmkube.Result, error) {
	forget(original, target)
	original = o.expand(o.requests(), original)
	res := &helmkube.Result{}
	var mu sync.Mutex
	err := o.apply(target, func(i *resource.Info) error {
		var before helmkube.ResourceList
		if x := original.Get(i); x != nil {
			before = helmkube.ResourceList{x}
		}
		r, err := o.Client.Update(before, helmkube.ResourceList{i}, opts...)
		mu.Lock()
		defer mu.Unlock()
		if r != nil {
			res.Created, res.Updated = append(res.Created, r.Created...), append(res.Updated, r.Updated...)
		}
		return err
	})
	if err != nil { // --cleanup-on-fail takes away what was created, by the plan that created it
		res.Created = append(res.Created, target.Filter(func(i *resource.Info) bool {
			f := o.builder.fact(i)
			return f != nil && f.generate && i.Name != ""
		})...)
		o.old = oldRevision{o.tree, o.builder.resources(target)}
		return res, err
	}
	gone := original.Difference(target)
	// Helm puts among the original what the target takes over.
	taken := map[string]bool{}
	for _, i := range target {
		taken[i.Source] = true
	}
	o.old.resources = o.builder.resources(original.Filter(func(i *resource.Info) bool { return !taken[i.Source] }))
	err = o.remove(gone, metav1.DeletePropagationBackground, true)
	if err == nil {
		res.Deleted = gone
	}
	return res, err
}

// Delete uninstalls: the release's objects in reverse order (R31), a hook's
// object as part of its unit, anything else as it is.
func (o *ordered) Delete(list helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if len(list) == 0 {
		return &helmkube.Result{}, nil
	}
	forget(list)
	if unit := o.hookOf(list); unit != nil {
		return o.deleteHook(unit, list, policy)
	}
	if !o.builder.ours(list) {
		return o.Client.Delete(list, policy)
	}
	if o.uninstalling && o.opts.prefix == "" { // those that Helm has left out are part of the plan
		list = append(list, o.absent(o.last()).Difference(list)...)
	}
	if err := o.remove(list, policy, false); err != nil {
		o.removeErr = err
		return &helmkube.Result{}, []error{err}
	}
	return &helmkube.Result{Deleted: list}, nil
}

// apply runs the phase that brings a list to the cluster.
func (o *ordered) apply(list helmkube.ResourceList, send func(*resource.Info) error) error {
	if len(list) == 0 {
		return nil
	}
	phases, err := o.applyPhase(o.tree, list)
	if err != nil {
		return err
	}
	phase := phases[0]
	hooks := map[string]bool{}
	for _, s := range o.hooks.scopedOnes() {
		list, hooks[s.Group.ID] = append(list, s.list...), true
	}
	gates := (&plan.Plan{Groups: phase.Groups}).Gates()
	stage := run.Stage{
		Phase:     phase,
		Cluster:   newTarget(o, list, send, nil),
		Await:     func(g *plan.Group) bool { return o.awaits(gates[g.ID] || hooks[g.ID]) },
		Readiness: o.opts.readiness,
	}
	if o.opts.wait != WaitOrdered {
		stage.Readiness = 0 // the operation's timeout alone, as in Helm
	}
	o.announce(phase)
	if err := o.engine.Run(stage); err != nil {
		return err
	}
	o.hooks.mainDone()
	return o.endScoped(o.requests())
}

// last is what the last Build of a release's manifest built.
func (o *ordered) last() helmkube.ResourceList {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.built) == 0 {
		return nil
	}
	return o.built[len(o.built)-1]
}

// warned are the warnings of all Builds, each once.
func (o *ordered) warned() []plan.Warning {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []plan.Warning
	for _, w := range o.warnings {
		if !slices.ContainsFunc(out, func(x plan.Warning) bool { return x.Message == w.Message }) {
			out = append(out, w)
		}
	}
	return out
}

// awaits reports whether a group is over only when it is ready (R21, R27).
func (o *ordered) awaits(gate bool) bool {
	switch o.opts.wait {
	case WaitOrdered:
		return gate || o.opts.waitAll
	case helmkube.StatusWatcherStrategy:
		return true
	}
	return false
}

// plan orders resources, or for a strategy other than ordered puts all of them
// into one group (R27).
func (o *ordered) plan(tree *plan.Chart, resources []plan.Resource) (*plan.Plan, error) {
	if o.opts.wait != WaitOrdered || tree == nil {
		return plan.Flat(resources, o.builder.root), nil
	}
	return plan.Build(tree, resources)
}

// applyPhase is the phase that brings a list to the cluster, or none for an
// empty list.
func (o *ordered) applyPhase(tree *plan.Chart, list helmkube.ResourceList) ([]event.Phase, error) {
	if len(list) == 0 {
		return nil, nil
	}
	p, err := o.plan(tree, o.builder.resources(list))
	if err != nil {
		return nil, err
	}
	return []event.Phase{{Name: o.opts.prefix + phaseApply, Kind: event.PhaseApply, Groups: plan.AroundSubcharts(p.Groups, o.hooks.turns())}}, nil
}

const (
	phaseApply  = "apply"
	phaseRemove = "remove"
)

// announce tells what a phase will run, where that has not been told.
func (o *ordered) announce(p event.Phase) {
	if old, ok := o.announced[p.Name]; ok && reflect.DeepEqual(old, p) {
		return
	}
	if o.announced == nil {
		o.announced = map[string]event.Phase{}
	}
	o.announced[p.Name] = p
	o.engine.Announce(p)
}

// requests is the context that ends requests.
func (o *ordered) requests() context.Context {
	if o.engine == nil {
		return context.Background()
	}
	return o.engine.Requests()
}

// isRelease reports whether a manifest is that of a release: only those name
// the templates that their objects come from. They may not where a
// post-renderer has taken the comments away, as Helm 3 lets it (R6).
func isRelease(manifest []byte) bool { return bytes.Contains(manifest, []byte("# Source: ")) }

func isHook(manifest []byte) bool { return bytes.Contains(manifest, []byte(rel1.HookAnnotation)) }

// markAnnounced remembers a phase that the operation has told of.
func (o *ordered) markAnnounced(p event.Phase) {
	if o.announced == nil {
		o.announced = map[string]event.Phase{}
	}
	o.announced[p.Name] = p
}

// warn adds a warning about the plan.
func (o *ordered) warn(rule, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warnings = append(o.warnings, plan.Warning{Rule: rule, Message: fmt.Sprintf(format, args...)})
}
