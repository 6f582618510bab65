package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Lifecycle has the Kubernetes versions in which a built-in kind was deprecated and removed,
// 0 for never.
type Lifecycle struct {
	DeprecatedMajor, DeprecatedMinor int
	RemovedMajor, RemovedMinor       int
	Replacement                      schema.GroupVersionKind
}

// replacements are the new versions of kinds that are not in client-go's scheme.
var replacements = map[schema.GroupKind]string{
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: "v1",
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             "v1",
}

// LifecycleOf returns the lifecycle of a kind from client-go's types.
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

// Use returns a hint with the replacement, "; use X", or "".
func (l Lifecycle) Use() string {
	if l.Replacement.Kind == "" {
		return ""
	}
	return fmt.Sprintf("; use %s %s", l.Replacement.GroupVersion(), l.Replacement.Kind)
}

// Removed returns a hint for a kind that Kubernetes has removed, "" for other kinds.
func Removed(gvk schema.GroupVersionKind) string {
	if use := replacements[gvk.GroupKind()]; use != "" && gvk.Version == "v1beta1" {
		return fmt.Sprintf(": removed in Kubernetes 1.22; use %s/%s %s", gvk.Group, use, gvk.Kind)
	}
	l, _ := LifecycleOf(gvk)
	if l.RemovedMajor == 0 {
		return ""
	}
	return fmt.Sprintf(": removed in Kubernetes %d.%d%s", l.RemovedMajor, l.RemovedMinor, l.Use())
}
