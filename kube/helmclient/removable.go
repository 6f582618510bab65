package helmclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
)

// Removable returns the objects of a list that an uninstall deletes, and a warning for each object
// that stays: because of helm.sh/resource-policy: keep, or because the release no longer owns it.
func Removable(b *manifest.Builder, claims manifest.Claims, list helmkube.ResourceList) (helmkube.ResourceList, []plan.Warning) {
	var warnings []plan.Warning
	keep := func(o plan.Object, format string, args ...any) {
		warnings = append(warnings, plan.Warning{Rule: "R31", Object: &o, Message: fmt.Sprintf("%s is kept: ", o) + fmt.Sprintf(format, args...)})
	}
	removable := list.Filter(func(i *resource.Info) bool {
		f := b.Fact(i)
		switch {
		case f == nil:
			return true
		case manifest.HasKeepPolicy(i):
			keep(f.Resource.Object, "helm.sh/resource-policy: keep")
		case f.Seen().Version != "" && !claims.Removes(b.Scope(), f):
			keep(f.Resource.Object, "its label and annotations now name %s as its owner", cmp.Or(b.Scope().Other(f.Seen()), "no release"))
		default:
			return true
		}
		return false
	})
	return removable, warnings
}

// MarkUnread marks the objects of a prefetched list that cannot be read, and returns a warning for
// each. Like Helm, an uninstall keeps them, because it cannot check their owner. They stay in the
// plan, so that preflight checks the permissions for them.
func MarkUnread(ctx context.Context, b *manifest.Builder, list helmkube.ResourceList) (warnings []plan.Warning) {
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || f.Before().Known || f.Late || f.Generated || manifest.HasKeepPolicy(i) {
			continue
		}
		err := b.Read(ctx, i)
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.SetUnread(err)
		o := f.Resource.Object
		warnings = append(warnings, plan.Warning{Rule: "R31", Object: &o, Message: fmt.Sprintf(
			"%s is kept: %s. If it still belongs to the release, delete it yourself.", o, diagnose.Unreadable("its owner", err))})
	}
	return warnings
}

// leaveUntouched leaves out what a rollback would run again although the failed operation has not touched it: a Job that is gone because
// of its ttlSecondsAfterFinished, and objects with a generateName, with what exists of them. Those that share a generateName are not
// told apart: all are left out, or none.
func (c *Client) leaveUntouched(original, target helmkube.ResourceList) (_, _ helmkube.ResourceList) {
	untouched := c.cfg.Options.Untouched
	if untouched == nil {
		return original, target
	}
	named := manifest.NewIndex(target)
	kept := helmkube.ResourceList{}
	target = target.Filter(func(i *resource.Info) bool {
		f := c.builder().Fact(i)
		if f == nil || !f.Generated {
			expired := f != nil && cluster.Expires(i) && untouched(f.Resource.Object) && c.builder().Look(c.cfg.Context, i) == nil && f.Seen().Version == ""
			if expired {
				kept = append(kept, i)
			}
			return !expired
		}
		sharing := target.Filter(func(x *resource.Info) bool { return manifest.SharesGenerator(i, x) })
		if slices.ContainsFunc(sharing, func(x *resource.Info) bool { return !untouched(c.builder().Fact(x).Resource.Object) }) {
			return true
		}
		found := original.Filter(func(x *resource.Info) bool {
			return manifest.CreatedFrom(i, x) && untouched(cluster.ObjectOf(x)) && named.Get(x) == nil
		})
		if len(found) < len(sharing) {
			return true
		}
		kept = append(kept, found...)
		return false
	})
	return manifest.Without(original, kept), target
}
