// Package custom simulates the controllers of custom resources: objects with the annotation sandbox/ready-after
// become ready after that time.
package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
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

// controller handles the objects of one CRD.
type controller struct {
	client dynamic.Interface
	api    servedAPI

	mu   sync.Mutex
	seen map[types.UID]seen
}

// seen is when a generation of an object was first observed.
type seen struct {
	generation int64
	since      time.Time
}

func newController(client dynamic.Interface, api servedAPI) *controller {
	return &controller{client: client, api: api, seen: map[types.UID]seen{}}
}

func (c *controller) run(ctx context.Context) {
	inf := dynamicinformer.NewFilteredDynamicInformer(c.client, c.api.resource, "", 0, cache.Indexers{}, nil).Informer()
	// Both fail only if the informer has already stopped.
	_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: loop.Deleted(c.forget)})
	_ = loop.Each(ctx, inf, 1, c.sync)
	inf.RunWithContext(ctx)
}

func (c *controller) forget(o *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, o.GetUID())
}

// firstSeen returns when the object's generation was first observed, and records it.
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
	if c.api.statusSubresource {
		sub = []string{"status"}
	}
	updated, err := c.client.Resource(c.api.resource).Namespace(o.GetNamespace()).
		Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, sub...)
	if apierrors.IsInvalid(err) { // the status violates the schema, so a retry would fail too
		klog.ErrorS(err, "Simulated status refused", "object", klog.KObj(o))
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// Without a status subresource this write has created a new generation. The delay does not start again.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[o.GetUID()] = seen{updated.GetGeneration(), c.seen[o.GetUID()].since}
	return again, nil
}

// next returns the status to write, or nil, and the time until the next sync. since is when the object's generation
// was first observed.
func (c *controller) next(o *unstructured.Unstructured, now, since time.Time) (map[string]any, time.Duration) {
	v := annotation.Of(o.GetAnnotations())
	if !v.Has(annotation.ReadyAfter) || o.GetDeletionTimestamp() != nil {
		return nil, 0
	}
	left := since.Add(v.Duration(annotation.ReadyAfter, 0)).Sub(now)
	form := v.OneOf(annotation.ObservedGeneration, "number", "string", "hash", "none")
	problems := v.Problems()
	var custom map[string]any
	if text := v.Text(annotation.Status); text != "" {
		if err := json.Unmarshal([]byte(text), &custom); err != nil || custom == nil {
			problems = append(problems, fmt.Sprintf("annotation %s%s is not a JSON object: %q", annotation.Prefix, annotation.Status, text))
		}
	}
	if len(problems) > 0 {
		return c.unlessCurrent(o, status(o, nil, condition{reason: "SandboxAnnotation", message: strings.Join(problems, "; ")}, now), form), 0
	}
	done := c.unlessCurrent(o, status(o, custom, condition{true, "Simulated", "ready by sandbox/ready-after"}, now), form)
	switch {
	case done == nil || left <= 0:
		return done, 0
	case custom != nil:
		return nil, left
	}
	return c.unlessCurrent(o, status(o, nil, condition{false, "Simulated", "not ready before sandbox/ready-after"}, now), form), left
}

// condition is the content of the Ready condition.
type condition struct {
	met             bool
	reason, message string
}

// status returns custom, the status from the annotation, or if that is nil, a status with the Ready condition.
func status(o *unstructured.Unstructured, custom map[string]any, ready condition, now time.Time) map[string]any {
	if custom != nil {
		return maps.Clone(custom)
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

// unlessCurrent adds the observed generation to want in a form of sandbox/observed-generation, and returns want, or nil if the
// object already has all of it.
func (c *controller) unlessCurrent(o *unstructured.Unstructured, want map[string]any, form string) map[string]any {
	observe(want, form, o.GetGeneration())
	current, _, _ := unstructured.NestedMap(o.Object, "status")
	if contains(current, want) {
		return nil
	}
	if !c.api.statusSubresource { // writing the status will increment the generation
		observe(want, form, o.GetGeneration()+1)
	}
	return want
}

// observe sets the observed generation of a status, as controllers do: most as a number, some as text or as a hash of the
// spec, some not at all.
func observe(status map[string]any, form string, generation int64) {
	switch form {
	case "none":
	case "string":
		status["observedGeneration"] = strconv.FormatInt(generation, 10)
	case "hash":
		status["observedGeneration"] = fmt.Sprintf("%x-spec", generation)
	default:
		status["observedGeneration"] = generation
	}
}

// contains reports whether merging want into have would change nothing.
func contains(have, want any) bool {
	fields, isMap := want.(map[string]any)
	if !isMap {
		a, _ := json.Marshal(have) // in JSON, an int64 and a float64 of the same value are equal
		b, _ := json.Marshal(want)
		return bytes.Equal(a, b)
	}
	current, same := have.(map[string]any)
	for k, v := range fields {
		same = same && contains(current[k], v)
	}
	return same
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Run simulates the controllers until ctx is done.
func Run(ctx context.Context, cfg *rest.Config) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	w := &watcher{client: client, controllers: map[string]runningController{}}
	inf := dynamicinformer.NewFilteredDynamicInformer(client, crdResource, "", 0, cache.Indexers{}, nil).Informer()
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.sync(ctx, o.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, o any) { w.sync(ctx, o.(*unstructured.Unstructured)) },
		DeleteFunc: loop.Deleted(w.remove),
	}); err != nil {
		return err
	}
	inf.RunWithContext(ctx)
	return nil
}

// watcher runs one controller for each CRD.
type watcher struct {
	client dynamic.Interface

	mu          sync.Mutex
	controllers map[string]runningController // by the CRD's name
}

type runningController struct {
	api  servedAPI
	stop func()
}

// servedAPI is the API that a CRD defines.
type servedAPI struct {
	resource          schema.GroupVersionResource
	statusSubresource bool
}

// sync starts, stops or restarts the controller of a CRD so that it watches the API that is now served.
func (w *watcher) sync(ctx context.Context, crd *unstructured.Unstructured) {
	api, served := servedBy(crd)
	w.mu.Lock()
	defer w.mu.Unlock()
	if running, ok := w.controllers[crd.GetName()]; ok && served && running.api == api {
		return
	}
	w.stop(crd)
	if served {
		ctx, stop := context.WithCancel(ctx)
		w.controllers[crd.GetName()] = runningController{api, stop}
		go newController(w.client, api).run(ctx)
	}
}

func (w *watcher) remove(crd *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop(crd)
}

// stop stops the controller of a CRD, if there is one. The caller holds the lock.
func (w *watcher) stop(crd *unstructured.Unstructured) {
	if c, ok := w.controllers[crd.GetName()]; ok {
		c.stop()
		delete(w.controllers, crd.GetName())
	}
}

// servedBy returns the API of a CRD, or false if it is not served.
func servedBy(crd *unstructured.Unstructured) (servedAPI, bool) {
	var d struct {
		Spec struct {
			Group string
			Names struct{ Plural string }
			// The simulated status is the same in all versions, so the storage version will do.
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
		return servedAPI{}, false
	}
	established := false
	for _, c := range d.Status.Conditions {
		established = established || c.Type == "Established" && c.Status == "True"
	}
	for _, v := range d.Spec.Versions {
		if established && v.Served && v.Storage {
			return servedAPI{schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Spec.Names.Plural},
				v.Subresources.Status != nil}, true
		}
	}
	return servedAPI{}, false
}
