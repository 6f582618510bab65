package kube

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
)

// Objects with metadata.generateName. Server-side apply needs a name, so these
// are created by POST, and each install, upgrade and rollback makes one anew,
// as `kubectl create` does. Those that the release has made before are removed
// with what is gone from the chart, or when it is uninstalled: they are found
// by the release's own marks and by their generateName, since no record knows
// their names. Where a chart has one generateName several times, what was made
// counts as made of the one whose annotations it has, so that it goes with that
// one's group.

// create creates an object whose name the API server makes up.
func create(i *resource.Info) error {
	helper := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(fieldManager).WithFieldValidation("Strict")
	obj, err := helper.Create(i.Namespace, true, i.Object)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return i.Refresh(obj, true)
}

// expand puts in the place of each object with a generateName those of them
// that the release has made and that are still there.
func (o *ordered) expand(ctx context.Context, list helmkube.ResourceList) helmkube.ResourceList {
	var out helmkube.ResourceList
	listed := map[types.UID]bool{}
	for n, i := range list {
		f := o.builder.fact(i)
		if f == nil || !f.generate || i.Name != "" {
			out = append(out, i)
			continue
		}
		made, err := o.made(ctx, i)
		if err != nil {
			o.tell(plan.Warning{Rule: "R31", Object: &f.resource.Object, Message: fmt.Sprintf(
				"what was made of %s (metadata.generateName) cannot be looked for, so it stays: %v", f.resource.Object, err)})
		}
		last := !slices.ContainsFunc(list[n+1:], func(x *resource.Info) bool { return x.Name == "" && makes(x) == makes(i) })
		for _, m := range made {
			if !listed[m.UID] && (last || annotatedBy(i, m)) {
				listed[m.UID] = true
				out = append(out, o.builder.named(i, f, m))
			}
		}
	}
	return out
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
func (o *ordered) made(ctx context.Context, i *resource.Info) ([]*metav1.PartialObjectMetadata, error) {
	var out []*metav1.PartialObjectMetadata
	prefix := makes(i).prefix
	opts := metav1.ListOptions{LabelSelector: managedByKey + "=Helm", Limit: 1000}
	for {
		l, err := o.client.metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).List(ctx, opts)
		if apierrors.IsNotFound(err) {
			return out, nil // the kind is gone, and so are they
		}
		if err != nil {
			return out, err
		}
		for n := range l.Items {
			m := &l.Items[n]
			if m.GenerateName == prefix && strings.HasPrefix(m.Name, prefix) && ownerOf(m) == o.self {
				out = append(out, m)
			}
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

// named is the Info of one object that was made of an Info with a generateName.
func (b *builder) named(i *resource.Info, f *fact, m *metav1.PartialObjectMetadata) *resource.Info {
	copied := &fact{resource: f.resource, rule: f.rule, known: true, before: m.ResourceVersion, owner: ownerOf(m)}
	copied.resource.Object.Name = m.Name
	key := b.remember(copied)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(i.Mapping.GroupVersionKind)
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetAnnotations(f.resource.Annotations)
	return &resource.Info{Client: i.Client, Mapping: i.Mapping, Namespace: m.Namespace, Name: m.Name, Source: key, Object: u}
}

// created replaces in the list of a hook, which Helm builds anew for each step,
// what has no name by what the hook's run has made of it.
func (u *hookUnit) created(list helmkube.ResourceList) helmkube.ResourceList {
	var out helmkube.ResourceList
	for n, i := range list {
		switch {
		case i.Name != "":
			out = append(out, i)
		case len(u.list) == len(list) && u.list[n].Name != "":
			out = append(out, u.list[n])
		}
	}
	return out
}
