package manifest

import (
	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// Index finds Infos like Helm's ResourceList, by group, kind, namespace and name, but in
// constant time.
type Index map[identity]*resource.Info

type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func identityOf(i *resource.Info) identity {
	return identity{i.Mapping.GroupVersionKind.GroupKind(), i.Namespace, i.Name}
}

// NewIndex indexes a list. Of Infos with the same identity it keeps the first.
func NewIndex(list helmkube.ResourceList) Index {
	x := make(Index, len(list))
	for _, i := range list {
		if id := identityOf(i); x[id] == nil {
			x[id] = i
		}
	}
	return x
}

// Get returns the Info of the same object, nil if there is none.
func (x Index) Get(i *resource.Info) *resource.Info { return x[identityOf(i)] }

// Without returns the Infos of a list that are not in others.
func Without(list, others helmkube.ResourceList) helmkube.ResourceList {
	x := NewIndex(others)
	return list.Filter(func(i *resource.Info) bool { return x.Get(i) == nil })
}
