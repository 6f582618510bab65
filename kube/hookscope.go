package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine"
)

// Hooks with lockstep/hook-scope: subchart run around the turn of the subchart
// that they come from, not around the whole operation. They become groups of
// the plan, one hook each. To Helm, which executes them at its own time all the
// same, their manifests are empty; the release keeps them as they are. Helm's
// output-log policies do not apply to them: the log of one that fails is shown
// as that of any group.

// scopeAnnotation is the annotation of a hook, scopeSubchart its one value.
const (
	scopeAnnotation = "lockstep/hook-scope"
	scopeSubchart   = "subchart"
)

// scopedHook is a hook that runs around the turn of its subchart.
type scopedHook struct {
	hook   *release.Hook
	before bool
	chart  string // path of the subchart
	group  *engine.Group
	list   helmkube.ResourceList

	mu     sync.Mutex
	sent   bool          // it was created, or a request may have come through
	status engine.Status // what was last seen of it
	ended  bool          // its policies have been followed
}

// scopeHooks finds the hooks of two events that run around their subchart. It
// is called before the plan is made, and before Helm executes hooks.
func (o *ordered) scopeHooks(tree *engine.Chart, rel *release.Release, none bool, before, after release.HookEvent) error {
	o.hooks.setScoped(nil)
	if none || o.opts.wait != WaitOrdered || tree == nil {
		return nil
	}
	var scoped []*scopedHook
	for _, e := range []release.HookEvent{before, after} {
		for _, h := range executing(rel.Hooks, e) {
			s, err := o.scopeHook(rel, h, e)
			if err != nil {
				return err
			}
			if s == nil {
				continue
			}
			if slices.Contains(h.Events, before) && slices.Contains(h.Events, after) {
				o.warn("R29", "%s: hook %s/%s runs before and after, so %s does not apply to it", s.chart, h.Kind, h.Name, scopeAnnotation)
				continue
			}
			s.before = e == before
			scoped = append(scoped, s)
		}
	}
	o.hooks.setScoped(scoped)
	return nil
}

// scopeHook returns nil for a hook that runs around the whole operation.
func (o *ordered) scopeHook(rel *release.Release, h *release.Hook, e release.HookEvent) (*scopedHook, error) {
	if !strings.Contains(h.Manifest, scopeAnnotation) {
		return nil, nil
	}
	list, _, err := o.builder.build("# Source: " + h.Path + "\n" + h.Manifest)
	if err != nil {
		return nil, fmt.Errorf("hook %s/%s: %w", h.Kind, h.Name, err)
	}
	s := &scopedHook{hook: h, list: list, group: hookGroup(rel, h, e, nil)}
	for _, i := range list {
		f := o.builder.fact(i)
		s.chart = f.resource.Chart
		if v, ok := f.resource.Annotations[scopeAnnotation]; !ok || v != scopeSubchart {
			if ok {
				o.warn("R29", "%s: hook %s/%s: %s: %q is not known; use %s", s.chart, h.Kind, h.Name, scopeAnnotation, v, scopeSubchart)
			}
			return nil, nil
		}
		f.bare, f.rule.Hook, f.scoped = true, true, s
	}
	s.group.Chart = s.chart
	alone := !slices.ContainsFunc(o.builder.resources(o.last()), func(r engine.Resource) bool { return within(r.Chart, s.chart) })
	if len(list) == 0 || s.chart == o.builder.root || alone {
		return nil, nil // the root chart's turn is the whole operation; there is none without objects
	}
	return s, nil
}

// within reports whether a chart is another one or below it.
func within(chart, of string) bool { return chart == of || strings.HasPrefix(chart, of+"/") }

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
	return slices.ContainsFunc(q.scoped, func(s *scopedHook) bool { return s.hook.Manifest == manifest })
}

// aroundSubcharts puts hooks before and after the groups of their subcharts:
// those before wait for what the subchart waits for, those after for all of it,
// and whatever waits for the subchart waits for them. Inner subcharts come
// first, so that their hooks are part of the outer ones' turn.
func aroundSubcharts(groups []*engine.Group, hooks []*scopedHook) []*engine.Group {
	charts := map[string][]*scopedHook{}
	for _, s := range hooks {
		charts[s.chart] = append(charts[s.chart], s)
	}
	var paths []string
	for p := range charts {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b string) int {
		if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, p := range paths {
		groups = aroundSubchart(groups, p, charts[p])
	}
	if len(paths) > 0 {
		relayer(groups)
	}
	return groups
}

func aroundSubchart(groups []*engine.Group, path string, hooks []*scopedHook) []*engine.Group {
	inside := map[string]bool{}
	var ids, gates []string
	for _, g := range groups {
		if within(g.Chart, path) {
			inside[g.ID], ids = true, append(ids, g.ID)
		}
	}
	for _, g := range groups {
		if inside[g.ID] {
			gates = append(gates, slices.DeleteFunc(slices.Clone(g.After), func(id string) bool { return inside[id] })...)
		}
	}
	before, after := unique(gates), unique(ids)
	var added []*engine.Group
	for _, s := range hooks {
		g := *s.group
		if s.before {
			g.After, before = before, []string{g.ID}
		} else {
			g.After, after = after, []string{g.ID}
		}
		added = append(added, &g)
	}
	for _, g := range groups {
		switch waits := slices.ContainsFunc(g.After, func(id string) bool { return inside[id] }); {
		case inside[g.ID]:
			g.After = unique(append(slices.Clone(g.After), before...))
		case waits:
			g.After = unique(append(slices.Clone(g.After), after...))
		}
	}
	return append(groups, added...)
}

// unique sorts ids; none are an empty list and not nil, as in a plan.
func unique(ids []string) []string {
	out := append([]string{}, ids...)
	slices.Sort(out)
	return slices.Compact(out)
}

// relayer puts groups in plan order after edges have come.
func relayer(groups []*engine.Group) {
	byID := map[string]*engine.Group{}
	for _, g := range groups {
		byID[g.ID] = g
	}
	done := map[string]bool{}
	var layer func(g *engine.Group) int
	layer = func(g *engine.Group) int {
		if done[g.ID] {
			return g.Layer
		}
		done[g.ID], g.Layer = true, 0
		for _, id := range g.After {
			g.Layer = max(g.Layer, layer(byID[id])+1)
		}
		return g.Layer
	}
	for _, g := range groups {
		layer(g)
	}
	slices.SortFunc(groups, func(a, b *engine.Group) int {
		if a.Layer != b.Layer {
			return a.Layer - b.Layer
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// clear removes what an earlier run of the hook left, as Helm does by its
// default policy.
func (s *scopedHook) clear(ctx context.Context, o *ordered, i *resource.Info) error {
	s.mu.Lock()
	s.sent, s.status = true, ""
	s.mu.Unlock()
	p := s.hook.DeletePolicies
	if len(p) > 0 && !slices.Contains(p, release.HookBeforeHookCreation) || s.hook.Kind == "CustomResourceDefinition" {
		return nil
	}
	if err := o.deleteAndWait(ctx, i); err != nil {
		return fmt.Errorf("remove what is left of hook %s: %w", s.group.ID, err)
	}
	f := o.builder.fact(i)
	f.known, f.before = true, ""
	return nil
}

// saw remembers what was last seen of the hook.
func (s *scopedHook) saw(status engine.Status) {
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
	case !s.sent || s.hook.Kind == "CustomResourceDefinition":
		return false
	case s.status == engine.Ready:
		return slices.Contains(s.hook.DeletePolicies, release.HookSucceeded)
	case s.status == engine.Failed:
		return slices.Contains(s.hook.DeletePolicies, release.HookFailed)
	}
	return s.hook.Kind == "Job" || s.hook.Kind == "Pod"
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
				return fmt.Errorf("delete hook %s: %w", s.group.ID, err)
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
