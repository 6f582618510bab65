package diagnose

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/status"
)

// summarise returns the most useful cause: the result of findCause, or else of a pod, the newest warning, or the object's status. It also sets Degraded and Symptom.
func (b *reportBuilder) summarise() string {
	b.Degraded = b.found.fails || len(b.Pods) > 0 && b.Pods[0].severity >= cannotStart
	if b.found.cause != "" {
		b.Symptom, b.OfPods, b.Lacks = b.found.symptom, b.found.ofPods, b.found.lacks
		b.Tally = cmp.Or(b.found.tally, b.Tally)
		return b.found.cause
	}
	if len(b.Pods) > 0 && b.Pods[0].severity > healthy {
		b.OfPods = true
		b.Symptom = b.Pods[0].severity == starting && b.warningAbout(b.Pods[0], "") == nil
		return b.podProblem(b.Pods[0])
	}
	if e := b.newestWarning(); e != nil {
		return e.Reason + ": " + e.Message
	}
	b.Symptom, b.OnlyState = true, true
	return cmp.Or(b.verdict().Message, "no known problem")
}

// withReadinessVerdict adds the verdict of the chart's readiness expressions (R23) to the evidence: an expression is the
// mechanism, not the cause. Only if the status of the object is nothing but this verdict, it comes before a symptom.
func (b *reportBuilder) withReadinessVerdict(cause string) string {
	v := b.verdict()
	if !b.rule.Custom() || b.live.GetDeletionTimestamp() != nil || v.Status == event.Ready {
		return cause
	}
	wasSymptom := b.Symptom
	b.Symptom, b.Declared = b.Symptom && !v.FailureDeclared, v.FailureDeclared
	switch {
	case v.Expression == "" || strings.Contains(cause, v.Expression):
		return cause
	case wasSymptom && v.Message == v.Expression:
		return v.Message + "; " + cause
	}
	b.found.evidence = slices.Concat([]string{v.Expression}, b.found.evidence)
	return cause
}

// evidence returns the lines that support the cause: from related objects, the log, warnings and conditions. It leaves out
// lines that repeat the cause or another line, and warnings that are only an error code. If nothing else is left, it
// returns the first of those.
func (b *reportBuilder) evidence() []string {
	var lines, codes []string
	for _, l := range b.found.evidence {
		lines = append(lines, status.CleanText(l))
	}
	lines = append(lines, decisiveLine(b.Logs))
	for _, e := range slices.Backward(b.Events) {
		switch l := e.Reason + ": " + e.Message; {
		case !e.Warning:
		case bareErrorCode.MatchString(e.Message):
			codes = append(codes, l)
		default:
			lines = append(lines, l)
		}
	}
	lines = append(lines, b.statusWithoutEvent()...)
	distinct := distinctLines(b.Cause, lines)
	distinct = append(distinct, b.newestLogLines(distinct)...)
	for _, c := range unhealthyConditionLines(b.live) {
		if !event.Repeats(c, b.Cause) && !slices.ContainsFunc(distinct, func(known string) bool { return event.Repeats(c, known) }) {
			distinct = append(distinct, c)
		}
	}
	if len(distinct) == 0 {
		others := slices.DeleteFunc(slices.Concat(lines, codes, []string{b.verdict().Message}), func(l string) bool { return l == "" })
		return others[:min(len(others), 1)]
	}
	return distinct[:min(len(distinct), event.MaxEvidence)]
}

// distinctLines returns the lines that repeat neither the cause nor another line. Of lines that say the same, it keeps
// the first.
func distinctLines(cause string, lines []string) (distinct []string) {
	for i, l := range lines {
		repeated := event.Repeats(l, cause)
		for j, other := range lines {
			repeated = repeated || j != i && event.Repeats(l, other) && (j < i || !event.Repeats(other, l))
		}
		if !repeated {
			distinct = append(distinct, l)
		}
	}
	return distinct
}

// maxTail limits the log lines in the evidence, besides the decisive one.
const maxTail = 5

// newestLogLines returns the newest log lines that are neither in the cause nor in known, oldest first, and at most as
// many as fit into the evidence with those.
func (b *reportBuilder) newestLogLines(known []string) (tail []string) {
	room := min(maxTail, event.MaxEvidence-len(known))
	for _, l := range slices.Backward(b.Logs) {
		if len(tail) < room && !event.Repeats(l, b.Cause) && !slices.Contains(known, l) && !slices.Contains(tail, l) {
			tail = append(tail, l)
		}
	}
	slices.Reverse(tail)
	return tail
}

// bareErrorCode matches a message such as "Error: ImagePullBackOff".
var bareErrorCode = regexp.MustCompile(`^Error: \w+$`)

// statusWithoutEvent returns the lines of the first pod's status that no event repeats.
func (b *reportBuilder) statusWithoutEvent() (lines []string) {
	if len(b.Pods) == 0 {
		return nil
	}
	for _, l := range b.Pods[0].statusLines {
		_, detail, _ := strings.Cut(l, ": ")
		_, message, _ := strings.Cut(detail, ": ")
		repeats := func(e Event) bool {
			return e.Warning && (strings.Contains(e.Message, detail) || message != "" && strings.Contains(e.Message, message))
		}
		if !slices.ContainsFunc(b.Events, repeats) {
			lines = append(lines, l)
		}
	}
	return lines
}

// rule returns the readiness rule of an object: that of the run, else by its annotations. Hooks have Helm's rule, whatever
// their annotations (R5).
func (d *Diagnoser) rule(o plan.Object, live *unstructured.Unstructured) status.Rule {
	if rule, known := d.ruleOf(o); known {
		return rule
	}
	if live.GetAnnotations()[rel1.HookAnnotation] != "" {
		return status.Rule{Hook: true}
	}
	rule, _ := status.ParseRule(live.GetAnnotations()) // an invalid one counts as none
	rule.JobsComplete = true
	return rule
}

func (b *reportBuilder) verdict() status.Result { return status.Compute(b.live, b.rule, time.Now()) }

// podProblem describes what is wrong with a pod, from its container, the container's log or an event. It names the pod
// only if the pod is still starting.
func (b *reportBuilder) podProblem(p Pod) string {
	text := p.Why
	switch p.severity {
	case crashed:
		return b.crashCause(p)
	case cannotStart:
		if p.container(p.culprit).imagePullFailed() {
			return b.imagePullCauseWithEvents(p)
		}
	case unready:
		if e := b.warningAbout(p, "Unhealthy"); e != nil {
			text += ": " + e.Message
		} else if line := decisiveLine(b.Logs); line != "" && errorWord.MatchString(line) {
			text += ": " + line
		}
	case starting:
		if e := b.startupWarning(p); e != nil {
			text = startupCause(e)
		} else if b.object.Kind != "Pod" || b.object.Name != p.Name {
			text = p.String()
		}
	}
	return text
}

// crashCause describes how a pod's container failed, how often, and its decisive log line.
func (b *reportBuilder) crashCause(p Pod) string {
	c := p.container(p.culprit)
	if _, why := c.problem(); why != p.Why { // the whole pod was terminated
		return p.Why
	}
	b.Tally = b.countFailures(c)
	if e := b.warningAbout(p, "Unhealthy"); e != nil && c.EndReason != "OOMKilled" && (c.Exit == 137 || c.Exit == 143) {
		if m := probeFailure.FindStringSubmatch(e.Message); m != nil {
			return phrase.WithTally(c.title()+" was killed because its "+strings.ToLower(m[1])+" probe failed", "", b.Tally) + ": " + m[2]
		}
	}
	ended, reason := c.exitText()
	text := phrase.WithTally(c.title()+" "+ended, reason, b.Tally)
	if line := cmp.Or(decisiveLine(b.Logs), c.terminationMessage()); line != "" && c.EndReason != "OOMKilled" {
		text += ": " + line
	}
	return text
}

// countFailures counts the restarts of a container. For a Job that replaced its pods it counts those instead.
func (b *reportBuilder) countFailures(c Container) event.Tally {
	failed, _, _ := unstructured.NestedInt64(b.live.Object, "status", "failed")
	if b.live.GetKind() == "Job" && failed > 1 && failed > int64(c.Restarts) {
		return event.Tally{PodsFailed: int(failed)}
	}
	return event.Tally{Restarts: c.Restarts}
}

// newest returns the newest event that matches, or nil. The events are sorted by time.
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

func (b *reportBuilder) newestWarning() *Event {
	return newest(b.Events, func(e Event) bool { return e.Warning })
}

// warnsAbout reports whether the event is a warning about a pod. FailedScheduling does not count once the pod has a node.
func warnsAbout(e Event, p Pod) bool {
	return e.Warning && e.Object == "Pod/"+p.Name && !(e.Reason == "FailedScheduling" && p.Node != "")
}

// warningAbout returns the newest warning about a pod with the given reason, or with any if that is "".
func (b *reportBuilder) warningAbout(p Pod, reason string) *Event {
	return newest(b.Events, func(e Event) bool { return warnsAbout(e, p) && (reason == "" || e.Reason == reason) })
}

// startupWarning returns the newest warning about a pod. A timeout counts only if there is nothing else.
func (b *reportBuilder) startupWarning(p Pod) *Event {
	return cmp.Or(newest(b.Events, func(e Event) bool {
		return warnsAbout(e, p) && !strings.Contains(e.Message, "timed out waiting for the condition")
	}), b.warningAbout(p, ""))
}

var errorWord = regexp.MustCompile(`(?i)\b(fatal|panic|error|exception|failed|denied|cannot|refused)\b`)

// decisiveLine returns the log line that most likely explains why a program failed: the last one that looks like an
// error, or else the last one.
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

// plainError strips the prefixes from the message of a FailedCreate event.
func plainError(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, "(combined from similar events): "), "Error creating: ")
}

// condition is a condition in an object's status.
type condition struct{ kind, status, reason, message, since string }

// String returns "Available is False: Reason: message".
func (c condition) String() string {
	return status.CleanText(text.Join(": ", c.kind+" is "+c.status, c.reason, c.message))
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

// unhealthyConditions returns the conditions whose status a healthy object would not have.
func unhealthyConditions(u *unstructured.Unstructured) []condition {
	all := listConditions(u)
	isOperator := slices.ContainsFunc(all, func(c condition) bool { return c.kind == "Degraded" })
	return slices.DeleteFunc(all, func(c condition) bool {
		switch {
		case c.isNegative(), c.kind == "Reconciling", c.kind == "Progressing" && isOperator: // an operator is done when it is False
			return c.status != "True"
		case c.kind == "ScalingLimited", c.reason == "PodCompleted": // both values are normal; a completed pod is not ready
			return true
		case c.reason == "PodFailed" && c.message == "": // the state of the pod's containers says why
			return true
		}
		return c.status == "True"
	})
}

// unhealthyConditionLines returns the unhealthy conditions as text.
func unhealthyConditionLines(u *unstructured.Unstructured) (lines []string) {
	for _, c := range unhealthyConditions(u) {
		lines = append(lines, c.String())
	}
	return lines
}

// worstCondition returns the worst unhealthy condition, or nil. A condition that the expressions use comes first, then a
// negative one, then one that is False. The newest wins a tie.
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
	all := unhealthyConditions(u)
	if len(all) == 0 {
		return nil
	}
	worst := slices.MaxFunc(all, func(a, b condition) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.since, b.since))
	})
	return &worst
}
