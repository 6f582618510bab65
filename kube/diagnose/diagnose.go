// Package diagnose finds out why an object in the cluster is not ready: from its conditions, events, pods and the
// last lines of their logs. It also reads the data of the screen's inspector. Its central types are Diagnoser, Report
// and Pod; package kube and the packages below it may import it.
//
// It never changes the cluster. Data that cannot be read, for instance because of a missing right, becomes a line of
// the report instead of an error. Text from the cluster is cleaned (status.CleanText), except for the logs that the
// inspector follows. Values of Secrets are never shown.
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
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/mask"
	"lockstep/kube/status"
)

// readTimeout limits the time for a report and for each request of the inspector.
const readTimeout = 10 * time.Second

// Limits of a report.
const (
	maxPods   = 5
	maxEvents = 8
	maxLogs   = 10
	eventPods = 2 // pods whose events are read
)

// Clients maps kinds to resources and configures streams to the cluster.
type Clients interface {
	ToRESTMapper() (meta.RESTMapper, error)
	StreamConfig() (*rest.Config, error)
}

// Diagnoser explains why objects are not ready. It remembers how containers failed, in case
// their pods are removed. It is safe for concurrent use.
type Diagnoser struct {
	memory  crashMemory
	kube    kubernetes.Interface
	dyn     dynamic.Interface
	clients Clients
}

// New returns a Diagnoser that reads through the given clients.
func New(kube kubernetes.Interface, dyn dynamic.Interface, clients Clients) *Diagnoser {
	return &Diagnoser{memory: crashMemory{crashes: lru.New(1000), uids: lru.New(20000)}, kube: kube, dyn: dyn, clients: clients}
}

// Report explains why an object is not ready.
type Report struct {
	// Finding has the cause; its Lines are conditions, pods, events, log lines and failed reads.
	run.Finding
	// Pods are the object's pods, the one with the worst problem first.
	Pods []Pod
	// Events are the events of the object and its pods, the newest last.
	Events []Event
	// Logs are the last lines of the container with the worst problem.
	Logs []string

	serves bool // a Service has ready pods, or its endpoints come from elsewhere
}

// inquiry is a Report while it is being made.
type inquiry struct {
	Report
	object plan.Object
	live   *unstructured.Unstructured
	failed []string // failed reads
	lead   lead
}

// Object reports why an object is not ready. It takes at most 10 s.
func (d *Diagnoser) Object(ctx context.Context, o plan.Object) Report {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		return Report{Finding: d.absent(ctx, o)}
	case err != nil:
		text := unreadable("it", err)
		return Report{Finding: run.Finding{Cause: text, Symptom: true, Lines: []string{text}}}
	}
	q := &inquiry{object: o, live: live}
	q.ignoreDeletionIfFailed()
	owners, pods, err := d.findPods(ctx, live)
	q.note("pods", err)
	q.Pods = pods
	d.memory.restoreCrash(q)
	d.readEvents(ctx, q, owners)
	d.readLogs(ctx, q)
	q.lead = d.findCause(ctx, q)
	q.failed = append(q.failed, q.lead.gaps...)
	cause := q.summary()
	if strings.Contains(cause, "because it is being terminated") { // the namespace
		l := d.admission(ctx, live.GetNamespace(), cause)
		cause, q.lead.evidence = cmp.Or(l.cause, cause), append(l.evidence, q.lead.evidence...)
		q.Symptom = q.Symptom && l.cause == ""
	}
	q.Cause = status.CleanText(q.withReadinessVerdict(cause))
	q.Evidence = q.evidence()
	q.reportGaps()
	q.Lines = q.lines()
	q.Requests = q.cost(len(owners))
	return q.Report
}

// cost estimates the requests of an inquiry: for the object, its intermediate owners,
// pods and warnings, logs, and related objects.
func (q *inquiry) cost(owners int) int {
	n := 3 + owners
	if len(q.Pods) > 0 && q.Pods[0].logsMayHelp() {
		n++
	}
	if q.lead.cause != "" {
		n += 2
	}
	return n
}

func (d *Diagnoser) readEvents(ctx context.Context, q *inquiry, owners []ref) {
	refs := append([]ref{refTo(q.live.GetKind(), q.live)}, owners...)
	for i, p := range q.Pods {
		if i < eventPods && p.severity > healthy && q.live.GetKind() != "Pod" {
			refs = append(refs, p.ref())
		}
	}
	events, err := d.warnings(ctx, q.live.GetNamespace(), refs)
	q.note("events", err)
	q.Events = events
}

func (d *Diagnoser) readLogs(ctx context.Context, q *inquiry) {
	if len(q.Pods) == 0 || !q.Pods[0].logsMayHelp() {
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

// lines formats the details of a report.
func (q *inquiry) lines() []string {
	var lines []string
	for _, c := range conditions(q.live) {
		lines = append(lines, "condition "+c)
	}
	// Ready and completed pods explain nothing.
	failing := slices.DeleteFunc(slices.Clone(q.Pods), func(p Pod) bool { return p.severity == healthy })
	for i, p := range failing {
		if i == maxPods {
			lines = append(lines, fmt.Sprintf("and %d more pods", len(failing)-i))
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

// get reads the live object. If its kind is unknown, it fetches the list of kinds again.
func (d *Diagnoser) get(ctx context.Context, o plan.Object) (*unstructured.Unstructured, error) {
	mapper, err := d.clients.ToRESTMapper()
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
	live, err := d.dyn.Resource(mapping.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err == nil {
		d.memory.uids.Add(o, live.GetUID())
	}
	return live, err
}

func (q *inquiry) note(what string, err error) {
	if err != nil {
		q.failed = append(q.failed, unreadable(what, err))
	}
}

// unreadable describes a failed read, with the missing right if that is the reason.
func unreadable(what string, err error) string {
	text := err.Error()
	if m := rbacDenied.FindStringSubmatch(text); m != nil && m[3] != "" && LacksPermission(err) {
		text = fmt.Sprintf("user %s may not %s %s", m[1], m[2], m[3])
	}
	return status.CleanText(what + " cannot be read: " + text)
}

// reportGaps adds the failed reads to the evidence and, if the cause is only a symptom, to the cause.
func (q *inquiry) reportGaps() {
	gaps := slices.Compact(slices.Clone(q.failed))
	if len(gaps) == 0 {
		return
	}
	if q.Symptom {
		q.Cause = status.CleanText(q.Cause + " (details unavailable: " + strings.Join(gaps, "; ") + ")")
	}
	room := max(event.MaxEvidence-len(gaps), 1)
	q.Evidence = append(q.Evidence[:min(room, len(q.Evidence))], gaps[:min(len(gaps), event.MaxEvidence-1)]...)
}

// ErrAbsent is returned for an object that is not in the cluster.
var ErrAbsent = errors.New("not in the cluster")

// Manifest returns the live object as YAML, without managed fields and with secret values hidden.
func (d *Diagnoser) Manifest(ctx context.Context, o plan.Object) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", fmt.Errorf("read %s: %w", o, ErrAbsent)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", o, err)
	}
	live = live.DeepCopy()
	live.SetManagedFields(nil)
	mask.Object(live.Object, nil)
	text, err := yaml.Marshal(live.Object)
	if err != nil {
		return "", fmt.Errorf("print %s: %w", o, err)
	}
	return string(text), nil
}
