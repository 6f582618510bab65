package operation

import (
	"cmp"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
)

// claims returns the existing objects that an operation on the release may write to (R31a): its own, those that hooks of
// its revisions have created, and, as in Helm, all of the deployed revision. With take, it may write to all.
func (r *releaseState) claims(common preflight.Common, b *manifest.Builder, take bool) (manifest.Claims, error) {
	c := manifest.Claims{Take: take, Advice: common.TakeAdvice(), Unmarked: map[plan.Object]bool{}}
	if r == nil {
		return c, nil
	}
	c.MadeByHook = func(o plan.Object) bool { return r.hasHook(common, o) }
	if r.Current.Info.Status != rcommon.StatusDeployed { // a failed revision may never have applied an object
		return c, nil
	}
	deployed, err := buildRevision(b, r.Current)
	for _, res := range b.Resources(deployed) {
		c.Unmarked[res.Object] = true
	}
	return c, err
}

// hasHook reports whether a hook of a stored revision has an object.
func (r *releaseState) hasHook(common preflight.Common, o plan.Object) bool {
	for _, rel := range r.All {
		for _, h := range rel.Hooks {
			if h.Kind != o.Kind || h.Name != o.Name {
				continue
			}
			_, doc := documents.CutSource(h.Manifest)
			value, _ := common.Reader().Parse(doc)
			u := &unstructured.Unstructured{}
			u.Object, _ = value.(map[string]any)
			inNamespace := o.Namespace == "" || o.Namespace == cmp.Or(u.GetNamespace(), common.Namespace)
			if inNamespace && u.GroupVersionKind().Group == o.Group {
				return true
			}
		}
	}
	return false
}
