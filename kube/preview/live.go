package preview

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	// minForList is the number of objects of one kind and namespace from which one list
	// costs less than a GET for each.
	minForList = 4
	// maxPerObject limits a list, for each object that is needed.
	maxPerObject = 8
	// maxShared limits a list for the releases of a stack: the request is the same for all
	// of them, so the connection's cache answers it.
	maxShared = 2000
)

// liveLists reads live objects: all of one kind and namespace with one list, when the first
// one is needed. It is safe for concurrent use.
type liveLists struct {
	client dynamic.Interface
	wanted map[place]int // number of objects that will be read
	shared bool          // by the releases of a stack

	mu    sync.Mutex
	lists map[place]func() map[string]*unstructured.Unstructured
}

// place is a kind and a namespace.
type place struct {
	gvr       schema.GroupVersionResource
	namespace string
}

// get returns an object of a Helm release. It returns nil if the object is not in the list, or
// if a list is forbidden or not worthwhile: then the caller reads the object itself.
func (l *liveLists) get(ctx context.Context, p place, name string) *unstructured.Unstructured {
	if l == nil || l.wanted[p] < minForList {
		return nil
	}
	l.mu.Lock()
	list := l.lists[p]
	if list == nil {
		list = sync.OnceValue(func() map[string]*unstructured.Unstructured { return l.list(ctx, p) })
		l.lists[p] = list
	}
	l.mu.Unlock()
	return list()[name]
}

func (l *liveLists) list(ctx context.Context, p place) map[string]*unstructured.Unstructured {
	limit := int64(l.wanted[p]) * maxPerObject
	if l.shared {
		limit = maxShared
	}
	found, err := l.client.Resource(p.gvr).Namespace(p.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/managed-by=Helm", Limit: limit,
	})
	if err != nil || found.GetContinue() != "" {
		return nil
	}
	out := make(map[string]*unstructured.Unstructured, len(found.Items))
	for i := range found.Items {
		out[found.Items[i].GetName()] = &found.Items[i]
	}
	return out
}
