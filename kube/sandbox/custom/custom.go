// Package custom simulates the controllers of custom resources: objects with the annotation become ready after
// a while.
package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"lockstep/kube/sandbox/annotation"
	"lockstep/kube/sandbox/loop"
)

// controller handles the objects of one definition.
type controller struct {
	client dynamic.Interface
	served served

	mu   sync.Mutex
	seen map[types.UID]seen
}

// seen is when a generation of an object was first observed.
type seen struct {
	generation int64
	since      time.Time
}

func newController(client dynamic.Interface, s served) *controller {
	return &controller{client: client, served: s, seen: map[types.UID]seen{}}
}

func (c *controller) run(ctx context.Context) {
	inf := dynamicinformer.NewFilteredDynamicInformer(c.client, c.served.resource, "", 0, cache.Indexers{}, nil).Informer()
	// Both fail only for an informer that has run already.
	_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: loop.Deleted(c.forget)})
	_ = loop.Each(ctx, inf, 1, c.sync)
	inf.RunWithContext(ctx)
}

func (c *controller) forget(o *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, o.GetUID())
}

// firstSeen returns when the object's generation was first observed.
func (c *controller) firstSeen(o *unstructured.Unstructured, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seen[o.GetUID()]
	if !ok || s.generation != o.GetGeneration() {
		s = seen{o.GetGeneration(), now}
		c.seen[o.GetUID()] = s
	}
	return s.since
}

// sync updates the status of an object.
func (c *controller) sync(ctx context.Context, o *unstructured.Unstructured) (time.Duration, error) {
	now := time.Now()
	status, again := c.next(o, now, c.firstSeen(o, now))
	if status == nil {
		return again, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()},
		"status":   status,
	})
	if err != nil {
		return 0, err
	}
	var sub []string
	if c.served.subresource {
		sub = []string{"status"}
	}
	is, err := c.client.Resource(c.served.resource).Namespace(o.GetNamespace()).
		Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, sub...)
	if apierrors.IsInvalid(err) { // the status violates the schema: retrying does not help
		klog.ErrorS(err, "Simulated status is refused", "object", klog.KObj(o))
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// Without a subresource our own write makes a new generation, which is not to be waited for again.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[o.GetUID()] = seen{is.GetGeneration(), c.seen[o.GetUID()].since}
	return again, nil
}

// next returns the patch for the status of an object whose generation was first observed at since, or nil, and
// the time until the next sync.
func (c *controller) next(o *unstructured.Unstructured, now, since time.Time) (map[string]any, time.Duration) {
	v := annotation.Of(o.GetAnnotations())
	if !v.Has(annotation.ReadyAfter) || o.GetDeletionTimestamp() != nil {
		return nil, 0
	}
	left := since.Add(v.Duration(annotation.ReadyAfter, 0)).Sub(now)
	var own map[string]any
	problem := ""
	if text := v.Text(annotation.Status); text != "" {
		if err := json.Unmarshal([]byte(text), &own); err != nil || own == nil {
			problem = fmt.Sprintf("annotation %s%s is not a JSON object: %q", annotation.Prefix, annotation.Status, text)
		}
	}
	for _, p := range v.Problems() {
		problem = p
	}
	if problem != "" {
		return c.missingFields(o, status(o, nil, condition{reason: "SandboxAnnotation", message: problem}, now)), 0
	}
	done := c.missingFields(o, status(o, own, condition{true, "Simulated", "ready by sandbox/ready-after"}, now))
	switch {
	case done == nil || left <= 0:
		return done, 0
	case own != nil:
		return nil, left
	}
	return c.missingFields(o, status(o, nil, condition{false, "Simulated", "not ready before sandbox/ready-after"}, now)), left
}

// condition is the content of the Ready condition.
type condition struct {
	met             bool
	reason, message string
}

// status returns the status from the annotation, or one with a Ready condition. missingFields adds the
// observedGeneration.
func status(o *unstructured.Unstructured, own map[string]any, ready condition, now time.Time) map[string]any {
	if own != nil {
		return maps.Clone(own)
	}
	want := map[string]any{"type": "Ready", "status": "False", "reason": ready.reason, "message": ready.message,
		"lastTransitionTime": now.UTC().Format(time.RFC3339)}
	if ready.met {
		want["status"] = "True"
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for i, c := range list {
		if old, ok := c.(map[string]any); ok && old["type"] == "Ready" {
			if old["status"] == want["status"] && old["lastTransitionTime"] != nil {
				want["lastTransitionTime"] = old["lastTransitionTime"]
			}
			list[i] = want
			return map[string]any{"conditions": list}
		}
	}
	return map[string]any{"conditions": append(list, want)}
}

// missingFields returns want with the new observedGeneration, or nil if the object already has all fields.
func (c *controller) missingFields(o *unstructured.Unstructured, want map[string]any) map[string]any {
	want["observedGeneration"] = o.GetGeneration()
	current, _, _ := unstructured.NestedMap(o.Object, "status")
	if contains(current, want) {
		return nil
	}
	if !c.served.subresource {
		want["observedGeneration"] = o.GetGeneration() + 1
	}
	return want
}

// contains reports whether merging want into have would change nothing.
func contains(have, want any) bool {
	fields, isMap := want.(map[string]any)
	if !isMap {
		a, _ := json.Marshal(have) // as JSON, an int64 equals the same float64
		b, _ := json.Marshal(want)
		return bytes.Equal(a, b)
	}
	current, same := have.(map[string]any)
	for k, v := range fields {
		same = same && contains(current[k], v)
	}
	return same
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Run simulates the controllers until ctx is done.
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
		DeleteFunc: loop.Deleted(w.removed),
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

// served is the API of a definition.
type served struct {
	resource    schema.GroupVersionResource
	subresource bool // the status is a subresource
}

// definition starts the controller of a definition, or restarts it if it is now served differently.
func (w *watcher) definition(ctx context.Context, o any) {
	crd := o.(*unstructured.Unstructured)
	s, ok := servedBy(crd)
	w.mu.Lock()
	defer w.mu.Unlock()
	was, is := w.running[crd.GetName()]
	if is && ok && was.served == s {
		return
	}
	w.stop(crd)
	if ok {
		ctx, stop := context.WithCancel(ctx)
		w.running[crd.GetName()] = running{s, stop}
		go newController(w.client, s).run(ctx)
	}
}

func (w *watcher) removed(crd *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop(crd)
}

// stop stops the controller of a definition, if there is one. The caller holds the lock.
func (w *watcher) stop(crd *unstructured.Unstructured) {
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
