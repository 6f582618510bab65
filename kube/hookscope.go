package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
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
	list helmkube.ResourceList

	mu     sync.Mutex
	sent   bool         // it was created, or a request may have come through
	status event.Status // what was last seen of it
	ended  bool         // its policies have been followed
}

// scopeHooks finds the hooks of two events that run around their subchart. It
// is called before the plan is made, and before Helm executes hooks.
func (o *ordered) scopeHooks(tree *plan.Chart, rel *release.Release, none bool, before, after release.HookEvent) error {
	o.hooks.setScoped(nil)
	if none || o.opts.wait != WaitOrdered || tree == nil {
		return nil
	}
	turns, warnings := charts.HookTurns(rel, o.builder.root, o.builder.resources(o.last()), before, after)
	for _, w := range warnings {
		o.warn(w.Rule, "%s", w.Message)
	}
	var scoped []*scopedHook
	for _, t := range turns {
		list, _, err := o.builder.build("# Source: " + t.Hook.Path + "\n" + t.Hook.Manifest)
		if err != nil {
			return fmt.Errorf("hook %s/%s: %w", t.Hook.Kind, t.Hook.Name, err)
		}
		s := &scopedHook{HookTurn: t, list: list}
		for _, i := range list {
			f := o.builder.fact(i)
			f.bare, f.rule.Hook, f.scoped = true, true, s
		}
		scoped = append(scoped, s)
	}
	o.hooks.setScoped(scoped)
	return nil
}

// turns are those of the hooks in the plan.
func (q *hookQueue) turns() []plan.Turn {
	var out []plan.Turn
	for _, s := range q.scopedOnes() {
		out = append(out, s.Turn)
	}
	return out
}

func (q *hookQueue) setScoped(s []*scopedHook) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.scoped = s
}

// isScoped reports whether a manifest is that of a hook in the plan.
func (q *hookQueue) isScoped(manifest string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasScoped(manifest)
}

func (q *hookQueue) hasScoped(manifest string) bool {
	return slices.ContainsFunc(q.scoped, func(s *scopedHook) bool { return s.Hook.Manifest == manifest })
}

// clear removes what an earlier run of the hook left, as Helm does by its
// default policy.
func (s *scopedHook) clear(ctx context.Context, o *ordered, i *resource.Info) error {
	s.mu.Lock()
	s.sent, s.status = true, ""
	s.mu.Unlock()
	p := s.Hook.DeletePolicies
	if len(p) > 0 && !slices.Contains(p, release.HookBeforeHookCreation) || s.Hook.Kind == "CustomResourceDefinition" {
		return nil
	}
	if err := o.deleteAndWait(ctx, i); err != nil {
		return fmt.Errorf("remove what is left of hook %s: %w", s.Group.ID, err)
	}
	f := o.builder.fact(i)
	f.known, f.before = true, ""
	return nil
}

// saw remembers what was last seen of the hook.
func (s *scopedHook) saw(status event.Status) {
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
func (o *ordered) endScoped(ctx context.Context) error {
	for _, s := range o.hooks.takeScoped() {
		if !s.goes() {
			continue
		}
		for _, i := range s.list {
			if err := o.deleteAndWait(ctx, i); err != nil {
				return fmt.Errorf("delete hook %s: %w", s.Group.ID, err)
			}
		}
	}
	return nil
}

func (q *hookQueue) scopedOnes() []*scopedHook {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.scoped)
}

// takeScoped returns the hooks in the plan that have not been ended. Their
// manifests stay known.
func (q *hookQueue) takeScoped() []*scopedHook {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*scopedHook
	for _, s := range q.scoped {
		if !s.ended {
			s.ended = true
			out = append(out, s)
		}
	}
	return out
}
