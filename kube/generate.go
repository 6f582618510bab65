package kube

import (
	"context"
	"fmt"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine"
)

// Objects with metadata.generateName. Server-side apply needs a name, so these
// are created by POST, and each install, upgrade and rollback makes one anew,
// as `kubectl create` does. Those that the release has made before are removed
// with what is gone from the chart, or when it is uninstalled: they are found
// by the release's own marks and by their generateName, since no record knows
// their names.

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
	for _, i := range list {
		f := o.builder.fact(i)
		if f == nil || !f.generate || i.Name != "" {
			out = append(out, i)
			continue
		}
		made, err := o.made(ctx, i, f)
		if err != nil {
			o.tell(engine.Warning{Rule: "R31", Object: &f.resource.Object, Message: fmt.Sprintf(
				"what was made of %s (metadata.generateName) cannot be looked for, so it stays: %v", f.resource.Object, err)})
		}
		out = append(out, made...)
	}
	return out
}

// made looks for what the release has made of an object with a generateName.
func (o *ordered) made(ctx context.Context, i *resource.Info, f *fact) (helmkube.ResourceList, error) {
	var out helmkube.ResourceList
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
			if m.GenerateName == f.resource.Object.Name && strings.HasPrefix(m.Name, m.GenerateName) && ownerOf(m) == o.self {
				out = append(out, o.builder.named(i, f, m))
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
