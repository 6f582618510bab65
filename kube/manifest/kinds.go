package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/kube/charts"
	"lockstep/kube/status"
)

// Resolve looks up the kind of a late object. Its plural and scope, from a CRD of the manifest or
// guessed, may differ from those in the cluster (R29).
func (b *Builder) Resolve(i *resource.Info) error {
	mapper, err := b.client.Getter.ToRESTMapper()
	if err != nil {
		return err
	}
	gvk := i.Mapping.GroupVersionKind
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(mapper)
		mapping, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w; install its CRD", err)
	}
	if err != nil {
		return err
	}
	b.setMapping(i, mapping)
	return nil
}

// ResolveStored looks up the kinds of the late objects of a stored revision, which are only watched or deleted: the cluster may
// no longer serve the version in which one was applied, but still have it in another version. Then it is not late.
func (b *Builder) ResolveStored(list ...*resource.Info) error {
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || !f.Late {
			continue
		}
		mapper, err := b.client.Getter.ToRESTMapper()
		if err != nil {
			return err
		}
		mapping, err := mapper.RESTMapping(i.Mapping.GroupVersionKind.GroupKind())
		if meta.IsNoMatchError(err) {
			continue
		}
		if err == nil {
			i.Client, err = b.RESTClient(mapping)
		}
		if err != nil {
			return err
		}
		b.setMapping(i, mapping)
		f.Late = false
	}
	return nil
}

func (b *Builder) setMapping(i *resource.Info, mapping *meta.RESTMapping) {
	i.Mapping = mapping
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		setNamespace(u, mapping, b.scope.Namespace)
		i.Namespace = u.GetNamespace()
	}
}

// mapKind finds the API of a kind. If the cluster does not have the kind, mapKind takes the API from a
// CRD of the same manifest, or guesses it, and late is set: Resolve must look the kind up again when
// its group starts (R17, R29). It returns an error if no CRD could define the kind.
func mapKind(mapper meta.RESTMapper, gvk schema.GroupVersionKind, defined map[schema.GroupVersionKind]*meta.RESTMapping) (mapping *meta.RESTMapping, late bool, err error) {
	if gvk.Kind == "" || gvk.Version == "" {
		return nil, false, errors.New("kind and apiVersion must be set")
	}
	mapping, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case err == nil:
		return mapping, false, nil
	case !meta.IsNoMatchError(err):
		return nil, false, err
	case defined[gvk] != nil:
		return defined[gvk], true, nil
	}
	if !strings.Contains(gvk.Group, ".") {
		return nil, false, err // the group of a CRD contains a dot
	}
	return guessMapping(gvk), true, nil
}

// servedMapping returns the API of a kind in a version that the cluster serves, or of the kind that has replaced it in Kubernetes.
func servedMapping(mapper meta.RESTMapper, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := mapper.RESTMapping(gvk.GroupKind())
	if l, _ := LifecycleOf(gvk); meta.IsNoMatchError(err) && l.Replacement.Kind != "" {
		return mapper.RESTMapping(l.Replacement.GroupKind())
	}
	return mapping, err
}

// guessMapping returns the most likely API of a kind.
func guessMapping(gvk schema.GroupVersionKind) *meta.RESTMapping {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	scope := meta.RESTScopeNamespace
	if !charts.OfflineScope()(gvk) {
		scope = meta.RESTScopeRoot
	}
	return &meta.RESTMapping{Resource: plural, GroupVersionKind: gvk, Scope: scope}
}

// DefinedKinds returns the kinds that CRDs among the documents define, in the versions that they serve.
func DefinedKinds(docs []charts.Document) map[schema.GroupVersionKind]*meta.RESTMapping {
	out := map[schema.GroupVersionKind]*meta.RESTMapping{}
	for _, d := range docs {
		u := d.Object
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		at := func(path ...string) string {
			s, _, _ := unstructured.NestedString(u.Object, path...)
			return s
		}
		scope := meta.RESTScopeNamespace
		if at("spec", "scope") == "Cluster" {
			scope = meta.RESTScopeRoot
		}
		versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
		for _, v := range versions {
			m, _ := v.(map[string]any)
			if m["served"] == false {
				continue
			}
			name, _ := m["name"].(string)
			gvk := schema.GroupVersionKind{Group: at("spec", "group"), Version: name, Kind: at("spec", "names", "kind")}
			out[gvk] = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(at("spec", "names", "plural")), GroupVersionKind: gvk, Scope: scope}
		}
	}
	return out
}

// LearnStatus records which versions of a CRD have a status subresource, once the API server has accepted the CRD: until
// discovery shows it may take a moment.
func (b *Builder) LearnStatus(i *resource.Info) {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok || u.GetKind() != "CustomResourceDefinition" {
		return
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	for _, v := range versions {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		_, has, _ := unstructured.NestedFieldNoCopy(m, "subresources", "status")
		b.shared.hasStatus[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = has
	}
}

// HasStatus reports whether a kind has a status of which only a write shows that it is about the object as it is (R22a).
func (b *Builder) HasStatus(mapping *meta.RESTMapping) bool {
	gvk := mapping.GroupVersionKind
	if !status.ShownByWrites(gvk.Group) {
		return false
	}
	b.shared.mu.Lock()
	has, known := b.shared.hasStatus[gvk]
	b.shared.mu.Unlock()
	if known {
		return has
	}
	client, err := b.client.Getter.ToDiscoveryClient()
	if err != nil {
		return false
	}
	list, err := client.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == mapping.Resource.Resource+"/status" })
}

// Lifecycle contains the Kubernetes versions in which a built-in kind was deprecated and removed,
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

// removals are kinds that client-go's scheme no longer has, or whose replacement in it was removed, too.
var removals = map[schema.GroupVersionKind]string{
	{Group: "autoscaling", Version: "v2beta1", Kind: "HorizontalPodAutoscaler"}: "1.25; use autoscaling/v2 HorizontalPodAutoscaler",
	{Group: "autoscaling", Version: "v2beta2", Kind: "HorizontalPodAutoscaler"}: "1.26; use autoscaling/v2 HorizontalPodAutoscaler",
	{Group: "policy", Version: "v1beta1", Kind: "PodSecurityPolicy"}:            "1.25; use Pod Security Admission",
	{Group: "extensions", Version: "v1beta1", Kind: "PodSecurityPolicy"}:        "1.16; use Pod Security Admission",
}

// LifecycleOf returns the lifecycle of a kind in client-go's scheme.
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
	if next, _ := LifecycleOf(l.Replacement); next.RemovedMajor > 0 { // the replacement was removed, too
		l.Replacement = next.Replacement
	}
	return l, true
}

// ReplacementHint returns advice to use the replacement, "; use X", or "" if there is none.
func (l Lifecycle) ReplacementHint() string {
	if l.Replacement.Kind == "" {
		return ""
	}
	return fmt.Sprintf("; use %s %s", l.Replacement.GroupVersion(), l.Replacement.Kind)
}

// RemovalHint returns a hint for a kind that Kubernetes has removed, "" for other kinds.
func RemovalHint(gvk schema.GroupVersionKind) string {
	if hint := removals[gvk]; hint != "" {
		return ": removed in Kubernetes " + hint
	}
	if use := replacements[gvk.GroupKind()]; use != "" && gvk.Version == "v1beta1" {
		return fmt.Sprintf(": removed in Kubernetes 1.22; use %s/%s %s", gvk.Group, use, gvk.Kind)
	}
	l, _ := LifecycleOf(gvk)
	if l.RemovedMajor == 0 {
		return ""
	}
	return fmt.Sprintf(": removed in Kubernetes %d.%d%s", l.RemovedMajor, l.RemovedMinor, l.ReplacementHint())
}
