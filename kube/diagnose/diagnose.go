// Package diagnose finds out why an object in the cluster is not ready: from its
// conditions, its events, its pods and the last lines of their logs. It also
// reads what the screen's inspector shows about an object.
//
// Nothing here changes the cluster. What cannot be read, because of a missing
// right for instance, becomes a line of the report instead of an error. Text
// from the cluster is cleaned (status.CleanText), except for the logs that the
// inspector follows, and the values of Secrets are never shown.
package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/mask"
	"lockstep/kube/status"
)

// patience limits the time for a report, and for each thing that the inspector
// reads, so that a slow cluster does not hold up the caller.
const patience = 10 * time.Second

// How much of each a report shows.
const (
	maxPods   = 5
	maxEvents = 8
	maxLogs   = 10
	// eventPods is how many pods' events are read.
	eventPods = 2
)

// Mapper knows how the cluster serves kinds. genericclioptions.RESTClientGetter
// is one.
type Mapper interface {
	ToRESTMapper() (meta.RESTMapper, error)
}

// Diagnoser reads what there is to know about objects. It remembers how containers
// have failed, for when their pods are gone, and is safe for concurrent use.
type Diagnoser struct {
	memory recollection
	kube   kubernetes.Interface
	dyn    dynamic.Interface
	mapper Mapper
}

// New returns a Diagnoser that reads through the given clients.
func New(kube kubernetes.Interface, dyn dynamic.Interface, mapper Mapper) *Diagnoser {
	return &Diagnoser{kube: kube, dyn: dyn, mapper: mapper}
}

// Report says why an object is not ready.
type Report struct {
	// Finding has the cause; its Lines are conditions, pods, events, log lines,
	// and what could not be read.
	run.Finding
	// Pods are the object's, the one with the worst problem first.
	Pods []Pod
	// Events are the object's and those of its pods, the newest last.
	Events []Event
	// Logs are the last lines of the container with the worst problem.
	Logs []string

	serves bool // of a Service, that it has pods that are ready, or others see to that
}

// inquiry is a report in the making.
type inquiry struct {
	Report
	object plan.Object
	live   *unstructured.Unstructured
	failed []string // what could not be read
	lead   lead
}

// Object reports why an object is not ready. It takes at most 10 s.
func (d *Diagnoser) Object(ctx context.Context, o plan.Object) Report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	live, err := d.get(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		return Report{Finding: d.absent(ctx, o)}
	case err != nil:
		text := gapText("it", err)
		return Report{Finding: run.Finding{Cause: text, Symptom: true, Lines: []string{text}}}
	}
	q := &inquiry{object: o, live: live}
	q.asItFailed()
	owners, pods, err := d.podsOf(ctx, live)
	q.note("pods", err)
	q.Pods = pods
	d.memory.recall(q)
	d.readEvents(ctx, q, owners)
	d.readLogs(ctx, q)
	q.lead = d.follow(ctx, q)
	q.failed = append(q.failed, q.lead.gaps...)
	cause := q.summary()
	if strings.Contains(cause, "because it is being terminated") { // whatever it is of the object that cannot be made there
		l := d.admission(ctx, live.GetNamespace(), cause)
		cause, q.lead.evidence = cmp.Or(l.cause, cause), append(l.evidence, q.lead.evidence...)
		q.Symptom = q.Symptom && l.cause == ""
	}
	q.Cause = status.CleanText(q.decided(cause))
	q.Evidence = q.evidence()
	q.admitGaps()
	q.Lines = q.lines()
	q.Requests = q.cost(len(owners))
	return q.Report
}

// cost is about how many requests an inquiry took: for the object, its owners in between,
// pods and warnings, logs, and where it was gone on to.
func (q *inquiry) cost(owners int) int {
	n := 3 + owners
	if len(q.Pods) > 0 && q.Pods[0].talks() {
		n++
	}
	if q.lead.cause != "" {
		n += 2
	}
	return n
}

func (d *Diagnoser) readEvents(ctx context.Context, q *inquiry, owners []ref) {
	refs := append([]ref{refOf(q.live)}, owners...)
	for i, p := range q.Pods {
		if i < eventPods && p.trouble > fine && q.live.GetKind() != "Pod" {
			refs = append(refs, ref{kind: "Pod", namespace: p.Namespace, name: p.Name, uid: p.uid})
		}
	}
	events, err := d.warnings(ctx, q.live.GetNamespace(), refs)
	q.note("events", err)
	q.Events = events
}

func (d *Diagnoser) readLogs(ctx context.Context, q *inquiry) {
	if len(q.Pods) == 0 || !q.Pods[0].talks() {
		return
	}
	p := q.Pods[0]
	lines, err := d.tail(ctx, p, p.culprit, maxLogs)
	if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) { // the container has not started, or the pod is gone
		q.note("logs of pod "+p.Name, err)
	}
	q.Logs = lines
	d.memory.keep(q)
}

// lines puts the details of a report in words.
func (q *inquiry) lines() []string {
	var lines []string
	for _, c := range conditions(q.live) {
		lines = append(lines, "condition "+c)
	}
	for i, p := range q.Pods {
		if i == maxPods {
			lines = append(lines, fmt.Sprintf("and %d more pods", len(q.Pods)-i))
			break
		}
		lines = append(lines, p.String())
	}
	for _, e := range q.Events[max(0, len(q.Events)-maxEvents):] {
		lines = append(lines, e.String())
	}
	if len(q.Logs) > 0 {
		lines = append(lines, "last lines of pod "+q.Pods[0].Name+", container "+q.Pods[0].culprit+":")
		for _, l := range q.Logs {
			lines = append(lines, "  "+l)
		}
	}
	return append(lines, q.failed...)
}

// get reads the live object. If its kind is not known, the list of kinds may be
// out of date, so it is fetched again.
func (d *Diagnoser) get(ctx context.Context, o plan.Object) (*unstructured.Unstructured, error) {
	mapper, err := d.mapper.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}
	mapping, err := mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(mapper)
		mapping, err = mapper.RESTMapping(kind)
	}
	if err != nil {
		return nil, err
	}
	var client dynamic.ResourceInterface = d.dyn.Resource(mapping.Resource)
	if o.Namespace != "" {
		client = d.dyn.Resource(mapping.Resource).Namespace(o.Namespace)
	}
	live, err := client.Get(ctx, o.Name, metav1.GetOptions{})
	if err == nil {
		d.memory.saw(o, live.GetUID())
	}
	return live, err
}

// note records that something could not be read.
func (q *inquiry) note(what string, err error) {
	if err != nil {
		q.failed = append(q.failed, gapText(what, err))
	}
}

// gapText says that something could not be read, and where that is a lack of
// rights, which.
func gapText(what string, err error) string {
	text := err.Error()
	if m := noRight.FindStringSubmatch(text); m != nil && m[3] != "" && LacksRight(err) {
		text = fmt.Sprintf("user %s may not %s %s", m[1], m[2], m[3])
	}
	return status.CleanText(what + " cannot be read: " + text)
}

// admitGaps says in the evidence what could not be read and, where that may be why
// nothing better is known, in the cause, too.
func (q *inquiry) admitGaps() {
	gaps := slices.Compact(slices.Clone(q.failed))
	if len(gaps) == 0 {
		return
	}
	if q.Symptom {
		q.Cause = status.CleanText(q.Cause + " (details unavailable: " + strings.Join(gaps, "; ") + ")")
	}
	room := max(event.MostEvidence-len(gaps), 1)
	q.Evidence = append(q.Evidence[:min(room, len(q.Evidence))], gaps[:min(len(gaps), event.MostEvidence-1)]...)
}

// ErrAbsent is why an object cannot be shown that is not in the cluster.
var ErrAbsent = errors.New("not in the cluster")

// Manifest returns the live object as YAML, without managed fields, and with
// secret values hidden.
func (d *Diagnoser) Manifest(ctx context.Context, o plan.Object) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	live, err := d.get(ctx, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", fmt.Errorf("read %s: %w", o, ErrAbsent)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", o, err)
	}
	text, err := yaml.Marshal(show(live).Object)
	if err != nil {
		return "", fmt.Errorf("print %s: %w", o, err)
	}
	return string(text), nil
}

// show returns a copy of an object without what people should not see.
func show(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	mask.Object(u.Object, nil)
	return u
}
