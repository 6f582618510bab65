package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// summary picks the most useful line: what is wrong with a pod, that none can be
// created, what the object's status says, and last its newest event.
func (q *inquiry) summary() string {
	if q.live.GetDeletionTimestamp() != nil {
		return "it is being deleted: " + q.verdict().Message
	}
	if q.live.GetKind() == "Service" && q.live.GroupVersionKind().Group == "" {
		return q.service()
	}
	if len(q.Pods) > 0 && q.Pods[0].trouble > young {
		return q.pod(q.Pods[0])
	}
	if e := q.last("FailedCreate"); e != nil && q.missesPods() {
		return "no pods can be created: " + plainError(e.Message)
	}
	if len(q.Pods) > 0 && q.Pods[0].trouble == young {
		return q.pod(q.Pods[0])
	}
	v := q.verdict()
	if v.Status == event.Failed || q.rule().Custom() {
		return v.Message
	}
	if e := q.last(); e != nil {
		return e.Reason + ": " + e.Message
	}
	if e := q.last("WaitForFirstConsumer"); e != nil {
		return e.Message
	}
	return cmp.Or(v.Message, "nothing is known to be wrong with it")
}

// rule is the readiness rule of the object's own annotations.
func (q *inquiry) rule() status.Rule {
	rule, _, err := status.ParseRule(q.live.GetAnnotations())
	if err != nil {
		rule = status.Rule{}
	}
	rule.JobsComplete = true
	return rule
}

func (q *inquiry) verdict() status.Result {
	return status.Compute(q.live, q.rule(), time.Now())
}

// pod says what is wrong with a pod, and adds a line of its log or an event.
func (q *inquiry) pod(p Pod) string {
	text := p.String()
	if isOf(q.object, p) || strings.HasPrefix(p.Why, "image ") {
		text = p.Why // which of the pods does not matter
	}
	if p.trouble == crashed {
		if n := q.tries(p); n > 1 {
			text += fmt.Sprintf(" after %d tries", n)
		}
		if line := telling(q.Logs); line != "" {
			text += " — " + line
		}
		return text
	}
	if p.trouble == unable && strings.HasSuffix(text, "cannot be pulled") {
		if e := q.about(p, "Failed"); e != nil {
			text += ": " + cause(e.Message)
		}
		return text
	}
	if p.trouble == unready || p.trouble == young {
		if e := q.about(p, ""); e != nil {
			text += ": " + e.Message
		}
	}
	return text
}

// tries counts how often a pod has failed. For a Job its failed pods count, as
// it starts a new one for each try.
func (q *inquiry) tries(p Pod) int {
	if q.live.GetKind() == "Job" {
		if n, ok, _ := unstructured.NestedInt64(q.live.Object, "status", "failed"); ok && int(n) > p.tries {
			return int(n)
		}
	}
	return p.tries
}

// missesPods reports whether a workload has fewer pods than replicas.
func (q *inquiry) missesPods() bool {
	want, found, _ := unstructured.NestedInt64(q.live.Object, "spec", "replicas")
	return len(q.Pods) == 0 || found && int64(len(q.Pods)) < want
}

// service says why a Service has no endpoints.
func (q *inquiry) service() string {
	selector, _, _ := unstructured.NestedStringMap(q.live.Object, "spec", "selector")
	if len(selector) == 0 {
		return cmp.Or(q.verdict().Message, "it selects no pods by itself")
	}
	ready := 0
	for _, p := range q.Pods {
		if p.trouble == fine && p.Phase == "running" {
			ready++
		}
	}
	switch {
	case len(q.Pods) == 0:
		s, _ := selectorOf(q.live)
		return fmt.Sprintf("no pod has its labels: %s", s)
	case ready == 0:
		return fmt.Sprintf("none of its %d pods is ready; %s", len(q.Pods), q.pod(q.Pods[0]))
	}
	return cmp.Or(q.verdict().Message, fmt.Sprintf("%d of its %d pods are ready", ready, len(q.Pods)))
}

// last returns the newest warning or, if a reason is given, the newest event
// with it.
func (q *inquiry) last(reason ...string) *Event {
	for i := len(q.Events) - 1; i >= 0; i-- {
		e := &q.Events[i]
		if len(reason) == 0 && e.Warning || len(reason) > 0 && e.Reason == reason[0] {
			return e
		}
	}
	return nil
}

// about returns the newest warning about a pod, with the given reason if there
// is one. That it could not be scheduled does not count once it is on a node.
func (q *inquiry) about(p Pod, reason string) *Event {
	for i := len(q.Events) - 1; i >= 0; i-- {
		e := &q.Events[i]
		if !e.Warning || e.Object != "Pod/"+p.Name || e.Reason == "FailedScheduling" && p.Node != "" {
			continue
		}
		if reason == "" || e.Reason == reason {
			return e
		}
	}
	return nil
}

func isOf(o plan.Object, p Pod) bool { return o.Kind == "Pod" && o.Name == p.Name }

var complaint = regexp.MustCompile(`(?i)\b(fatal|panic|error|exception|failed|denied|cannot|refused)\b`)

// telling is the log line that most likely says why a program ended: the last one
// that looks like an error, or else the last one.
func telling(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if complaint.MatchString(lines[i]) {
			return lines[i]
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// plainError removes the prefix from the message of a FailedCreate event.
func plainError(text string) string {
	return strings.TrimPrefix(text, "Error creating: ")
}
