package helmclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
)

// The hooks of an action run as units of the run. Helm decides which hook is next and when to
// delete it. A command that resumes runs all of them again (R50).

// ExpectHooks sets the revision whose hooks Helm executes next, and announces their phases. Call it before
// Helm executes them: for an install, upgrade or rollback, when the revision is stored.
func (c *Client) ExpectHooks(rel *release.Release) error {
	c.mu.Lock()
	c.serverSideApply = rel.ApplyMethod == string(release.ApplyMethodServerSideApply)
	c.mu.Unlock()
	list := c.builtObjects()
	if list == nil && c.cfg.Tree != nil { // a rollback stores the revision before it builds the manifest
		var err error
		if list, _, err = c.builder().BuildTarget(rel.Manifest); err != nil {
			return err
		}
	}
	if !c.cfg.Uninstalling {
		c.cfg.Session.Taken.Expect(c.builder(), c.cfg.Session.Claims, list)
	}
	hooks, lists, warnings, err := ScopedHooks(c.builder(), rel, c.cfg.Tree, list, c.cfg.Hooks)
	if err != nil {
		return err
	}
	c.cfg.warn(warnings)
	var scoped []*scopedHook
	for n, h := range hooks {
		scoped = append(scoped, &scopedHook{ScopedHook: h, list: lists[n]})
	}
	for _, phase := range c.hooks.reset(rel, c.cfg.Options.Prefix, c.cfg.Hooks, scoped) {
		c.cfg.announce(phase)
	}
	return nil
}

// ExpectTests sets the stored revision whose tests Helm executes next, after its other hooks.
func (c *Client) ExpectTests(rel *release.Release) {
	for _, phase := range c.hooks.reset(rel, c.cfg.Options.Prefix, HookEvents{Before: release.HookTest}, nil) {
		c.cfg.announce(phase)
	}
}

func (c *Client) admitHook(u *hookUnit) error {
	if u.admitted {
		return nil
	}
	if err := c.cfg.Engine.Admit(u.phase, u.group); err != nil {
		return err
	}
	u.admitted = true
	return nil
}

// createHook starts the hook's stage and returns once the API server has stored its object.
func (c *Client) createHook(u *hookUnit, list helmkube.ResourceList, opts []helmkube.ClientCreateOption) (*helmkube.Result, error) {
	if err := c.admitHook(u); err != nil {
		return nil, err
	}
	send := func(i *resource.Info) error {
		_, err := c.cfg.Inner.Create(helmkube.ResourceList{i}, opts...)
		return err
	}
	for _, i := range list {
		c.builder().Fact(i).Replaces = u.replaces
	}
	group := *u.group
	group.Objects = nil
	for _, r := range c.builder().Resources(list) {
		group.Objects = append(group.Objects, r.Object)
	}
	group.Waves = []plan.Wave{{Count: len(group.Objects)}}
	stage := c.cfg.Engine.Start(run.Stage{
		Phase:   event.Phase{Name: u.phase, Kind: event.PhaseHooks, Groups: []*plan.Group{&group}},
		Cluster: cluster.NewApply(c.cfg.Session, list, send, nil),
	})
	c.hooks.recordStart(u, list, stage)
	if err := stage.WaitApplied(); err != nil {
		c.hooks.recordFailure(u, err)
		return nil, err
	}
	return &helmkube.Result{Created: list}, nil
}

func (c *Client) awaitHook(u *hookUnit) error {
	if u.run == nil {
		return fmt.Errorf("hook %s was never created", u.group.ID)
	}
	if err := u.run.Wait(); err != nil {
		c.hooks.recordFailure(u, err)
		return err
	}
	c.hooks.recordSuccess(u)
	return nil
}

// deleteHook deletes the hook's object after it has run, as the delete policy says. The object of a previous run is
// deleted in the hook's stage, so that the screen shows a wait for its end, and the hook fails if that takes too long.
func (c *Client) deleteHook(u *hookUnit, list helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	res := &helmkube.Result{}
	if u.run == nil {
		u.replaces = true
		return res, nil
	}
	var errs []error // like Helm, try to delete all objects
	for _, i := range withNames(list, u.list) {
		found, kept, err := c.cfg.Session.Delete(c.cfg.Context, i, hookRemoval(policy, i, u.list))
		if err != nil {
			errs = append(errs, fmt.Errorf("delete hook %s: %w", u.group.ID, err))
			continue
		}
		if !found || kept != "" {
			continue
		}
		res.Deleted = append(res.Deleted, i)
		obj := c.builder().Fact(i).Resource.Object
		obj.Name = i.Name
		c.cfg.Engine.Publish(event.Event{
			Kind: event.KindObject, Phase: u.phase, Group: u.group.ID, Object: &obj,
			Status: u.finalStatus(), Change: event.Deleted, Message: "deleted by helm.sh/hook-delete-policy",
		})
	}
	return res, errs
}

// reportDeletion returns a function that shows what the deletion of a hook's object waits for, after the hook has ended.
func (c *Client) reportDeletion(phase string, g *plan.Group) func(run.Observation) {
	return func(ob run.Observation) {
		c.cfg.Engine.Publish(event.Event{
			Kind: event.KindWaiting, Phase: phase, Group: g.ID, Object: &ob.Object, Status: event.Deleting,
			Message: "deleted by helm.sh/hook-delete-policy: " + ob.Message, Finalizers: ob.Finalizers,
		})
	}
}

// hookRemoval returns how to delete the object of a hook: only the one in created, if that has it.
func hookRemoval(policy metav1.DeletionPropagation, i *resource.Info, created helmkube.ResourceList) cluster.Removal {
	how := cluster.Removal{Policy: policy}
	if x := created.Get(i); x != nil {
		if m, err := meta.Accessor(x.Object); err == nil {
			how.UID = m.GetUID()
		}
	}
	return how
}

// Sweep applies the delete policies of hooks in the plan, then deletes the object of a hook that an abort
// interrupted, because it would continue to run. A failed hook stays for inspection, unless its policy
// says otherwise. Sweep needs a session because the client's own requests may have been cancelled.
func (c *Client) Sweep(ctx context.Context, s cluster.Session) error {
	return errors.Join(c.deleteScopedHooks(ctx, s), c.sweepRunning(ctx, s))
}

// sweepTimeout limits how long the end of a run waits until the pods of an interrupted hook are gone. The next run waits for the rest.
const sweepTimeout = 10 * time.Second

func (c *Client) sweepRunning(ctx context.Context, s cluster.Session) error {
	u := c.hooks.running()
	if u == nil || !u.interrupted() || u.hook.Kind != "Job" && u.hook.Kind != "Pod" {
		return nil
	}
	list, _, err := s.Builder.Build(u.hook.Manifest)
	if err != nil {
		return err
	}
	for _, i := range withNames(list, u.list) {
		if s.Terminating(ctx, i) { // the object of the previous run
			continue
		}
		s.Builder.Fact(i).Rule.Hook = true
		waiting, cancel := context.WithTimeout(ctx, sweepTimeout)
		err := s.DeleteAndWait(waiting, i, hookRemoval(metav1.DeletePropagationBackground, i, u.list), c.reportDeletion(u.phase, u.group))
		cancel()
		if err != nil && !s.Terminating(ctx, i) {
			return fmt.Errorf("delete the aborted hook %s: %w", u.group.ID, err)
		}
	}
	return nil
}
