package helmclient

import (
	"context"
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
)

// Hooks runs the hooks of one action as units of the run. Helm decides which hook is next and
// when to delete it. A command that resumes runs all of them again (R50).
type Hooks struct {
	cfg   Config
	queue hookQueue
}

// expect sets the revision whose hooks Helm executes next, and announces their phases. built
// are the objects of the release, for the hooks in the plan.
func (h *Hooks) expect(rel *release.Release, built helmkube.ResourceList) error {
	turns, lists, warnings, err := ScopedHooks(h.cfg.Session.Builder, rel, h.cfg.Tree, built, h.cfg.Hooks)
	if err != nil {
		return err
	}
	h.cfg.warn(warnings)
	var scoped []*scopedHook
	for n, t := range turns {
		scoped = append(scoped, &scopedHook{HookTurn: t, session: h.cfg.Session, list: lists[n]})
	}
	for _, phase := range h.queue.reset(rel, h.cfg.Options.Prefix, h.cfg.Hooks, scoped) {
		h.cfg.announce(phase)
	}
	return nil
}

func (h *Hooks) admit(u *hookUnit) error {
	if u.admitted {
		return nil
	}
	if err := h.cfg.Engine.Admit(u.phase, u.group); err != nil {
		return err
	}
	u.admitted = true
	return nil
}

// create starts the hook's stage and returns once the API server has stored its object.
func (h *Hooks) create(u *hookUnit, list helmkube.ResourceList, opts []helmkube.ClientCreateOption) (*helmkube.Result, error) {
	if err := h.admit(u); err != nil {
		return nil, err
	}
	send := func(i *resource.Info) error {
		_, err := h.cfg.Inner.Create(helmkube.ResourceList{i}, opts...)
		return err
	}
	group := *u.group
	group.Objects = nil
	for _, r := range h.cfg.Session.Builder.Resources(list) {
		group.Objects = append(group.Objects, r.Object)
	}
	group.Waves = []plan.Wave{{Count: len(group.Objects)}}
	stage := h.cfg.Engine.Start(run.Stage{
		Phase:   event.Phase{Name: u.phase, Kind: event.PhaseHooks, Groups: []*plan.Group{&group}},
		Cluster: cluster.NewApply(h.cfg.Session, list, send, nil),
	})
	h.queue.started(u, list, stage)
	if err := stage.Applied(); err != nil {
		h.queue.failed(u, err)
		return nil, err
	}
	return &helmkube.Result{Created: list}, nil
}

func (h *Hooks) wait(u *hookUnit) error {
	if u.run == nil {
		return fmt.Errorf("hook %s was never created", u.group.ID)
	}
	if err := u.run.Wait(); err != nil {
		h.queue.failed(u, err)
		return err
	}
	h.queue.succeeded(u)
	return nil
}

// delete deletes a hook's object: before the hook starts, that of a previous run; afterwards
// its own, by its delete policy.
func (h *Hooks) delete(u *hookUnit, list helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if u.run == nil {
		if err := h.admit(u); err != nil {
			return nil, []error{err}
		}
	}
	res := &helmkube.Result{}
	for _, i := range withNames(list, u.list) {
		found, err := cluster.Delete(i, policy)
		if err != nil {
			return res, []error{fmt.Errorf("delete hook %s: %w", u.group.ID, err)}
		}
		if !found {
			continue
		}
		res.Deleted = append(res.Deleted, i)
		if u.run != nil {
			obj := h.cfg.Session.Builder.Fact(i).Resource.Object
			obj.Name = i.Name
			h.cfg.Engine.Publish(event.Event{Kind: event.KindObject, Phase: u.phase, Group: u.group.ID, Object: &obj,
				Status: u.finalStatus(), Change: event.Deleted, Message: "deleted by helm.sh/hook-delete-policy"})
		}
	}
	return res, nil
}

// Sweep deletes the object of a hook that an abort interrupted, which would continue to run
// otherwise. A failed hook stays for inspection unless Helm deletes it by its policy. Sweep
// uses the given session because the client's own requests may have been stopped.
func (h *Hooks) Sweep(ctx context.Context, s cluster.Session) error {
	if err := h.endScoped(ctx, s); err != nil {
		return err
	}
	u := h.queue.running()
	if u == nil || !u.interrupted() || u.hook.Kind != "Job" && u.hook.Kind != "Pod" {
		return nil
	}
	list, _, err := s.Builder.Build(u.hook.Manifest)
	if err != nil {
		return err
	}
	for _, i := range withNames(list, u.list) {
		if err := s.DeleteAndWait(ctx, i); err != nil {
			return fmt.Errorf("delete the aborted hook %s: %w", u.group.ID, err)
		}
	}
	return nil
}
