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

// Objects with metadata.generateName. Server-side apply needs a name, so these
// are created by POST, and each install, upgrade and rollback makes one again,
// as `kubectl create` does. Those that the release has made before are removed
// with what is gone from the chart, or when it is uninstalled: they are found
// by the release's own marks and by their generateName, since no record knows
// their names. Where a chart has one generateName several times, what was made
// counts as made of the one whose annotations it has, so that it goes with that
// one's group.

// CreateNamed creates an object whose name the API server makes up.
func CreateNamed(i *resource.Info) error {
	helper := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager).WithFieldValidation("Strict")
	obj, err := helper.Create(i.Namespace, true, i.Object)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return i.Refresh(obj, true)
}

// Expand puts in the place of each object with a generateName those of them
// that the release has made and that are still there. A warning tells of what
// could not be looked for.
func (b *Builder) Expand(ctx context.Context, list helmkube.ResourceList) (out helmkube.ResourceList, warnings []plan.Warning) {
	listed := map[types.UID]bool{}
	for n, i := range list {
		f := b.Fact(i)
		if f == nil || !f.Generated || i.Name != "" {
			out = append(out, i)
			continue
		}
		made, err := b.made(ctx, i)
		if err != nil {
			warnings = append(warnings, plan.Warning{Rule: "R31", Object: &f.Resource.Object, Message: fmt.Sprintf(
				"objects created from %s (metadata.generateName) cannot be listed, so they are kept: %v", f.Resource.Object, err)})
		}
		last := !slices.ContainsFunc(list[n+1:], func(x *resource.Info) bool { return x.Name == "" && makes(x) == makes(i) })
		for _, m := range made {
			if !listed[m.UID] && (last || annotatedBy(i, m)) {
				listed[m.UID] = true
				out = append(out, b.named(i, f, m))
			}
		}
	}
	return out, warnings
}

// maker is what objects that are made of one generateName have in common.
type maker struct {
	kind              schema.GroupKind
	namespace, prefix string
}

func makes(i *resource.Info) maker {
	m := maker{kind: i.Mapping.GroupVersionKind.GroupKind(), namespace: i.Namespace}
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		m.prefix = u.GetGenerateName()
	}
	return m
}

// annotatedBy reports whether an object has all annotations of an Info.
func annotatedBy(i *resource.Info, m *metav1.PartialObjectMetadata) bool {
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

// made looks for what the release has made of an object with a generateName.
func (b *Builder) made(ctx context.Context, i *resource.Info) ([]*metav1.PartialObjectMetadata, error) {
	var out []*metav1.PartialObjectMetadata
	prefix := makes(i).prefix
	opts := metav1.ListOptions{LabelSelector: ManagedByKey + "=Helm", Limit: 1000}
	for {
		l, err := b.client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).List(ctx, opts)
		if apierrors.IsNotFound(err) {
			return out, nil // the kind is gone, and so are they
		}
		if err != nil {
			return out, err
		}
		for n := range l.Items {
			m := &l.Items[n]
			if m.GenerateName == prefix && strings.HasPrefix(m.Name, prefix) && OwnerOf(m) == b.scope.Owner() {
				out = append(out, m)
			}
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

// named returns the Info of one object that was made of an Info with a generateName.
func (b *Builder) named(i *resource.Info, f *Fact, m *metav1.PartialObjectMetadata) *resource.Info {
	copied := &Fact{Resource: f.Resource, Rule: f.Rule, Owner: OwnerOf(m), before: Before{Known: true, Version: m.ResourceVersion}}
	copied.Resource.Object.Name = m.Name
	key := b.remember(copied)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(i.Mapping.GroupVersionKind)
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetAnnotations(f.Resource.Annotations)
	return &resource.Info{Client: i.Client, Mapping: i.Mapping, Namespace: m.Namespace, Name: m.Name, Source: key, Object: u}
}
