package manifest

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// The label and annotations that Helm adds to an object to name the release that owns it. Helm checks
// them before it adopts an object and before an uninstall deletes it. Helm's upgrade does not check
// them, so it may change or delete an object that now belongs to another release.
const (
	ManagedByKey      = "app.kubernetes.io/managed-by"
	ownerNameKey      = "meta.helm.sh/release-name"
	ownerNamespaceKey = "meta.helm.sh/release-namespace"
)

// OwnerKeys are the keys of the label and the annotations that OwnerOf reads.
var OwnerKeys = []string{ManagedByKey, ownerNameKey, ownerNamespaceKey}

// OwnerField is the field of an object that names its release, as differences name it.
const OwnerField = "metadata.annotations[" + ownerNameKey + "]"

// OwnerOf returns the release that owns an object, in the form of Owner, or "".
func OwnerOf(m metav1.Object) string {
	a := m.GetAnnotations()
	if a[ownerNameKey] == "" || m.GetLabels()[ManagedByKey] != "Helm" {
		return ""
	}
	return Owner(a[ownerNameKey], a[ownerNamespaceKey])
}

// Owner returns the name of a release for messages: "release shop in namespace dev".
func Owner(release, namespace string) string {
	return fmt.Sprintf("release %s in namespace %s", release, namespace)
}

// Marks are the label and the annotations of an object that name its owner, the one that protects it, and that of a hook, each "" if
// it is missing.
type Marks struct {
	Manager, Release, Namespace string
	Policy                      string `json:",omitempty"` // helm.sh/resource-policy
	Hook                        string `json:",omitempty"` // helm.sh/hook
}

// Patch returns the metadata of a merge patch that sets the marks of an object, if it still has the UID.
func (m Marks) Patch(uid types.UID) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{
		"uid": uid, "labels": map[string]any{ManagedByKey: orNull(m.Manager)},
		"annotations": map[string]any{ownerNameKey: orNull(m.Release), ownerNamespaceKey: orNull(m.Namespace), helmkube.ResourcePolicyAnno: orNull(m.Policy),
			release.HookAnnotation: orNull(m.Hook)},
	}
}

func marksOf(m metav1.Object) Marks {
	a := m.GetAnnotations()
	return Marks{m.GetLabels()[ManagedByKey], a[ownerNameKey], a[ownerNamespaceKey], a[helmkube.ResourcePolicyAnno], a[release.HookAnnotation]}
}

// Other returns who else than the scope's release the marks of an object name, "" for nobody. An object that has lost only
// some of its marks names nobody else, nor does one whose label an admission policy or an operator has overwritten, if its
// annotations name the release.
func (s Scope) Other(seen Seen) string {
	m := seen.Marks
	switch {
	case s.OwnedByOther(seen.Owner):
		return seen.Owner
	case m.Release != "" && m.Release != s.Release || m.Namespace != "" && m.Namespace != s.Namespace:
		return Owner(m.Release, m.Namespace)
	case m.Manager != "" && m.Manager != "Helm" && m.Release == "":
		return fmt.Sprintf("%s (label %s)", m.Manager, ManagedByKey)
	}
	return ""
}

// OwnedByOther reports whether owner, in the form of Owner, is another release. It returns false if the
// scope's release is unknown, as in other programs that use Helm's actions.
func (s Scope) OwnedByOther(owner string) bool {
	return s.Owner() != "" && owner != "" && owner != s.Owner()
}

// Mark adds Helm's label and annotations to an object of the release.
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

// Marked returns a copy of an object of the release with Helm's label and annotations.
func (s Scope) Marked(i *resource.Info) *resource.Info {
	out := *i
	out.Object = i.Object.DeepCopyObject()
	s.Mark(&out)
	return &out
}

// HasKeepPolicy reports whether helm.sh/resource-policy keeps an object in the cluster.
func HasKeepPolicy(i *resource.Info) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	return ok && charts.Keeps(u.GetAnnotations())
}

// respell gives the ordering annotations with two slashes in their keys the spelling that the stored manifest has (RewriteKeys).
// So a rollback, and Helm, which use that manifest, send the same object as the install.
//
// Rule R3: keys with two slashes are never sent to the cluster.
func respell(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, k := range plan.TwoSlashKeys() {
		if value, ok := annotations[k]; ok {
			delete(annotations, k)
			annotations[plan.StoredKey(k)] = value
		}
	}
}
