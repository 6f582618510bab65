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
	"lockstep/kube/status"
)

// summary returns the most useful cause: from a related object, a pod, a failure to create
// pods, the newest event, or the object's status.
func (q *inquiry) summary() string {
	q.Fails = q.lead.fails || len(q.Pods) > 0 && q.Pods[0].severity >= cannotStart
	if q.lead.cause != "" {
		q.Symptom = q.lead.symptom
		return q.lead.cause
	}
	if len(q.Pods) > 0 && q.Pods[0].severity > starting {
		return q.podProblem(q.Pods[0])
	}
	if e := newestOf(q.Events, "FailedCreate"); e != nil && q.lacksPods() {
		q.Fails = true
		return "no pods can be created: " + plainError(e.Message)
	}
	if len(q.Pods) > 0 && q.Pods[0].severity == starting {
		q.Symptom = q.warningAbout(q.Pods[0], "") == nil
		return q.podProblem(q.Pods[0])
	}
	if e := q.newestWarning(); e != nil {
		return e.Reason + ": " + e.Message
	}
	q.Symptom = true
	return cmp.Or(q.verdict().Message, "no known problem")
}

// withReadinessVerdict prefixes a cause with the verdict of the chart's own readiness expressions (R23) if that
// decided the status, or if the cause is only a symptom. Otherwise the verdict becomes evidence.
func (q *inquiry) withReadinessVerdict(cause string) string {
	v := q.verdict()
	switch {
	case !q.rule().Custom() || q.live.GetDeletionTimestamp() != nil || v.Status == event.Ready || strings.Contains(cause, v.Message):
		return cause
	case q.Symptom || v.FailureDeclared:
		q.Symptom = q.Symptom && !v.FailureDeclared
		return v.Message + "; " + cause
	}
	q.lead.evidence = slices.Concat([]string{v.Message}, q.lead.evidence)
	return cause
}

// evidence returns the lines behind the cause: from related objects, the log, warnings and conditions.
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
	for _, bare := range []bool{false, true} { // messages that are only a code come last
		for _, e := range slices.Backward(q.Events) {
			if e.Warning && bareErrorCode.MatchString(e.Message) == bare {
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

// maxTail is the maximum number of log lines in the evidence besides the decisive one.
const maxTail = 5

// logTail returns the newest log lines that are not in others, oldest first, as far as there is room in the evidence.
func (q *inquiry) logTail(others []string) (tail []string) {
	room := min(maxTail, event.MaxEvidence-len(others))
	for _, l := range slices.Backward(q.Logs) {
		if len(tail) < room && l != "" && !slices.Contains(others, l) && !slices.Contains(tail, l) {
			tail = append(tail, l)
		}
	}
	slices.Reverse(tail)
	return tail
}

// bareErrorCode matches a message that is only a code, such as "Error: ImagePullBackOff".
var bareErrorCode = regexp.MustCompile(`^Error: \w+$`)

// statusWithoutEvent returns the lines of the first pod's status that no event repeats.
func (q *inquiry) statusWithoutEvent() (lines []string) {
	if len(q.Pods) == 0 {
		return nil
	}
	for _, l := range q.Pods[0].statusLines {
		_, detail, _ := strings.Cut(l, ": ")
		_, message, _ := strings.Cut(detail, ": ")
		repeats := func(e Event) bool {
			return e.Warning && (strings.Contains(e.Message, detail) || message != "" && strings.Contains(e.Message, message))
		}
		if !slices.ContainsFunc(q.Events, repeats) {
			lines = append(lines, l)
		}
	}
	return lines
}

// rule returns the readiness rule from the object's annotations, which hooks ignore (R5).
func (q *inquiry) rule() status.Rule {
	if q.live.GetAnnotations()[rel1.HookAnnotation] != "" {
		return status.Rule{Hook: true}
	}
	rule, _, _ := status.ParseRule(q.live.GetAnnotations()) // an invalid one counts as none
	rule.JobsComplete = true
	return rule
}

func (q *inquiry) verdict() status.Result {
	return status.Compute(q.live, q.rule(), time.Now())
}

// podProblem describes what is wrong with a pod, from its container, the container's log or an
// event. It names the pod only while that is starting.
func (q *inquiry) podProblem(p Pod) string {
	text := p.Why
	switch p.severity {
	case crashed:
		return q.crashCause(p)
	case cannotStart:
		if p.container(p.culprit).imagePullFailed() {
			return q.imagePullCauseWithEvents(p)
		}
	case unready:
		if e := q.warningAbout(p, "Unhealthy"); e != nil {
			text += ": " + e.Message
		} else if line := decisiveLine(q.Logs); line != "" && errorWord.MatchString(line) {
			text += ": " + line
		}
	case starting:
		if e := q.startupWarning(p); e != nil {
			text = startupCause(e)
		} else if q.object.Kind != "Pod" || q.object.Name != p.Name {
			text = p.String()
		}
	}
	return text
}

// crashCause describes how a pod's container failed, how many times, and its decisive log line.
func (q *inquiry) crashCause(p Pod) string {
	c := p.container(p.culprit)
	times := q.restartSuffix(c)
	if e := q.warningAbout(p, "Unhealthy"); e != nil && c.EndReason != "OOMKilled" && (c.Exit == 137 || c.Exit == 143) {
		if m := probeFailure.FindStringSubmatch(e.Message); m != nil {
			return fmt.Sprintf("%s was killed because its %s probe failed%s: %s", c.title(), strings.ToLower(m[1]), times, m[2])
		}
	}
	if !strings.HasPrefix(p.Why, c.title()) { // the whole pod was terminated
		return p.Why
	}
	text := p.Why + times
	if line := cmp.Or(decisiveLine(q.Logs), c.terminationMessage()); line != "" && c.EndReason != "OOMKilled" {
		text += ": " + line
	}
	return text
}

// restartSuffix returns " (2 restarts)", or for a Job, which replaces its pods, " (2 pods failed)".
func (q *inquiry) restartSuffix(c Container) string {
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

// lacksPods reports whether a workload has fewer pods than replicas.
func (q *inquiry) lacksPods() bool {
	want, found, _ := unstructured.NestedInt64(q.live.Object, "spec", "replicas")
	return len(q.Pods) == 0 || found && int64(len(q.Pods)) < want
}

// newest returns the newest event that matches, or nil.
func newest(events []Event, matches func(Event) bool) *Event {
	for _, e := range slices.Backward(events) {
		if matches(e) {
			return &e
		}
	}
	return nil
}

// newestOf returns the newest event with one of the reasons, or nil.
func newestOf(events []Event, reasons ...string) *Event {
	return newest(events, func(e Event) bool { return slices.Contains(reasons, e.Reason) })
}

func (q *inquiry) newestWarning() *Event {
	return newest(q.Events, func(e Event) bool { return e.Warning })
}

// warnsAbout reports whether the event is a warning about a pod. Failures to schedule do not count once it has a node.
func (e Event) warnsAbout(p Pod) bool {
	return e.Warning && e.Object == "Pod/"+p.Name && !(e.Reason == "FailedScheduling" && p.Node != "")
}

// warningAbout returns the newest warning about a pod, with the given reason unless that is "".
func (q *inquiry) warningAbout(p Pod, reason string) *Event {
	return newest(q.Events, func(e Event) bool { return e.warnsAbout(p) && (reason == "" || e.Reason == reason) })
}

// startupWarning returns the newest warning about a pod, preferably not a timeout.
func (q *inquiry) startupWarning(p Pod) *Event {
	return cmp.Or(newest(q.Events, func(e Event) bool {
		return e.warnsAbout(p) && !strings.Contains(e.Message, "timed out waiting for the condition")
	}), q.warningAbout(p, ""))
}

var errorWord = regexp.MustCompile(`(?i)\b(fatal|panic|error|exception|failed|denied|cannot|refused)\b`)

// decisiveLine returns the log line that most likely explains why a program ended: the last
// one that looks like an error, or else the last one.
func decisiveLine(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if errorWord.MatchString(l) {
			return l
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

// condition is a condition in an object's status.
type condition struct{ kind, status, reason, message, since string }

// String returns "Available is False: Reason: message".
func (c condition) String() string {
	parts := slices.DeleteFunc([]string{c.kind + " is " + c.status, c.reason, c.message}, func(s string) bool { return s == "" })
	return status.CleanText(strings.Join(parts, ": "))
}

func listConditions(u *unstructured.Unstructured) []condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var all []condition
	for _, item := range list {
		m, _ := item.(map[string]any)
		text := func(key string) string {
			s, _ := m[key].(string)
			return s
		}
		if text("type") != "" {
			all = append(all, condition{text("type"), text("status"), text("reason"), text("message"), text("lastTransitionTime")})
		}
	}
	return all
}

// negativeConditions matches conditions that are False or missing on a healthy object.
var negativeConditions = regexp.MustCompile(`(Stalled|Suspended|Degraded|Fail(ed|ure|ing)?|Error|Conflict\w*|Invalid|Blocked|Pressure|Terminating|Remaining|` +
	`FailureTarget|DisruptionTarget|Unavailable|Unschedulable|Pending|Resizing|Denied|Expired|NonStructuralSchema)$`)

// isNegative reports whether the condition is a problem if it is True.
func (c condition) isNegative() bool { return negativeConditions.MatchString(c.kind) }

// unhealthy returns the conditions whose value differs from that of a healthy object.
func unhealthy(u *unstructured.Unstructured) []condition {
	all := listConditions(u)
	operator := slices.ContainsFunc(all, func(c condition) bool { return c.kind == "Degraded" })
	return slices.DeleteFunc(all, func(c condition) bool {
		switch {
		case c.isNegative(), c.kind == "Reconciling", c.kind == "Progressing" && operator: // operators are done when it is False
			return c.status != "True"
		case c.kind == "ScalingLimited": // both values are normal
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

// worstCondition returns the worst unhealthy condition, or nil: first one that an
// expression uses, then a negative one, then one that is False. The newest wins a tie.
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
