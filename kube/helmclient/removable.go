package helmclient

import (
	"cmp"
	"context"
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
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
