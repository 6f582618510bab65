// Package diagnose finds out why an object in the cluster is not ready: from its conditions, events, pods and the
// last lines of their logs. It also reads the data of the screen's inspector. Its central types are Diagnoser, Report
// and Pod; package kube and the packages below it may import it.
//
// It never changes the cluster. In a Report, a failed read, for example because of a missing permission, becomes a line
// instead of an error. Text from the cluster is cleaned (status.CleanText), except for the logs that the inspector
// follows. Values of Secrets are never shown.
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
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/mask"
	"lockstep/kube/status"
)

// readTimeout limits each report, and each request of the inspector.
const readTimeout = 10 * time.Second

// Limits of a report.
const (
	maxPods   = 5
	maxEvents = 8
	maxLogs   = 10
	eventPods = 2 // the events of only this many of the worst pods are read
)

// Clients maps kinds to resources and configures streams to the cluster.
type Clients interface {
	ToRESTMapper() (meta.RESTMapper, error)
	StreamConfig() (*rest.Config, error)
}

// Diagnoser explains why objects are not ready. It remembers how containers failed, because their pods may be removed.
// It is safe for concurrent use.
type Diagnoser struct {
	memory  crashMemory
	kube    kubernetes.Interface
	dyn     dynamic.Interface
	clients Clients
	// hideOutput hides secret values in the output of a workload.
	hideOutput func(string) string
	// ruleOf says by which rule an object of the run is ready.
	ruleOf RuleOf
}

// RuleOf returns the rule by which a run decides whether an object is ready; ok is false for objects that it does not watch.
type RuleOf func(plan.Object) (rule status.Rule, ok bool)

// New returns a Diagnoser that reads through the given clients.
func New(kube kubernetes.Interface, dyn dynamic.Interface, clients Clients) *Diagnoser {
	return &Diagnoser{
		memory: crashMemory{crashes: lru.New(1000), uids: lru.New(20000)}, kube: kube, dyn: dyn, clients: clients,
		hideOutput: new(mask.Mask).Output, ruleOf: func(plan.Object) (status.Rule, bool) { return status.Rule{}, false },
	}
}

// WithRules returns a Diagnoser that judges the objects of a run as the run does (R22b). Other objects it judges by their live
// annotations. Both remember the same crashes.
func (d *Diagnoser) WithRules(of RuleOf) *Diagnoser {
	ruled := *d
	ruled.ruleOf = of
	return &ruled
}

// WithMask returns a Diagnoser that hides the secret values of a mask in the output of workloads, before it becomes a part
// of a cause. Both remember the same crashes.
func (d *Diagnoser) WithMask(m *mask.Mask) *Diagnoser {
	masked := *d
	masked.hideOutput = m.Output
	return &masked
}

// Report explains why an object is not ready.
type Report struct {
	// Finding has the cause; its Details are conditions, pods, events, log lines and failed reads.
	run.Finding
	// Pods are the object's pods, the one with the worst problem first. For a Deployment, those of the newest ReplicaSet come
	// first; older ones are omitted if those cannot start or do not exist yet.
	Pods []Pod
	// Events are the warnings about the object, the direct owner of its pods, and its worst pods, the newest last.
	Events []Event
	// Logs are the last lines of the container with the worst problem.
	Logs []string

	hasEndpoints bool   // of a Service: it has ready pods, or no selector and endpoints from elsewhere
	absent       bool   // the object does not exist
	deletion     string // why the object still exists although it is being deleted, else ""
}

// reportBuilder is a Report in the making, with the data that it is made from.
type reportBuilder struct {
	Report
	object plan.Object
	live   *unstructured.Unstructured
	gaps   []string // the reads that failed
	found  finding
	// rule is the one by which the object is ready.
	rule status.Rule
	// blocking are the pods of an older template that block a StatefulSet.
	blocking []BlockingPod
	// uncreated is how many pods of how many wanted ones do not exist, and existing how many do, old ones included.
	uncreated, wanted, existing int
}

// Object reports why an object is not ready. It takes at most 10 s.
func (d *Diagnoser) Object(ctx context.Context, o plan.Object) Report {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		return d.missing(ctx, o)
	case err != nil:
		text := Unreadable("it", err)
		return Report{Finding: run.Finding{Cause: text, Symptom: true, Details: event.Details{Notes: []string{text}}}}
	}
	b := &reportBuilder{object: o, live: live, rule: d.rule(o, live)}
	b.rule.LateBinding, _ = status.LateBinding(ctx, d.dyn, live)
	b.ignoreRecentDeletion()
	owners, pods, err := d.findPods(ctx, live)
	b.addGap("pods", err)
	b.Pods = pods.withCauses()
	b.countPods(pods)
	b.readBlocking()
	d.memory.restoreCrash(b)
	d.readEvents(ctx, b, owners)
	d.readLogs(ctx, b)
	b.found = d.findCause(ctx, b)
	if live.GetDeletionTimestamp() != nil || slices.ContainsFunc(b.Pods, func(p Pod) bool { return p.Phase == terminating }) {
		d.addNamespaceDeletion(ctx, b)
	}
	b.gaps = append(b.gaps, b.found.gaps...)
	cause := b.summarise()
	if strings.Contains(cause, namespaceTerminating) {
		f := d.admissionCause(ctx, live.GetNamespace(), cause)
		cause, b.found.evidence = cmp.Or(f.cause, cause), append(f.evidence, b.found.evidence...)
		b.Symptom = b.Symptom && f.cause == ""
	}
	b.Cause = status.CleanText(b.withReadinessVerdict(b.blockedCause(cause)))
	b.deletion = status.CleanText(b.found.deletion)
	b.Evidence = b.evidence()
	b.reportGaps()
	b.Details = b.details()
	b.Requests = b.estimateRequests(len(owners))
	return b.Report
}

// estimateRequests estimates how many requests were sent: for the object, the owners between it and its pods, the pods
// and warnings, the log, and related objects.
func (b *reportBuilder) estimateRequests(owners int) int {
	n := 3 + owners
	if len(b.Pods) > 0 && b.Pods[0].logsMayHelp() {
		n++
	}
	if b.found.cause != "" {
		n += 2
	}
	return n
}

func (d *Diagnoser) readEvents(ctx context.Context, b *reportBuilder, owners []ref) {
	refs := append([]ref{refTo(b.live.GetKind(), b.live)}, owners...)
	for i, p := range b.Pods {
		if i < eventPods && p.severity > healthy && b.live.GetKind() != "Pod" {
			refs = append(refs, p.ref())
		}
	}
	events, err := d.warnings(ctx, b.live.GetNamespace(), refs)
	b.addGap("events", err)
	b.Events = events
}

func (d *Diagnoser) readLogs(ctx context.Context, b *reportBuilder) {
	if len(b.Pods) == 0 || !b.Pods[0].logsMayHelp() {
		return
	}
	p := b.Pods[0]
	lines, err := d.logTail(ctx, p)
	if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) { // the container has not started, or the pod is gone
		b.addGap("logs of pod "+p.Name, err)
	}
	b.Logs = lines
	d.memory.storeCrash(b)
}

// details returns the facts: conditions, pods, events, log lines and failed reads.
func (b *reportBuilder) details() event.Details {
	d := event.Details{Conditions: unhealthyConditionLines(b.live), Log: b.Logs, Notes: b.gaps}
	// Ready and completed pods explain nothing.
	failing := slices.DeleteFunc(slices.Clone(b.Pods), func(p Pod) bool { return p.severity == healthy })
	d.MorePods = max(len(failing)-maxPods, 0)
	for _, p := range failing[:len(failing)-d.MorePods] {
		d.Pods = append(d.Pods, event.FailingPod{Name: p.Name, Why: p.Why})
	}
	d.Events = append(d.Events, b.Events[max(0, len(b.Events)-maxEvents):]...)
	if len(failing) > 0 && failing[0].severity > starting {
		d.Pod, d.Container = failing[0].Name, failing[0].culprit
		if c := failing[0].container(failing[0].culprit); c.Ended {
			d.ExitCode = &c.Exit
		}
	}
	return d
}

// get reads the live object. If its kind is unknown, it runs discovery again.
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

func (b *reportBuilder) addGap(what string, err error) {
	if err != nil {
		b.gaps = append(b.gaps, Unreadable(what, err))
	}
}

// Unreadable describes a failed read: "pods cannot be read: user bob may not list pods", "the cluster has no kind Cache in API
// group example.com".
func Unreadable(what string, err error) string {
	if missing := (*meta.NoKindMatchError)(nil); errors.As(err, &missing) && len(missing.SearchedVersions) == 0 {
		return status.NoKind(missing.GroupKind)
	}
	text := err.Error()
	if d, ok := DeniedRequest(err); ok && d.Resource != "" {
		text = fmt.Sprintf("user %s may not %s %s", d.User, d.Verb, d.Resource)
	}
	return status.CleanText(what + " cannot be read: " + text)
}

// reportGaps adds the failed reads to the evidence and, if the cause is only a symptom, to the cause.
func (b *reportBuilder) reportGaps() {
	gaps := slices.Compact(slices.Clone(b.gaps))
	if len(gaps) == 0 {
		return
	}
	if b.Symptom {
		b.Cause = status.CleanText(b.Cause + " (details unavailable: " + strings.Join(gaps, "; ") + ")")
	}
	room := max(event.MaxEvidence-len(gaps), 1)
	b.Evidence = append(b.Evidence[:min(room, len(b.Evidence))], gaps[:min(len(gaps), event.MaxEvidence-1)]...)
}

// ErrNotFound is returned for an object that is not in the cluster.
const ErrNotFound = inspect.Unavailable(notInCluster)

// Manifest returns the live object as YAML, without managed fields and with secret values hidden.
func (d *Diagnoser) Manifest(ctx context.Context, o plan.Object) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", fmt.Errorf("read %s: %w", o, ErrNotFound)
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
