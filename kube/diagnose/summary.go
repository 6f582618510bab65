package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// summary picks the most useful line: what is wrong with a pod, that none can be
// created, what the object's status says, and last its newest event.
func (q *inquiry) summary() string {
	q.Fails = q.lead.fails || len(q.Pods) > 0 && q.Pods[0].severity >= cannotStart
	if q.lead.cause != "" {
		q.Symptom = q.lead.symptom
		return q.lead.cause
	}
	if len(q.Pods) > 0 && q.Pods[0].severity > starting {
		return q.pod(q.Pods[0])
	}
	if e := q.last("FailedCreate"); e != nil && q.missesPods() {
		q.Fails = true
		return "no pods can be created: " + plainError(e.Message)
	}
	if len(q.Pods) > 0 && q.Pods[0].severity == starting {
		q.Symptom = q.about(q.Pods[0], "") == nil
		return q.pod(q.Pods[0])
	}
	if e := q.last(); e != nil {
		return e.Reason + ": " + e.Message
	}
	q.Symptom = true
	return cmp.Or(q.verdict().Message, "no known problem")
}

// withReadinessVerdict adds to a cause the chart's own expression (R23) that decided the
// failure or, if the cause is only a symptom, those that do not hold.
func (q *inquiry) withReadinessVerdict(cause string) string {
	v := q.verdict()
	switch {
	case !q.hasCustomReadiness() || v.Status == event.Ready || strings.Contains(cause, v.Message):
		return cause
	case q.Symptom || v.Decided:
		q.Symptom = q.Symptom && !v.Decided
		return v.Message + "; " + cause
	}
	q.lead.evidence = slices.Concat([]string{v.Message}, q.lead.evidence)
	return cause
}

// hasCustomReadiness reports whether expressions decide that the object is ready.
func (q *inquiry) hasCustomReadiness() bool {
	return q.rule().Custom() && q.live.GetDeletionTimestamp() == nil
}

// evidence returns the lines that the cause is drawn from: the log, what the cluster
// warns of, the conditions.
func (q *inquiry) evidence() []string {
	var lines []string
	add := func(l string) {
		if l != "" && len(lines) < event.MaxEvidence && !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	for _, l := range q.lead.evidence {
		add(status.CleanText(l))
	}
	add(decisiveLine(q.Logs))
	for _, bare := range []bool{false, true} { // those that say no more than a code come last
		for _, e := range slices.Backward(q.Events) {
			if e.Warning && code.MatchString(e.Message) == bare {
				add(e.Reason + ": " + e.Message)
			}
		}
	}
	for _, l := range q.statusWithoutEvent() {
		add(l)
	}
	for _, l := range q.logTail(lines) {
		add(l)
	}
	for _, c := range conditions(q.live) {
		add(c)
	}
	if len(lines) == 0 {
		add(q.verdict().Message)
	}
	return lines
}

// mostTail is how many log lines are evidence beside the telling one.
const mostTail = 5

// logTail returns the newest log lines that others do not say, in the order in which the
// container wrote them, and no more than there is room for.
func (q *inquiry) logTail(others []string) (tail []string) {
	room := min(mostTail, event.MaxEvidence-len(others))
	for _, l := range slices.Backward(q.Logs) {
		if len(tail) < room && l != "" && !slices.Contains(others, l) && !slices.Contains(tail, l) {
			tail = append(tail, l)
		}
	}
	slices.Reverse(tail)
	return tail
}

// code is a message that is one, such as "Error: ImagePullBackOff".
var code = regexp.MustCompile(`^Error: \w+$`)

// statusWithoutEvent returns the words of the first pod's status that no event says.
func (q *inquiry) statusWithoutEvent() (words []string) {
	if len(q.Pods) == 0 {
		return nil
	}
	for _, w := range q.Pods[0].words {
		_, what, _ := strings.Cut(w, ": ")
		_, message, _ := strings.Cut(what, ": ")
		said := func(e Event) bool {
			return e.Warning && (strings.Contains(e.Message, what) || message != "" && strings.Contains(e.Message, message))
		}
		if !slices.ContainsFunc(q.Events, said) {
			words = append(words, w)
		}
	}
	return words
}

// rule returns the readiness rule of the object's own annotations, which do not count on a
// hook (R5).
func (q *inquiry) rule() status.Rule {
	if q.live.GetAnnotations()[rel1.HookAnnotation] != "" {
		return status.Rule{Hook: true}
	}
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

// pod says what is wrong with a pod: by its container and the last line of that one's
// log, or by an event. Which of an object's pods it is does not matter.
func (q *inquiry) pod(p Pod) string {
	text := p.Why
	switch p.severity {
	case crashed:
		return q.crash(p)
	case cannotStart:
		if p.container(p.culprit).imagePullFailed() {
			return q.imagePullCause(p)
		}
	case unready:
		if e := q.about(p, "Unhealthy"); e != nil {
			text += ": " + e.Message
		} else if line := decisiveLine(q.Logs); line != "" && errorWord.MatchString(line) {
			text += ": " + line
		}
	case starting:
		if e := q.startupWarning(p); e != nil {
			text = startupCause(e)
		} else if !isOf(q.object, p) {
			text = p.String()
		}
	}
	return text
}

// crash says how the container of a pod ends, how often it has, and what it says.
func (q *inquiry) crash(p Pod) string {
	c := p.container(p.culprit)
	times := q.repeated(c)
	if e := q.about(p, "Unhealthy"); e != nil && c.EndReason != "OOMKilled" && (c.Exit == 137 || c.Exit == 143) {
		if m := probing.FindStringSubmatch(e.Message); m != nil {
			return fmt.Sprintf("%s was killed because its %s probe failed%s: %s", c.title(), strings.ToLower(m[1]), times, m[2])
		}
	}
	if !strings.HasPrefix(p.Why, c.title()) { // the pod was ended, not the container
		return p.Why
	}
	text := p.Why + times
	if line := cmp.Or(decisiveLine(q.Logs), c.said()); line != "" && c.EndReason != "OOMKilled" {
		text += ": " + line
	}
	return text
}

// repeated returns " (2 restarts)", or for a Job, which replaces its pods, " (2 pods failed)".
func (q *inquiry) repeated(c Container) string {
	failed, _, _ := unstructured.NestedInt64(q.live.Object, "status", "failed")
	switch {
	case q.live.GetKind() == "Job" && failed > 1 && failed > int64(c.Restarts):
		return fmt.Sprintf(" (%d pods failed)", failed)
	case c.Restarts == 1:
		return " (1 restart)"
	case c.Restarts > 1:
		return fmt.Sprintf(" (%d restarts)", c.Restarts)
	}
	return ""
}

// missesPods reports whether a workload has fewer pods than replicas.
func (q *inquiry) missesPods() bool {
	want, found, _ := unstructured.NestedInt64(q.live.Object, "spec", "replicas")
	return len(q.Pods) == 0 || found && int64(len(q.Pods)) < want
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

// startupWarning returns the newest warning about a pod that is not only that a time is over,
// or that one.
func (q *inquiry) startupWarning(p Pod) *Event {
	for _, e := range slices.Backward(q.Events) {
		if e.Warning && e.Object == "Pod/"+p.Name && !(e.Reason == "FailedScheduling" && p.Node != "") && !strings.Contains(e.Message, "timed out waiting for the condition") {
			return &e
		}
	}
	return q.about(p, "")
}

func isOf(o plan.Object, p Pod) bool { return o.Kind == "Pod" && o.Name == p.Name }

var errorWord = regexp.MustCompile(`(?i)\b(fatal|panic|error|exception|failed|denied|cannot|refused)\b`)

// decisiveLine returns the log line that most likely says why a program ended: the last one
// that looks like an error, or else the last one.
func decisiveLine(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if errorWord.MatchString(lines[i]) {
			return lines[i]
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// plainError removes the prefixes from the message of a FailedCreate event.
func plainError(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, "(combined from similar events): "), "Error creating: ")
}

// condition is one of an object's, as its controller has written it.
type condition struct{ kind, status, reason, message, since string }

// String returns "Available is False: Reason: message".
func (c condition) String() string {
	parts := slices.DeleteFunc([]string{c.kind + " is " + c.status, c.reason, c.message}, func(s string) bool { return s == "" })
	return status.CleanText(strings.Join(parts, ": "))
}

func conditionsOf(u *unstructured.Unstructured) []condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var all []condition
	for _, item := range list {
		m, _ := item.(map[string]any)
		text := func(key string) string { s, _ := m[key].(string); return s }
		if text("type") != "" {
			all = append(all, condition{text("type"), text("status"), text("reason"), text("message"), text("lastTransitionTime")})
		}
	}
	return all
}

// negativeConditions are the conditions that a healthy object has as False, or not at all.
var negativeConditions = regexp.MustCompile(`(Stalled|Suspended|Degraded|Fail(ed|ure|ing)?|Error|Conflict\w*|Invalid|Blocked|Pressure|Terminating|Remaining|` +
	`FailureTarget|DisruptionTarget|Unavailable|Unschedulable|Pending|Resizing|Denied|Expired|NonStructuralSchema)$`)

// isNegative reports whether the condition says by being true that something is wrong.
func (c condition) isNegative() bool { return negativeConditions.MatchString(c.kind) }

// unhealthy returns the conditions that do not have the value that they have on a healthy
// object. Only these are evidence.
func unhealthy(u *unstructured.Unstructured) []condition {
	all := conditionsOf(u)
	operator := slices.ContainsFunc(all, func(c condition) bool { return c.kind == "Degraded" })
	return slices.DeleteFunc(all, func(c condition) bool {
		switch {
		case c.isNegative(), c.kind == "Reconciling", c.kind == "Progressing" && operator: // operators are done when it is False
			return c.status != "True"
		case c.kind == "ScalingLimited": // either is normal
			return true
		}
		return c.status == "True"
	})
}

// conditions returns the unhealthy conditions as text.
func conditions(u *unstructured.Unstructured) (lines []string) {
	for _, c := range unhealthy(u) {
		lines = append(lines, c.String())
	}
	return lines
}

// worstCondition returns the unhealthy condition that says the most, nil if there is none: one
// that an expression asks about, then one that complains, then one that is False. Of
// two alike the newer one counts.
func worstCondition(u *unstructured.Unstructured, expressions string) *condition {
	weight := func(c condition) int {
		w := 1 // in progress
		switch {
		case c.isNegative():
			w = 6
		case c.status == "False":
			w = 4
		case c.status != "True":
			w = 2
		}
		if strings.Contains(expressions, `"`+c.kind+`"`) || strings.Contains(expressions, `'`+c.kind+`'`) {
			w += 7
		}
		if c.message != "" {
			w++
		}
		return w
	}
	all := unhealthy(u)
	if len(all) == 0 {
		return nil
	}
	worst := slices.MaxFunc(all, func(a, b condition) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.since, b.since))
	})
	return &worst
}
