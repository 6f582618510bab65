package helmclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/manifest"
)

// Hooks with lockstep/hook-scope: subchart run around the groups of their subchart instead of the
// whole operation. Each becomes a group of the plan. Helm still executes them at its usual time, but
// Build then returns no objects. The stored release does not change. Helm's output-log policies do
// not apply to them; the log of a failed one is shown like that of any group.

// scopedHook is a hook that runs around the groups of its subchart.
type scopedHook struct {
	charts.ScopedHook
	list helmkube.ResourceList

	cleanedUp bool // set by takeScoped; guarded by hookQueue.mu

	mu     sync.Mutex
	sent   bool         // the hook was created, or may have been
	status event.Status // the last one seen
}

var _ cluster.Hook = (*scopedHook)(nil)

// ScopedHooks returns the hooks that run around the groups of their subcharts. built[n] has the objects of
// hooks[n]. If tree is nil, there are none. list has the objects of the release.
func ScopedHooks(b *manifest.Builder, rel *release.Release, tree *plan.Chart, list helmkube.ResourceList, events HookEvents) (
	hooks []charts.ScopedHook, built []helmkube.ResourceList, warnings []plan.Warning, err error) {
	if tree == nil || events.Before == "" {
		return nil, nil, nil, nil
	}
	hooks, warnings = charts.ScopedHooks(rel, b.Scope().Root, b.Resources(list), events.Before, events.After)
	for _, h := range hooks {
		objects, err := buildHook(b, h)
		if err != nil {
			return nil, nil, nil, err
		}
		built = append(built, objects)
	}
	return hooks, built, warnings, nil
}

// CreatedBefore returns the objects that hooks of a release create before its objects are removed, among those in list: of
// its hooks before the objects, and of those around subcharts.
func CreatedBefore(b *manifest.Builder, rel *release.Release, events HookEvents, scoped []charts.ScopedHook, list helmkube.ResourceList) (created helmkube.ResourceList) {
	hooks := charts.HooksOf(rel.Hooks, events.Before)
	for _, s := range scoped {
		hooks = append(hooks, s.Hook)
	}
	for _, h := range hooks {
		named := func(i *resource.Info) bool { return i.Name == h.Name && i.Mapping.GroupVersionKind.Kind == h.Kind }
		if events.Before == "" || !slices.ContainsFunc(list, named) {
			continue
		}
		if objects, _, err := b.BuildTarget(h.Manifest); err == nil { // the run reports the error
			created = append(created, objects...)
		}
	}
	return created
}

// buildHook returns the objects of a hook in the plan.
func buildHook(b *manifest.Builder, h charts.ScopedHook) (helmkube.ResourceList, error) {
	list, _, err := b.Build("# Source: " + h.Hook.Path + "\n" + h.Hook.Manifest)
	if err != nil {
		return nil, fmt.Errorf("hook %s/%s: %w", h.Hook.Kind, h.Hook.Name, err)
	}
	for _, i := range list {
		f := b.Fact(i)
		f.Rule.Hook, f.Replaces = true, replacesPrevious(h.Hook)
	}
	return list, nil
}

// SetSent records that the hook is about to be created.
func (s *scopedHook) SetSent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.status = true, ""
}

// SetRefused records that the API server refused the hook. As in Helm, the hook's delete policies then do
// not apply: an object with its name is somebody else's.
func (s *scopedHook) SetRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = false
}

// SetStatus records the status of the hook.
func (s *scopedHook) SetStatus(status event.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// deletable reports whether to delete the hook's objects after all groups: because its policies say
// so, or because it is a Job or Pod that was interrupted.
func (s *scopedHook) deletable() bool {
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

// deleteScopedHooks deletes the objects of hooks in the plan by their policies, and interrupted Jobs
// and Pods. After an error it continues with the next hook, because an interrupted Job would continue
// to run.
func (c *Client) deleteScopedHooks(ctx context.Context, s cluster.Session) error {
	var errs []error
	for _, hook := range c.hooks.takeScoped() {
		if err := hook.delete(ctx, s, c.reportDeletion("", hook.Group)); err != nil {
			errs = append(errs, fmt.Errorf("delete hook %s: %w", hook.Group.ID, err))
		}
	}
	return errors.Join(errs...)
}

// delete deletes the objects of the hook if they are deletable.
func (s *scopedHook) delete(ctx context.Context, session cluster.Session, report func(run.Observation)) error {
	if !s.deletable() {
		return nil
	}
	list, err := buildHook(session.Builder, s.ScopedHook)
	if err != nil {
		return err
	}
	for _, i := range withNames(list, s.list) {
		if err := session.DeleteAndWait(ctx, i, hookRemoval(metav1.DeletePropagationBackground, i, s.list), report); err != nil {
			return err
		}
	}
	return nil
}
