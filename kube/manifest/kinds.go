package manifest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/kube/charts"
)

// Resolve looks up a kind that the cluster did not know at Build, because its plural and its
// scope were guessed (R29).
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
	if err != nil {
		return fmt.Errorf("%w; the cluster has no CRD for it", err)
	}
	i.Mapping = mapping
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		setNamespace(u, mapping, b.scope.Namespace)
		i.Namespace = u.GetNamespace()
	}
	return nil
}

// mapKind finds the API of a kind. If the cluster does not know the kind, mapKind uses a CRD
// of the same manifest, or else guesses. Then late is set, and the kind must be resolved
// when its group starts (R17, R29).
func mapKind(mapper meta.RESTMapper, gvk schema.GroupVersionKind, defined map[schema.GroupVersionKind]*meta.RESTMapping) (mapping *meta.RESTMapping, late bool, err error) {
	if gvk.Kind == "" || gvk.Version == "" {
		return nil, false, fmt.Errorf("kind and apiVersion must be set")
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
		return nil, false, err // a CRD cannot define a built-in kind
	}
	return guessed(gvk), true, nil
}

// guessed returns the most likely API of a kind.
func guessed(gvk schema.GroupVersionKind) *meta.RESTMapping {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	scope := meta.RESTScopeNamespace
	if !charts.OfflineScope()(gvk) {
		scope = meta.RESTScopeRoot
	}
	return &meta.RESTMapping{Resource: plural, GroupVersionKind: gvk, Scope: scope}
}

// definedKinds returns the kinds that CRDs among the documents define.
func definedKinds(docs []charts.Document) map[schema.GroupVersionKind]*meta.RESTMapping {
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
			name, _ := m["name"].(string)
			gvk := schema.GroupVersionKind{Group: at("spec", "group"), Version: name, Kind: at("spec", "names", "kind")}
			out[gvk] = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(at("spec", "names", "plural")), GroupVersionKind: gvk, Scope: scope}
		}
	}
	return out
}
