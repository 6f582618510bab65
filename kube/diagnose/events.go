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

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// Event is a Kubernetes event about an object. Several that say the same are
// merged into one.
type Event struct {
	// Time is when it happened last.
	Time time.Time
	// Warning is true for warnings, false for normal events.
	Warning bool
	// Object is the object that it is about, "Pod/api-5d8".
	Object, Reason, Message string
	// Count is how often it happened.
	Count int
}

// String returns one line with the time of day.
func (e Event) String() string {
	text := fmt.Sprintf("%s %s %s: %s", e.Time.Local().Format(time.TimeOnly), e.Object, e.Reason, e.Message)
	if e.Count > 1 {
		text += fmt.Sprintf(" (×%d)", e.Count)
	}
	return text
}

// ref names an object that events are about.
type ref struct {
	kind, namespace, name string
	uid                   types.UID
}

func refOf(u *unstructured.Unstructured) ref {
	return ref{kind: u.GetKind(), namespace: u.GetNamespace(), name: u.GetName(), uid: u.GetUID()}
}

// Events lists the events about an object, its owner in between, and the pods of it
// that have the most trouble, the newest last. Those of an earlier object of the same
// name are left out, by UID. The error is ErrAbsent for a missing object whose UID was
// never read.
func (d *Diagnoser) Events(ctx context.Context, o plan.Object) ([]Event, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	refs := []ref{{kind: o.Kind, namespace: o.Namespace, name: o.Name, uid: d.memory.uid(o)}}
	switch {
	case err == nil:
		refs[0].uid = live.GetUID()
		refs = append(refs, d.refsOf(ctx, live)...)
	case refs[0].uid != "":
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, fmt.Errorf("list events of %s: %w", o, ErrAbsent)
	}
	var events []Event
	for _, r := range refs {
		some, err := d.events(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("list events of %s: %w", o, err)
		}
		events = append(events, some...)
	}
	return aggregate(events), nil
}

// refsOf returns what an object owns, as far as its events are read.
func (d *Diagnoser) refsOf(ctx context.Context, live *unstructured.Unstructured) []ref {
	refs, pods, err := d.podsOf(ctx, live)
	if err != nil || live.GetKind() == "Pod" || live.GetKind() == "Service" {
		return nil // the object's own events are shown anyway
	}
	for _, p := range pods[:min(len(pods), eventPods)] {
		refs = append(refs, ref{kind: "Pod", namespace: p.Namespace, name: p.Name, uid: p.uid})
	}
	return refs
}

// events lists those about one object, by its UID if that is known.
func (d *Diagnoser) events(ctx context.Context, r ref) ([]Event, error) {
	set := fields.Set{"involvedObject.kind": r.kind, "involvedObject.name": r.name}
	if r.uid != "" {
		set["involvedObject.uid"] = string(r.uid)
	}
	return d.listEvents(ctx, r.namespace, set.String(), func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == r.kind && e.InvolvedObject.Name == r.name && (r.uid == "" || e.InvolvedObject.UID == r.uid)
	})
}

// listEvents lists the events of a namespace that a field selector and a filter take;
// events about cluster-scoped objects are in the default one.
func (d *Diagnoser) listEvents(ctx context.Context, namespace, selector string, takes func(*corev1.Event) bool) (events []Event, err error) {
	list, err := d.kube.CoreV1().Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if e := &list.Items[i]; takes(e) {
			events = append(events, eventOf(e))
		}
	}
	return events, nil
}

func eventOf(e *corev1.Event) Event {
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

// made is how a controller names a pod that it could not make: each time another.
var made = regexp.MustCompile(`pods "[^"]+"`)

// warnings lists the warnings about some objects with one request. Those about an
// earlier object of the same name do not count.
func (d *Diagnoser) warnings(ctx context.Context, namespace string, refs []ref) ([]Event, error) {
	events, err := d.listEvents(ctx, namespace, "type="+corev1.EventTypeWarning, func(e *corev1.Event) bool {
		o := e.InvolvedObject
		return e.Type == corev1.EventTypeWarning && !selfRepairing(e.Reason) && slices.ContainsFunc(refs, func(r ref) bool {
			return o.Kind == r.kind && o.Name == r.name && (o.UID == r.uid || o.UID == "")
		})
	})
	return aggregate(events), err
}

// selfRepairing reports whether an event of this reason is the API server's own, about a
// record of an address or port that it corrects at once. It explains no failure.
func selfRepairing(reason string) bool {
	return reason == "ClusterIPNotAllocated" || reason == "PortNotAllocated"
}

// aggregate merges equal events, also those of different pods, and sorts them.
func aggregate(events []Event) []Event {
	type saying struct{ object, reason, message string }
	at := map[saying]int{}
	var merged []Event
	for _, e := range events {
		key := saying{e.Object, e.Reason, made.ReplaceAllString(plainError(e.Message), `pods "…"`)}
		if kind, pod, _ := strings.Cut(e.Object, "/"); kind == "Pod" { // of one workload: which one does not matter
			key = saying{kind, e.Reason, strings.ReplaceAll(e.Message, pod, "…")}
		}
		i, known := at[key]
		if !known {
			at[key] = len(merged)
			merged = append(merged, e)
			continue
		}
		merged[i].Count += e.Count
		if e.Time.After(merged[i].Time) {
			merged[i].Time = e.Time
		}
	}
	sortEvents(merged)
	return merged
}

func sortEvents(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Object, b.Object))
	})
}
