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
	// listThreshold is the number of objects in a collection from which one list costs less than a get
	// for each.
	listThreshold = 4
	// maxPerObject limits the length of a list, as a multiple of the wanted objects. A longer list
	// is not used.
	maxPerObject = 8
	// maxShared limits a list that the releases of a stack share: all of them send the same
	// request, which the connection caches.
	maxShared = 2000
)

// liveLists reads live objects: when the first object of a collection is wanted, it reads the
// collection with one list. It is safe for concurrent use.
type liveLists struct {
	client dynamic.Interface
	wanted map[collection]int // number of objects that will be read
	shared bool               // by the releases of a stack

	mu    sync.Mutex
	lists map[collection]func() map[string]*unstructured.Unstructured
}

// collection is a resource in a namespace.
type collection struct {
	gvr       schema.GroupVersionResource
	namespace string
}

// get returns an object of a Helm release. It returns nil if the object is not in the list, or if
// there is no list because it would be forbidden, too long or not worthwhile: the caller must then
// read the object.
func (l *liveLists) get(ctx context.Context, c collection, name string) *unstructured.Unstructured {
	if l == nil || l.wanted[c] < listThreshold {
		return nil
	}
	l.mu.Lock()
	list := l.lists[c]
	if list == nil {
		list = sync.OnceValue(func() map[string]*unstructured.Unstructured { return l.list(ctx, c) })
		l.lists[c] = list
	}
	l.mu.Unlock()
	return list()[name]
}

func (l *liveLists) list(ctx context.Context, c collection) map[string]*unstructured.Unstructured {
	limit := int64(l.wanted[c]) * maxPerObject
	if l.shared {
		limit = maxShared
	}
	found, err := l.client.Resource(c.gvr).Namespace(c.namespace).List(ctx, metav1.ListOptions{
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
