package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
)

// Objects with metadata.generateName cannot be applied, because server-side apply needs a name. Each
// install, upgrade and rollback creates new ones, as `kubectl create` does. An upgrade and a rollback
// delete the earlier ones with the objects that left the chart; an uninstall deletes all of them. No
// record contains their names, so lockstep finds them by Helm's labels and their generateName. If a
// chart has several objects with one generateName, a created object belongs to the one with the same
// annotations, and is deleted with its group.

// CreateGenerated creates an object with a generateName.
func CreateGenerated(i *resource.Info) error {
	helper := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager)
	obj, err := helper.Create(i.Namespace, true, i.Object)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return i.Refresh(obj, true)
}

// Expand replaces each object with a generateName by the existing objects that the release
// has created from it. It warns if they cannot be listed.
func (b *Builder) Expand(ctx context.Context, list helmkube.ResourceList) (out helmkube.ResourceList, warnings []plan.Warning) {
	added := map[types.UID]bool{}
	for n, i := range list {
		f := b.Fact(i)
		if f == nil || !f.Generated || i.Name != "" {
			out = append(out, i)
			continue
		}
		created, err := b.createdFrom(ctx, i)
		if err != nil {
			warnings = append(warnings, plan.Warning{Rule: "R31", Object: &f.Resource.Object, Message: fmt.Sprintf(
				"objects created from %s (metadata.generateName) cannot be listed, so they are kept: %v", f.Resource.Object, err)})
		}
		last := !slices.ContainsFunc(list[n+1:], func(x *resource.Info) bool { return x.Name == "" && generatorOf(x) == generatorOf(i) })
		for _, m := range created {
			if !added[m.UID] && (last || hasAnnotationsOf(m, i)) {
				added[m.UID] = true
				out = append(out, b.named(i, f, m))
			}
		}
	}
	return out, warnings
}

// CreatedFrom reports whether an object that Expand has found was created from an Info with a generateName.
func CreatedFrom(i, found *resource.Info) bool {
	g := generatorOf(i)
	return g.prefix != "" && g.kind == found.Mapping.GroupVersionKind.GroupKind() && g.namespace == found.Namespace && strings.HasPrefix(found.Name, g.prefix)
}

// SharesGenerator reports whether two Infos have the same generateName.
func SharesGenerator(i, x *resource.Info) bool { return generatorOf(i) == generatorOf(x) }

// generator identifies the objects that are created from one generateName.
type generator struct {
	kind              schema.GroupKind
	namespace, prefix string
}

func generatorOf(i *resource.Info) generator {
	g := generator{kind: i.Mapping.GroupVersionKind.GroupKind(), namespace: i.Namespace}
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		g.prefix = u.GetGenerateName()
	}
	return g
}

// hasAnnotationsOf reports whether an object has all annotations of an Info.
func hasAnnotationsOf(m *metav1.PartialObjectMetadata, i *resource.Info) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	for k, v := range u.GetAnnotations() {
		if m.Annotations[k] != v {
			return false
		}
	}
	return true
}

// createdFrom lists the objects that the release has created from a generateName.
func (b *Builder) createdFrom(ctx context.Context, i *resource.Info) (out []*metav1.PartialObjectMetadata, err error) {
	prefix := generatorOf(i).prefix
	err = b.listMetadata(ctx, listKey{i.Mapping.Resource, i.Namespace}, ManagedByKey+"=Helm", func(m *metav1.PartialObjectMetadata) {
		if m.GenerateName == prefix && strings.HasPrefix(m.Name, prefix) && OwnerOf(m) == b.scope.Owner() {
			out = append(out, m)
		}
	})
	if apierrors.IsNotFound(err) {
		return out, nil // the kind was removed with all its objects
	}
	return out, err
}

// named returns an Info for the object m, which was created from i, an Info with a generateName.
func (b *Builder) named(i *resource.Info, f *Fact, m *metav1.PartialObjectMetadata) *resource.Info {
	copied := &Fact{Resource: f.Resource, Rule: f.Rule}
	copied.see(m)
	copied.Resource.Object.Name = m.Name
	key := b.addFact(copied)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(i.Mapping.GroupVersionKind)
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetAnnotations(f.Resource.Annotations)
	return &resource.Info{Client: i.Client, Mapping: i.Mapping, Namespace: m.Namespace, Name: m.Name, Source: key, Object: u}
}
