// Package helmclient connects Helm's actions to the engine. Client wraps Helm's Kubernetes client:
// Build records the chart and annotations of each object; Create, Update and Delete pass the
// release's objects to the engine, which sends them group by group. Each hook is a stage with a single
// group. Other writes go to Helm's client unchanged. DryRun wraps Helm's client for actions that write
// nothing. Only package kube and its packages operation, preflight and view import it.
package helmclient

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/manifest"
)

// Client wraps Helm's Kubernetes client. It serves one action.
type Client struct {
	helmkube.Interface // cfg.Inner
	cfg                Config
	hooks              hookQueue
	inferred           *infer.Order // by Reorder

	mu              sync.Mutex
	built           helmkube.ResourceList // by the last Build of the release's manifest
	snapshot        *manifest.Snapshot    // read by Builds since the last write
	serverSideApply bool                  // the revision's apply method
	created         helmkube.ResourceList // by the last Update
	removeErr       error                 // of the last failed removal
}

var (
	_ helmkube.Interface            = (*Client)(nil)
	_ helmkube.InterfaceWaitOptions = (*Client)(nil)
)

// New returns a Client that wraps cfg.Inner.
func New(cfg Config) *Client {
	return &Client{Interface: cfg.Inner, cfg: cfg, snapshot: &manifest.Snapshot{}}
}

func (c *Client) builder() *manifest.Builder { return c.cfg.Session.Builder }

func (c *Client) ordering() Ordering {
	o := Ordering{
		Prefix: c.cfg.Options.Prefix, Root: c.builder().Scope().Root, Jobs: c.cfg.Options.Jobs, WaitFor: c.cfg.Options.WaitFor, Inferred: c.inferred, Charts: c.cfg.Apply.Charts,
	}
	if c.cfg.Options.Wait == WaitOrdered {
		o.WaitOutside = c.builder().WaitOutside
	}
	return o
}

// Create installs the release's objects in order. It passes other objects to Helm's client.
func (c *Client) Create(list helmkube.ResourceList, opts ...helmkube.ClientCreateOption) (*helmkube.Result, error) {
	if len(list) == 0 {
		return &helmkube.Result{}, nil
	}
	c.forgetSnapshot()
	manifest.DropPrefetched(list)
	if unit := c.hooks.unitOf(list); unit != nil {
		return c.createHook(unit, list, opts)
	}
	if !c.builder().HasReleaseObjects(list) {
		return c.cfg.Inner.Create(list, opts...)
	}
	if c.cfg.Options.Method.Force { // for a retry: Helm does not force when it creates
		opts = append(slices.Clone(opts), helmkube.ClientCreateOptionServerSideApply(true, true))
	}
	err := c.apply(list, nil, func(i *resource.Info) error {
		_, err := c.cfg.Inner.Create(helmkube.ResourceList{i}, opts...)
		return err
	})
	if err == nil {
		err = c.remove(Revision{}, nil, cluster.Removal{}) // leftovers only
	}
	return &helmkube.Result{Created: list}, err
}

// Update applies the objects of the target in order, then deletes the objects that the target lacks
// in the reverse of the old order (R30). The result is never nil, because Helm also reads it after
// an error.
func (c *Client) Update(original, target helmkube.ResourceList, opts ...helmkube.ClientUpdateOption) (*helmkube.Result, error) {
	c.forgetSnapshot()
	manifest.DropPrefetched(original, target)
	original, warnings := c.builder().Expand(c.cfg.Context, original)
	c.cfg.warn(warnings)
	original, target = c.leaveUntouched(original, target)
	res, err := c.applyTarget(original, target, opts)
	// Add the objects with generated names: the engine created them, and --cleanup-on-fail must delete them too.
	res.Created = append(res.Created, target.Filter(func(i *resource.Info) bool {
		f := c.builder().Fact(i)
		return f != nil && f.Generated && i.Name != ""
	})...)
	c.mu.Lock()
	c.created = res.Created
	c.mu.Unlock()
	if err != nil {
		return res, err
	}
	missing := manifest.Without(manifest.Without(original, target), c.hooks.created())
	// Helm adds the existing objects that the target adopts to original.
	targetSources := map[string]bool{}
	for _, i := range target {
		targetSources[i.Source] = true
	}
	oldObjects := original.Filter(func(i *resource.Info) bool { return !targetSources[i.Source] })
	old := Revision{c.cfg.Old.Tree, c.builder().Resources(oldObjects)}
	err = c.remove(old, missing, cluster.Removal{Policy: metav1.DeletePropagationBackground, Keep: true})
	if err == nil {
		res.Deleted = missing
	}
	return res, err
}

// applyTarget applies the objects of the target in order.
//
// A rollback undoes what the failed operation did (R33). Objects that it has not touched may be as somebody else wants them.
func (c *Client) applyTarget(original, target helmkube.ResourceList, opts []helmkube.ClientUpdateOption) (*helmkube.Result, error) {
	c.mu.Lock()
	serverSide := c.serverSideApply
	c.mu.Unlock()
	if c.cfg.Embedded == nil { // the options of Helm's action, which a dry run also uses
		opts = c.cfg.Options.Method.Options()
	}
	res := &helmkube.Result{}
	var mu sync.Mutex // guards res
	send := func(i, old *resource.Info) error {
		var before helmkube.ResourceList
		if old != nil {
			before = helmkube.ResourceList{old}
		}
		if serverSide {
			f := c.builder().Fact(i)
			defer f.Recall(append(before, i)...)()
			if f.Seen().Migrates { // Helm's migration changes the version before the apply
				if err := c.cfg.Session.LookAtOwner(c.cfg.Context, i); err != nil {
					return err
				}
				f.Require(i, true)
			}
		}
		r, err := c.cfg.Inner.Update(before, helmkube.ResourceList{i}, opts...)
		mu.Lock()
		defer mu.Unlock()
		if r != nil {
			res.Updated = append(res.Updated, r.Updated...)
			if f := c.builder().Fact(i); f == nil || c.cfg.Session.Replaces[f.Resource.Object].Message == "" { // --cleanup-on-fail must not delete what is replaced
				res.Created = append(res.Created, r.Created...)
			}
		}
		return asPatchError(err)
	}
	originals := manifest.NewIndex(original)
	err := c.apply(target, originals, func(i *resource.Info) error {
		if untouched := c.cfg.Options.Untouched; untouched != nil && untouched(cluster.ObjectOf(i)) {
			if err := i.Get(); !apierrors.IsNotFound(err) {
				return err
			}
		}
		var managed []metav1.ManagedFieldsEntry
		if f := c.builder().Fact(i); f != nil {
			managed = f.Seen().Managed // the write fails if they change once more
		}
		return c.sendAdapted(i, cmp.Or(c.cfg.Options.Method.Applied.Of(i, managed), originals.Get(i)), send)
	})
	return res, err
}

// Delete deletes the release's objects in reverse order (R31), and those of a hook as part of the hook's
// unit. For the new objects of a failed upgrade (--cleanup-on-fail), that is the reverse of the order
// of the upgrade. It passes other objects to Helm's client.
func (c *Client) Delete(list helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if len(list) == 0 {
		return &helmkube.Result{}, nil
	}
	c.forgetSnapshot()
	manifest.DropPrefetched(list)
	if unit := c.hooks.unitOf(list); unit != nil {
		return c.deleteHook(unit, list, policy)
	}
	if !c.builder().HasReleaseObjects(list) {
		return c.cfg.Inner.Delete(list, policy)
	}
	old, remove := c.cfg.Old, c.remove
	switch {
	case !c.cfg.Uninstalling && len(c.builtObjects()) > 0:
		remove, old = c.removeOld, Revision{c.cfg.Tree, c.builder().Resources(c.builtObjects())}
	case c.cfg.Uninstalling && c.cfg.Options.Prefix == "":
		list = append(list, manifest.Without(c.notDeletedByHelm(c.builtObjects()), list)...)
	}
	if err := remove(old, list, cluster.Removal{Policy: policy}); err != nil {
		c.mu.Lock()
		c.removeErr = err
		c.mu.Unlock()
		return &helmkube.Result{}, []error{err}
	}
	return &helmkube.Result{Deleted: list}, nil
}

// DeleteCreated deletes the objects that the last Update created, as Helm does after a failure with --cleanup-on-fail. RemoveErr
// returns its error.
func (c *Client) DeleteCreated() {
	c.mu.Lock()
	created := c.created
	c.mu.Unlock()
	_, _ = c.Delete(created, metav1.DeletePropagationBackground)
}

// RemoveErr returns the error of the last failed removal. Helm's uninstall does not return it.
func (c *Client) RemoveErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeErr
}

// apply runs the phase that applies a list. send sends one object; originals has those of the old revision.
func (c *Client) apply(list helmkube.ResourceList, originals manifest.Index, send func(*resource.Info) error) error {
	if len(list) == 0 {
		return nil
	}
	planned, err := c.planApply(list)
	if err != nil {
		return err
	}
	if c.cfg.Embedded != nil {
		if err := c.cfg.Embedded.Check(planned.Phase); err != nil {
			return err
		}
	}
	if err := c.builder().Infer(c.cfg.Tree, list); err != nil {
		return err
	}
	scoped := c.hooks.scopedHooks()
	hooks, inPlan := map[string]bool{}, map[plan.Object]cluster.Hook{}
	for _, s := range scoped {
		list, hooks[s.Group.ID] = append(list, s.list...), true
		for _, r := range c.builder().Resources(s.list) {
			inPlan[r.Object] = s
		}
	}
	if err := c.cfg.Session.KeepDependents(c.cfg.Context, slices.Collect(maps.Keys(c.cfg.Session.Replaces)), nil); err != nil {
		return err
	}
	target := cluster.NewApply(c.cfg.Session, list, send, inPlan)
	target.DryRun = c.dryRun(originals)
	if err := c.cfg.Engine.Run(c.applyStage(planned.Phase, target, hooks)); err != nil {
		return err
	}
	return c.deleteScopedHooks(c.cfg.Context, c.cfg.Session)
}

// applyStage returns the stage of a phase that applies objects; hooks are the ids of its groups that are hooks.
func (c *Client) applyStage(phase event.Phase, target run.Cluster, hooks map[string]bool) run.Stage {
	dependencies := (&plan.Plan{Groups: phase.Groups}).Dependencies()
	stage := run.Stage{
		Phase:              phase,
		Cluster:            target,
		Await:              func(g *plan.Group) bool { return c.awaits(dependencies[g.ID] || hooks[g.ID] || g.NoReturn != "") },
		ObjectTimeout:      c.cfg.Options.Readiness,
		FirstStatusTimeout: c.cfg.Options.FirstStatus,
		Settle:             c.cfg.Options.Settle,
		WatchOutside:       c.cfg.Session.WatchOutside,
		Ends:               func(g *plan.Group) bool { return hooks[g.ID] }, // their delete policies may delete them
	}
	if c.cfg.Options.Wait != WaitOrdered {
		stage.ObjectTimeout = 0 // the operation's timeout alone, as in Helm
	}
	return stage
}

// Observe runs a phase of objects that are already applied, without sending any: it ends when they are ready.
func (c *Client) Observe(phase event.Phase, list helmkube.ResourceList) error {
	if err := c.builder().Infer(c.cfg.Tree, list); err != nil {
		return err
	}
	return c.cfg.Engine.Run(c.applyStage(phase, cluster.NewObservation(c.cfg.Session, list), nil))
}

// planApply returns the plan for a list. If that is not Config.Apply, for example because crds/
// changed what the chart renders, planApply plans now and announces the phase.
func (c *Client) planApply(list helmkube.ResourceList) (Planned, error) {
	resources, hooks := c.builder().Resources(list), c.hooks.subchartHooks()
	if c.cfg.Apply.matches(resources, hooks) {
		return c.cfg.Apply, nil
	}
	planned, warnings, err := c.ordering().PlanApply(c.cfg.Tree, resources, hooks)
	if err != nil {
		return Planned{}, err
	}
	c.cfg.warn(warnings)
	c.cfg.announce(planned.Phase)
	return planned, nil
}

// remove deletes a list in the reverse of the order that applied it (R30, R31), and leftovers of
// other revisions before and after it (R32a).
func (c *Client) remove(old Revision, list helmkube.ResourceList, removal cluster.Removal) error {
	if err := c.removeLeftovers(c.cfg.Leftovers.Newer); err != nil {
		return err
	}
	if err := c.removeOld(old, list, removal); err != nil {
		return err
	}
	return c.removeLeftovers(c.cfg.Leftovers.Older)
}

// removeOld runs the phase that deletes a list of objects of the old revision.
func (c *Client) removeOld(old Revision, list helmkube.ResourceList, removal cluster.Removal) error {
	if len(list) == 0 {
		return nil
	}
	planned := c.cfg.Remove
	if resources := c.builder().Resources(list); !planned.matches(resources, nil) {
		var warnings []plan.Warning
		planned, warnings = c.ordering().PlanRemoval(old, resources)
		c.cfg.warn(warnings)
		c.cfg.announce(planned.Phase)
	}
	if err := c.removeStage(planned, list, removal); err != nil {
		return err
	}
	c.hooks.finishMain()
	return nil
}

// removeUnlessHelmDoes runs the removal of an uninstall if Helm has no object to delete, because it then
// never calls Delete.
func (c *Client) removeUnlessHelmDoes(list helmkube.ResourceList) error {
	switch {
	case len(c.notDeletedByHelm(list)) < len(list):
		return nil
	case len(list) == 0, c.cfg.Options.Prefix != "": // a rollback plans existing objects only
		c.hooks.finishMain()
		list = nil
	}
	return c.remove(c.cfg.Old, list, cluster.Removal{Policy: metav1.DeletePropagationBackground})
}

// notDeletedByHelm returns the objects of an uninstall that Build withholds from Helm, because they did not exist, could not
// be read, or have lost the marks of the release, without which Helm keeps them. They stay in the plan.
func (c *Client) notDeletedByHelm(list helmkube.ResourceList) helmkube.ResourceList {
	lostMarks := func(f *manifest.Fact) bool {
		return f.Seen().Version != "" && f.Seen().Owner != c.builder().Scope().Owner() && c.cfg.Session.Claims.Removes(c.builder().Scope(), f)
	}
	return list.Filter(func(i *resource.Info) bool {
		f := c.builder().Fact(i)
		return f != nil && (f.Before().Absent() || f.Before().Err != nil || lostMarks(f))
	})
}

// builtObjects returns the objects of the last Build of the release's manifest.
func (c *Client) builtObjects() helmkube.ResourceList {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.built)
}

// awaits reports whether to wait until a group is ready. isDependency is set if other groups wait for it.
//
// Rule R21: every group must become ready, unless nothing waits for it and SkipLeaves
// is set, or another strategy (R27) checks less.
func (c *Client) awaits(isDependency bool) bool {
	switch c.cfg.Options.Wait {
	case WaitOrdered:
		return isDependency || !c.cfg.Options.SkipLeaves
	case helmkube.StatusWatcherStrategy:
		return true
	}
	return false
}
