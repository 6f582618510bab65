package manifest

import (
	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// Index finds the Infos of a list as Helm's ResourceList does, by group, kind,
// namespace and name, and without going through all of it for each.
type Index map[identity]*resource.Info

type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func identityOf(i *resource.Info) identity {
	return identity{i.Mapping.GroupVersionKind.GroupKind(), i.Namespace, i.Name}
}

// NewIndex indexes a list, of Infos that are the same the first.
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

// Without returns the part of a list that another list does not have.
func Without(list, others helmkube.ResourceList) helmkube.ResourceList {
	x := NewIndex(others)
	return list.Filter(func(i *resource.Info) bool { return x.Get(i) == nil })
}
