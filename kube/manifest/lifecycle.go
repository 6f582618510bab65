package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Lifecycle is what is known of the end of a version of one of Kubernetes' own
// kinds. Versions of Kubernetes are 0 if there is none.
type Lifecycle struct {
	DeprecatedMajor, DeprecatedMinor int
	RemovedMajor, RemovedMinor       int
	Replacement                      schema.GroupVersionKind
}

// elsewhere are the kinds whose types are not among the client's.
var elsewhere = map[schema.GroupKind]string{
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: "v1",
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             "v1",
}

// LifecycleOf reads what Kubernetes' own types say of themselves.
func LifecycleOf(gvk schema.GroupVersionKind) (l Lifecycle, known bool) {
	o, err := scheme.Scheme.New(gvk)
	if err != nil {
		return l, false
	}
	if d, ok := o.(interface{ APILifecycleDeprecated() (int, int) }); ok {
		l.DeprecatedMajor, l.DeprecatedMinor = d.APILifecycleDeprecated()
	}
	if r, ok := o.(interface{ APILifecycleRemoved() (int, int) }); ok {
		l.RemovedMajor, l.RemovedMinor = r.APILifecycleRemoved()
	}
	if r, ok := o.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		l.Replacement = r.APILifecycleReplacement()
	}
	return l, true
}

// Use is what to use instead of it, "; use X" or nothing.
func (l Lifecycle) Use() string {
	if l.Replacement.Kind == "" {
		return ""
	}
	return fmt.Sprintf("; use %s %s", l.Replacement.GroupVersion(), l.Replacement.Kind)
}

// Removed is what is to be said of a kind that the cluster does not have: that
// Kubernetes had it once, and has it no more. It is empty for others.
func Removed(gvk schema.GroupVersionKind) string {
	if use := elsewhere[gvk.GroupKind()]; use != "" && gvk.Version == "v1beta1" {
		return fmt.Sprintf(": removed in Kubernetes 1.22; use %s/%s %s", gvk.Group, use, gvk.Kind)
	}
	l, _ := LifecycleOf(gvk)
	if l.RemovedMajor == 0 {
		return ""
	}
	return fmt.Sprintf(": removed in Kubernetes %d.%d%s", l.RemovedMajor, l.RemovedMinor, l.Use())
}
