package preview

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// worthListing is the number of objects of one kind and namespace from which on one list
// costs less than a GET for each. mostListed is how many objects a list may have for each of
// those.
const worthListing, mostListed = 4, 8

// liveLists reads objects as they are in the cluster: those of one kind and namespace by one
// list, read at the first question. It may be used by several goroutines.
type liveLists struct {
	client dynamic.Interface
	wanted map[place]int // how many objects of a place are of interest

	mu    sync.Mutex
	lists map[place]func() map[string]*unstructured.Unstructured
}

// place is where objects are read together.
type place struct {
	gvr       schema.GroupVersionResource
	namespace string
}

// get returns an object of a Helm release, nil where it was not in the list, may not be
// listed, or where a list is not worth it: the caller then asks for the object itself.
func (l *liveLists) get(ctx context.Context, p place, name string) *unstructured.Unstructured {
	if l == nil || l.wanted[p] < worthListing {
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
	found, err := l.client.Resource(p.gvr).Namespace(p.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/managed-by=Helm", Limit: int64(l.wanted[p]) * mostListed,
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
