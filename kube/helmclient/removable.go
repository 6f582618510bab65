package helmclient

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// Removable leaves out of the list of an uninstallation what stays in the
// cluster, with a warning for each: what helm.sh/resource-policy keeps, and what
// is not the release's any more, which Helm passes over in silence.
func Removable(b *manifest.Builder, list helmkube.ResourceList) (helmkube.ResourceList, []plan.Warning) {
	var warnings []plan.Warning
	stays := func(o plan.Object, format string, args ...any) {
		warnings = append(warnings, plan.Warning{Rule: "R31", Object: &o, Message: fmt.Sprintf("%s is kept: ", o) + fmt.Sprintf(format, args...)})
	}
	goes := list.Filter(func(i *resource.Info) bool {
		f := b.Fact(i)
		switch {
		case f == nil:
			return true
		case manifest.Kept(i):
			stays(f.Resource.Object, "helm.sh/resource-policy: keep")
		case f.Before().Version != "" && f.Owner != b.Scope().Owner():
			now := f.Owner
			if now == "" {
				now = "no release"
			}
			stays(f.Resource.Object, "its annotations now name %s as its owner", now)
		default:
			return true
		}
		return false
	})
	return goes, warnings
}
