// Package custom plays the controllers of custom resources: objects that ask for it by annotation become
// ready after a while.
package custom

import (
	"context"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Run plays the controllers until ctx ends.
func Run(ctx context.Context, cfg *rest.Config) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	w := &watcher{client: client, running: map[string]running{}}
	inf := dynamicinformer.NewFilteredDynamicInformer(client, crds, "", 0, cache.Indexers{}, nil).Informer()
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.definition(ctx, o) },
		UpdateFunc: func(_, o any) { w.definition(ctx, o) },
		DeleteFunc: w.gone,
	}); err != nil {
		return err
	}
	inf.RunWithContext(ctx)
	return nil
}

// watcher runs one controller for each definition.
type watcher struct {
	client dynamic.Interface

	mu      sync.Mutex
	running map[string]running // by the definition's name
}

type running struct {
	served served
	stop   func()
}

// served is how the objects of a definition are reached.
type served struct {
	resource    schema.GroupVersionResource
	subresource bool // they have their status in a subresource
}

// definition starts the controller of a definition, or starts it anew if it is served differently now.
func (w *watcher) definition(ctx context.Context, o any) {
	crd := o.(*unstructured.Unstructured)
	s, ok := servedBy(crd)
	w.mu.Lock()
	defer w.mu.Unlock()
	was, is := w.running[crd.GetName()]
	if is && ok && was.served == s {
		return
	}
	if is {
		was.stop()
		delete(w.running, crd.GetName())
	}
	if ok {
		ctx, stop := context.WithCancel(ctx)
		w.running[crd.GetName()] = running{s, stop}
		go newController(w.client, s).run(ctx)
	}
}

func (w *watcher) gone(o any) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	crd, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := w.running[crd.GetName()]; ok {
		r.stop()
		delete(w.running, crd.GetName())
	}
}

// servedBy returns false for a definition that is not served yet, or no longer.
func servedBy(crd *unstructured.Unstructured) (served, bool) {
	var d struct {
		Spec struct {
			Group string
			Names struct{ Plural string }
			// The version in which objects are stored is as good as any: status has no version here.
			Versions []struct {
				Name            string
				Served, Storage bool
				Subresources    struct{ Status *struct{} }
			}
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	data, err := crd.MarshalJSON()
	if err != nil || json.Unmarshal(data, &d) != nil || crd.GetDeletionTimestamp() != nil {
		return served{}, false
	}
	established := false
	for _, c := range d.Status.Conditions {
		established = established || c.Type == "Established" && c.Status == "True"
	}
	for _, v := range d.Spec.Versions {
		if established && v.Served && v.Storage {
			return served{schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Spec.Names.Plural},
				v.Subresources.Status != nil}, true
		}
	}
	return served{}, false
}
