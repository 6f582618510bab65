package helmclient

import (
	"context"
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// replacesPrevious reports whether the hook's delete policies delete the object of a previous run first, as in Helm.
func replacesPrevious(h *release.Hook) bool {
	p := h.DeletePolicies
	return h.Kind != "CustomResourceDefinition" && (len(p) == 0 || slices.Contains(p, release.HookBeforeHookCreation))
}

// HookChecks is what HookConflicts must know about the release.
type HookChecks struct {
	Claims manifest.Claims
	// Owner names another release whose hook has made an object, "" for none.
	Owner func(plan.Object) (string, error)
	// Continued reports whether the operation continues the run in which a hook has made an object.
	Continued func(*release.Hook, plan.Object, manifest.Seen) bool
	// Warn makes a hook that would not run a warning (--skip-preflight).
	Warn bool
}

// HookFindings is what HookConflicts finds. Kept are the objects of hooks that do not replace one, Replaced those of the others.
type HookFindings struct {
	Conflicts, Warnings []plan.Warning
	Kept, Replaced      helmkube.ResourceList
}

func (f *HookFindings) add(warn bool, w plan.Warning) {
	if warn {
		f.Warnings = append(f.Warnings, w)
		return
	}
	f.Conflicts = append(f.Conflicts, w)
}

// HookConflicts looks for hooks whose object exists, although they do not replace it and a hook has made it: an earlier run, or an
// earlier hook of the operation. If another release's hook has, that is a conflict. So is a Job or Pod, because it would not run
// again, unless the operation continues the run that made it, or takes objects over. Other objects are applied over, as Helm does
// with server-side apply.
func HookConflicts(ctx context.Context, b *manifest.Builder, rel *release.Release, events HookEvents, checks HookChecks) (f HookFindings, err error) {
	kept := map[*release.Hook]helmkube.ResourceList{}
	objects := map[*release.Hook][]plan.Object{}
	hooks := slices.Concat(charts.HooksOf(rel.Hooks, events.Before), charts.HooksOf(rel.Hooks, events.After))
	for n, h := range hooks {
		if h.Kind == "CustomResourceDefinition" || slices.Contains(hooks[:n], h) {
			continue
		}
		list, err := buildHook(b, charts.ScopedHook{Hook: h})
		if err != nil {
			continue // the run reports it
		}
		for _, i := range list {
			if fact := b.Fact(i); !fact.Generated {
				objects[h] = append(objects[h], fact.Resource.Object)
			}
		}
		if replacesPrevious(h) {
			f.Replaced = append(f.Replaced, list...)
			continue
		}
		kept[h], f.Kept = list, append(f.Kept, list...)
	}
	b.Prefetch(ctx, slices.Concat(f.Kept, f.Replaced), nil)
	for n, h := range hooks {
		if slices.Contains(hooks[:n], h) {
			continue
		}
		for _, i := range kept[h] {
			if err := f.checkLeft(h, b.Fact(i), checks); err != nil {
				return f, err
			}
		}
	}
	f.checkRepeated(rel, events, objects, checks.Warn)
	return f, nil
}

// checkLeft checks an object that a hook does not replace.
func (f *HookFindings) checkLeft(h *release.Hook, fact *manifest.Fact, checks HookChecks) (err error) {
	if fact.Before().Terminating || !fact.MadeByHook() {
		return nil
	}
	o, other := fact.Resource.Object, ""
	if checks.Claims.MadeByOthersHook(fact) {
		if other, err = checks.Owner(o); err != nil {
			return err
		}
	}
	w := plan.Warning{Chart: fact.Resource.Chart, Object: &o}
	place := manifest.PlaceOf(o, "cluster scope")
	switch {
	case other != "":
		w.Message = fmt.Sprintf("%s already exists (%s), made by a hook of release %s: this hook does not replace it, because its %s lacks %s; rename the hook or add that policy",
			o, place, other, release.HookDeleteAnnotation, release.HookBeforeHookCreation)
		f.add(false, w)
	case !runs(o):
	case checks.Claims.Take || checks.Warn || checks.Continued(h, o, fact.Seen()):
		w.Message = fmt.Sprintf("%s already exists (%s), so this hook does not run it again: its %s lacks %s; add that policy, or delete the object",
			o, place, release.HookDeleteAnnotation, release.HookBeforeHookCreation)
		f.add(true, w)
	default:
		w.Rule = "R22"
		w.Message = fmt.Sprintf("%s already exists (%s), left by an earlier run of the hook, so the hook would not run again: delete the object, or add %s to the hook's %s",
			o, place, release.HookBeforeHookCreation, release.HookDeleteAnnotation)
		f.add(false, w)
	}
	return nil
}

// runs reports whether an object runs once. A hook that finds it would count its old result as its own.
func runs(o plan.Object) bool {
	return o.Group == "batch" && o.Kind == "Job" || o.Group == "" && o.Kind == "Pod"
}

// checkRepeated looks for hooks that find the Job or Pod of an earlier hook of the operation, or of their own run at its earlier
// event, and do not replace it.
func (f *HookFindings) checkRepeated(rel *release.Release, events HookEvents, objects map[*release.Hook][]plan.Object, warn bool) {
	left := map[plan.Object]release.HookEvent{}
	for _, event := range []release.HookEvent{events.Before, events.After} {
		hooks := charts.HooksOf(rel.Hooks, event)
		for _, h := range hooks {
			for _, o := range objects[h] {
				if by := left[o]; by != "" && runs(o) && !replacesPrevious(h) {
					f.add(warn, plan.Warning{Rule: "R22", Object: &o, Message: fmt.Sprintf(
						"%s (%s) is left by the %s hook, so the %s hook would not run: add %s to its %s, or skip all hooks with --no-hooks",
						o, manifest.PlaceOf(o, "cluster scope"), by, event, release.HookBeforeHookCreation, release.HookDeleteAnnotation)})
				}
				left[o] = event
			}
		}
		for _, h := range hooks { // Helm deletes them once all hooks of the event have succeeded
			if slices.Contains(h.DeletePolicies, release.HookSucceeded) {
				for _, o := range objects[h] {
					delete(left, o)
				}
			}
		}
	}
}
