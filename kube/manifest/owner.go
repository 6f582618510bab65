package manifest

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// Which release an object belongs to is said by a label and two annotations. Helm looks at
// them before it takes an object into a release or deletes it in an uninstall,
// but not before an upgrade changes or removes what was the release's: an
// object that another release has taken over since would be lost to that one.

// The marks that Helm gives to what belongs to a release.
const (
	ManagedByKey      = "app.kubernetes.io/managed-by"
	ownerNameKey      = "meta.helm.sh/release-name"
	ownerNamespaceKey = "meta.helm.sh/release-namespace"
)

// OwnerOf returns the release that an object says it belongs to, as Owner names it,
// or "".
func OwnerOf(m metav1.Object) string {
	a := m.GetAnnotations()
	if a[ownerNameKey] == "" || m.GetLabels()[ManagedByKey] != "Helm" {
		return ""
	}
	return Owner(a[ownerNameKey], a[ownerNamespaceKey])
}

// Owner names a release: "release shop in namespace dev".
func Owner(release, namespace string) string {
	return fmt.Sprintf("release %s in namespace %s", release, namespace)
}

// Taken reports whether an object is another release's, as far as it is known
// which release is worked on: a program with Helm's own actions may not tell.
func (s Scope) Taken(by string) bool { return s.Owner() != "" && by != "" && by != s.Owner() }

// Mark gives an object the marks that Helm gives to what belongs to a release.
func (s Scope) Mark(i *resource.Info) {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[ManagedByKey] = "Helm"
	annotations[ownerNameKey], annotations[ownerNamespaceKey] = s.Release, s.Namespace
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}

// Kept reports whether an uninstallation leaves an object in the cluster by
// helm.sh/resource-policy.
func Kept(i *resource.Info) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	return ok && u.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy
}
