package kube

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
)

// Which release an object belongs to is said by a label and two annotations. Helm looks at
// them before it takes an object into a release or deletes it in an uninstall,
// but not before an upgrade changes or removes what was the release's: an
// object that another release has taken over since would be lost to that one.

const (
	managedByKey      = "app.kubernetes.io/managed-by"
	ownerNameKey      = "meta.helm.sh/release-name"
	ownerNamespaceKey = "meta.helm.sh/release-namespace"
)

// ownerOf is the release that an object says it belongs to, as owner has it,
// or "".
func ownerOf(m metav1.Object) string {
	a := m.GetAnnotations()
	if a[ownerNameKey] == "" || m.GetLabels()[managedByKey] != "Helm" {
		return ""
	}
	return owner(a[ownerNameKey], a[ownerNamespaceKey])
}

func owner(release, namespace string) string {
	return fmt.Sprintf("release %s in namespace %s", release, namespace)
}

// taken reports whether an object is another release's, as far as it is known
// which release is worked on: a program with Helm's own actions may not tell.
func (o *ordered) taken(by string) bool { return o.self != "" && by != "" && by != o.self }

// checkOwners refuses an upgrade that would take an object from another
// release.
func (o *ordered) checkOwners(list helmkube.ResourceList) error {
	for _, i := range list {
		if f := o.builder.fact(i); f != nil && o.taken(f.owner) {
			return fmt.Errorf("%s (namespace %s) belongs to %s now: take it out of one of the charts, or take it over with --take-ownership",
				f.resource.Object, i.Namespace, f.owner)
		}
	}
	return nil
}

// warnOwners tells what a rollback takes from another release.
func (o *ordered) warnOwners(list helmkube.ResourceList) {
	for _, i := range list {
		if f := o.builder.fact(i); f != nil && o.taken(f.owner) {
			o.tell(plan.Warning{Rule: "R32", Object: &f.resource.Object, Message: fmt.Sprintf("%s belongs to %s now; this takes it back", f.resource.Object, f.owner)})
		}
	}
}

// removable leaves out of the list of an uninstallation what stays in the
// cluster, and tells about it: what helm.sh/resource-policy keeps, and what is
// not the release's any more, which Helm passes over in silence.
func (o *ordered) removable(list helmkube.ResourceList) helmkube.ResourceList {
	return list.Filter(func(i *resource.Info) bool {
		f := o.builder.fact(i)
		switch {
		case f == nil:
			return true
		case !notKept(i):
			o.tell(plan.Warning{Rule: "R31", Object: &f.resource.Object, Message: fmt.Sprintf("%s stays: helm.sh/resource-policy: keep", f.resource.Object)})
		case f.before != "" && f.owner != o.self:
			now := f.owner
			if now == "" {
				now = "no release"
			}
			o.tell(plan.Warning{Rule: "R31", Object: &f.resource.Object, Message: fmt.Sprintf("%s stays: by its annotations it belongs to %s now", f.resource.Object, now)})
		default:
			return true
		}
		return false
	})
}

// notKept reports whether an uninstallation removes an object.
func notKept(i *resource.Info) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	return !ok || u.GetAnnotations()[helmkube.ResourcePolicyAnno] != helmkube.KeepPolicy
}

// tell tells a warning once: with those of the plan, or, where the run has
// begun, at once.
func (o *ordered) tell(w plan.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told[w.Message] {
		return
	}
	if o.told == nil {
		o.told = map[string]bool{}
	}
	o.told[w.Message] = true
	if o.engine == nil {
		o.warnings = append(o.warnings, w)
		return
	}
	o.engine.Publish(warningEvent(w))
}
