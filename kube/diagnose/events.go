package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// Event is a Kubernetes event about an object.
type Event = event.ClusterEvent

// ref identifies the involved object of events.
type ref struct {
	kind, namespace, name string
	uid                   types.UID
}

func refTo(kind string, o metav1.Object) ref {
	return ref{kind, o.GetNamespace(), o.GetName(), o.GetUID()}
}

func (p Pod) ref() ref { return ref{"Pod", p.Namespace, p.Name, p.uid()} }

// Events lists the events of an object, the direct owner of its pods, and its worst pods,
// the newest last. It omits events of an earlier object with the same name. It returns
// ErrNotFound for a missing object whose UID was never read.
func (d *Diagnoser) Events(ctx context.Context, o plan.Object) ([]Event, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	refs := []ref{{o.Kind, o.Namespace, o.Name, d.memory.uid(o)}}
	switch {
	case err == nil:
		refs[0].uid = live.GetUID()
		refs = append(refs, d.relatedRefs(ctx, live)...)
	case refs[0].uid != "":
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, fmt.Errorf("list events of %s: %w", o, ErrNotFound)
	}
	var events []Event
	for _, r := range refs {
		found, err := d.events(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("list events of %s: %w", o, err)
		}
		events = append(events, found...)
	}
	return aggregate(events), nil
}

// relatedRefs returns the objects whose events are shown with those of a workload: its pods and their direct owner.
func (d *Diagnoser) relatedRefs(ctx context.Context, live *unstructured.Unstructured) []ref {
	refs, found, err := d.findPods(ctx, live)
	if err != nil || live.GetKind() == "Pod" || live.GetKind() == "Service" {
		return nil
	}
	pods := found.all()
	for _, p := range pods[:min(len(pods), eventPods)] {
		refs = append(refs, p.ref())
	}
	return refs
}

// events lists the events about one object, by its UID if that is known.
func (d *Diagnoser) events(ctx context.Context, r ref) ([]Event, error) {
	set := fields.Set{"involvedObject.kind": r.kind, "involvedObject.name": r.name}
	if r.uid != "" {
		set["involvedObject.uid"] = string(r.uid)
	}
	return d.listEvents(ctx, r.namespace, set.String(), func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == r.kind && e.InvolvedObject.Name == r.name && (r.uid == "" || e.InvolvedObject.UID == r.uid)
	})
}

// listEvents lists the events of a namespace that match a field selector and a filter.
// Events about cluster-scoped objects are in the default namespace.
func (d *Diagnoser) listEvents(ctx context.Context, namespace, selector string, matches func(*corev1.Event) bool) (events []Event, err error) {
	list, err := d.kube.CoreV1().Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if e := &list.Items[i]; matches(e) {
			events = append(events, newEvent(e))
		}
	}
	return events, nil
}

func newEvent(e *corev1.Event) Event {
	seen := Event{
		Time:    e.LastTimestamp.Time,
		Warning: e.Type == corev1.EventTypeWarning,
		Object:  e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name,
		Reason:  status.CleanText(e.Reason),
		Message: status.CleanText(e.Message),
		Count:   int(e.Count),
	}
	if s := e.Series; s != nil {
		seen.Count = max(seen.Count, int(s.Count))
		if seen.Time.Before(s.LastObservedTime.Time) {
			seen.Time = s.LastObservedTime.Time
		}
	}
	for _, t := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if seen.Time.IsZero() {
			seen.Time = t
		}
	}
	seen.Count = max(seen.Count, 1)
	return seen
}

// warnings lists the warnings about the given objects with a single request. It omits those about an earlier object
// with the same name.
func (d *Diagnoser) warnings(ctx context.Context, namespace string, refs []ref) ([]Event, error) {
	events, err := d.listEvents(ctx, namespace, "type="+corev1.EventTypeWarning, func(e *corev1.Event) bool {
		o := e.InvolvedObject
		return e.Type == corev1.EventTypeWarning && !slices.Contains(ignoredReasons, e.Reason) && slices.ContainsFunc(refs, func(r ref) bool {
			return o.Kind == r.kind && o.Name == r.name && (o.UID == r.uid || o.UID == "")
		})
	})
	return aggregate(events), err
}

// ignoredReasons are the reasons of warnings that explain no failure: the API server repairs the address or port at once.
var ignoredReasons = []string{"ClusterIPNotAllocated", "PortNotAllocated"}

// failedPodName matches the generated name of a pod that a controller could not create.
var failedPodName = regexp.MustCompile(`pods "[^"]+"`)

// aggregate merges equal events, including those of different pods, and sorts them by time.
func aggregate(events []Event) []Event {
	type content struct{ object, reason, message string }
	type place struct {
		at   int // in merged
		pods map[string]bool
	}
	index := map[content]place{}
	var merged []Event
	for _, e := range events {
		key := content{e.Object, e.Reason, failedPodName.ReplaceAllString(plainError(e.Message), `pods "…"`)}
		if kind, pod, _ := strings.Cut(e.Object, "/"); kind == "Pod" {
			key = content{kind, e.Reason, strings.ReplaceAll(e.Message, pod, "…")}
			e.Pods = 1
		}
		p, known := index[key]
		if !known {
			index[key] = place{len(merged), map[string]bool{e.Object: true}}
			merged = append(merged, e)
			continue
		}
		first := &merged[p.at]
		if e.Pods > 0 && !p.pods[e.Object] {
			p.pods[e.Object] = true
			first.Pods++
		}
		first.Count += e.Count
		if e.Time.After(first.Time) {
			first.Time = e.Time
		}
	}
	slices.SortStableFunc(merged, func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Object, b.Object)) })
	return merged
}
