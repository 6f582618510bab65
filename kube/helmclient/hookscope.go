package helmclient

import (
	"context"
	"fmt"
	"slices"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/manifest"
)

// Hooks with lockstep/hook-scope: subchart run around the turn of the subchart
// that they come from, not around the whole operation. They become groups of
// the plan, one hook each. To Helm, which executes them at its own time all the
// same, their manifests are empty; the release keeps them as they are. Helm's
// output-log policies do not apply to them: the log of one that fails is shown
// as that of any group.

// scopedHook is a hook that runs around the turn of its subchart.
type scopedHook struct {
	charts.HookTurn
	session cluster.Session
	list    helmkube.ResourceList

	mu     sync.Mutex
	sent   bool         // it was created, or a request may have come through
	status event.Status // what was last seen of it
	ended  bool         // its policies have been followed
}

var _ cluster.Hook = (*scopedHook)(nil)

// scope finds the hooks that run around their subchart. Only what is
// sequenced has turns.
func (h *Hooks) scope(rel *release.Release, built helmkube.ResourceList) ([]*scopedHook, error) {
	if h.cfg.Tree == nil || h.cfg.Hooks.Before == "" {
		return nil, nil
	}
	turns, warnings := charts.HookTurns(rel, h.cfg.Session.Builder.Scope().Root, h.cfg.Session.Builder.Resources(built), h.cfg.Hooks.Before, h.cfg.Hooks.After)
	for _, w := range warnings {
		h.cfg.Session.Warn(w)
	}
	var scoped []*scopedHook
	for _, t := range turns {
		list, err := BuildHook(h.cfg.Session.Builder, t)
		if err != nil {
			return nil, err
		}
		scoped = append(scoped, &scopedHook{HookTurn: t, session: h.cfg.Session, list: list})
	}
	return scoped, nil
}

// BuildHook makes the objects of a hook in the plan.
func BuildHook(b *manifest.Builder, t charts.HookTurn) (helmkube.ResourceList, error) {
	list, _, err := b.Build("# Source: " + t.Hook.Path + "\n" + t.Hook.Manifest)
	if err != nil {
		return nil, fmt.Errorf("hook %s/%s: %w", t.Hook.Kind, t.Hook.Name, err)
	}
	for _, i := range list {
		f := b.Fact(i)
		f.Unlabelled, f.Rule.Hook = true, true
	}
	return list, nil
}

// Clear removes what an earlier run of the hook left, as Helm does by its
// default policy.
func (s *scopedHook) Clear(ctx context.Context, i *resource.Info) error {
	s.mu.Lock()
	s.sent, s.status = true, ""
	s.mu.Unlock()
	p := s.Hook.DeletePolicies
	if len(p) > 0 && !slices.Contains(p, release.HookBeforeHookCreation) || s.Hook.Kind == "CustomResourceDefinition" {
		return nil
	}
	if err := s.session.DeleteAndWait(ctx, i); err != nil {
		return fmt.Errorf("remove the remains of hook %s: %w", s.Group.ID, err)
	}
	s.session.Builder.Fact(i).SetAbsent()
	return nil
}

// Saw remembers what was last seen of the hook.
func (s *scopedHook) Saw(status event.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// goes reports whether the hook's objects are to be deleted now that the run of
// groups has ended: by its policies, or since a Job or Pod was cut short.
func (s *scopedHook) goes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.sent || s.Hook.Kind == "CustomResourceDefinition":
		return false
	case s.status == event.Ready:
		return slices.Contains(s.Hook.DeletePolicies, release.HookSucceeded)
	case s.status == event.Failed:
		return slices.Contains(s.Hook.DeletePolicies, release.HookFailed)
	}
	return s.Hook.Kind == "Job" || s.Hook.Kind == "Pod"
}

// endScoped deletes hooks in the plan by their policies once they are over, and
// Jobs and Pods that were cut short.
func (h *Hooks) endScoped(ctx context.Context, s cluster.Session) error {
	for _, x := range h.queue.unended() {
		if !x.goes() {
			continue
		}
		list, err := BuildHook(s.Builder, x.HookTurn)
		if err != nil {
			return err
		}
		for _, i := range created(list, x.list) {
			if err := s.DeleteAndWait(ctx, i); err != nil {
				return fmt.Errorf("delete hook %s: %w", x.Group.ID, err)
			}
		}
	}
	return nil
}
