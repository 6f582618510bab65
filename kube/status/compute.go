package status

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
)

// Result is the result of Compute.
type Result struct {
	run.Observation
	// Recheck is the time after which the result may differ even if the object does not change; 0 for never.
	Recheck time.Duration
	// Expression says which readiness expression decided (R23), or what keeps one from being true; "" if none was evaluated.
	Expression string
	// Doubts describe comparisons with something that is not a number (R23), one line each.
	Doubts []string
	// Unreadable says what kstatus cannot read in the status of a custom resource (R22a), or "".
	Unreadable string
	// unawaited means that the result does not depend on a write of the status (R22a).
	unawaited bool
}

// Compute returns the status of a live object at the time now. It is pure: it reads no clock, sends no request and does
// not modify u.
//
// An object that is being deleted is Deleting, whatever its status says. A status that is older than the object's
// generation never makes it ready or failed.
func Compute(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
	r := decide(u, rule, now)
	if !rule.Hook {
		r = r.firstStatus(u, rule)
		r.Wanted = wantedPods(u)
	}
	if r.Status == event.InProgress || r.Status == event.Failed {
		r.Since = notReadySince(u, now)
	}
	r.Object = objectName(u)
	r.Version = ParseVersion(u.GetResourceVersion())
	r.Message, r.Expression = CleanText(r.Message), CleanText(r.Expression)
	return r
}

// decide computes the status by the object's rule, by its kind, or with kstatus.
func decide(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
	if u.GetDeletionTimestamp() != nil {
		r := result(event.Deleting, describeDeletion(u))
		r.Finalizers = u.GetFinalizers()
		return r
	}
	switch {
	case rule.Hook:
		return hookStatus(u, now)
	case rule.Custom():
		return byExpressions(u, rule, now).by(rule.judge())
	}
	return byKind(u, rule, now)
}

// byKind computes the status by the object's kind, or with kstatus.
func byKind(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
	if own := builtIn(u); own != nil {
		return own(u, rule, now)
	}
	if r, ok := byTable(u); ok {
		return r
	}
	r := byKstatus(u)
	_, hasStatus := u.Object["status"]
	switch {
	case r.Status != event.Ready:
	case !hasStatus:
		return r.by(event.ByExistence)
	case !IsBuiltIn(u.GroupVersionKind().Group) && !hasKstatusCondition(u):
		return r.by(event.ByFirstStatus)
	}
	return r.by(event.ByKstatus)
}

func result(s event.Status, message string) Result {
	return Result{Observation: run.Observation{Status: s, Message: message}}
}

// counting returns the result with the counts of the object's pods.
func (r Result) counting(p event.Progress) Result {
	r.Progress = p
	return r
}

// by returns the result with the rule that decided it.
func (r Result) by(rule event.Judge) Result {
	r.ReadyBy = rule
	return r
}

// byKstatus returns the status according to kstatus (R22, R26). Failed is final: decide has already handled Pods that may
// still get a node, and kstatus fails a Deployment only after its progress deadline.
func byKstatus(u *unstructured.Unstructured) Result {
	readable, problem := readableByKstatus(u)
	k, err := kstatus.Compute(readable)
	switch {
	case err == nil:
	case IsBuiltIn(u.GroupVersionKind().Group):
		return result(event.InProgress, "status cannot be read: "+err.Error())
	default: // it counts once it is written (R22a): waiting would never end
		k, problem = &kstatus.Result{Status: kstatus.CurrentStatus}, err.Error()
	}
	r := kstatusResult(u, k)
	r.Unreadable = problem
	return r
}

func kstatusResult(u *unstructured.Unstructured, k *kstatus.Result) Result {
	status := event.InProgress
	switch k.Status {
	case kstatus.CurrentStatus:
		status = event.Ready
	case kstatus.FailedStatus:
		status = event.Failed
		if u.GetKind() == "Deployment" && !deadlineExceeded(u) { // of an earlier rollout
			status = event.InProgress
		}
	}
	if message, ok := stale(u); ok {
		return result(status, message)
	}
	return result(status, describe(u, status, k)).counting(podCounts(u))
}

// apiServiceStatus handles APIServices, because kstatus does not know them. One without a service is always available.
func apiServiceStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	r := result(event.InProgress, "availability not known yet")
	r.unawaited = true
	if c, ok := findCondition(u, "Available"); ok && c.status == "True" {
		_, remote, _ := unstructured.NestedMap(u.Object, "spec", "service")
		r.Status, r.Message, r.unawaited = event.Ready, "available", !remote
	} else if ok {
		r.Message = joinText("not available", c.text())
	}
	return r.by(event.ByBuiltIn)
}

// stale reports whether the status is older than the object's generation.
func stale(u *unstructured.Unstructured) (message string, ok bool) {
	observed, readable := observedGeneration(u)
	if !readable || observed >= u.GetGeneration() {
		return "", false
	}
	return "its controller has not observed the change yet", true
}

// byExpressions evaluates the expressions of the rule, failure first (R23). The message of a built-in kind that waits is the
// usual one of its kind, if there is one: an expression is the mechanism.
func byExpressions(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
	if message, ok := stale(u); ok {
		return result(event.InProgress, message)
	}
	status, exists, _ := unstructured.NestedMap(u.Object, "status")
	var r Result
	if e, ok := r.anyHolds(rule.Failure, status); ok {
		r.Status, r.Message, r.FailureDeclared = event.Failed, "matches readiness-failure "+e.withValue(status), true
		r.Expression = r.Message
		return r
	}
	if e, ok := r.anyHolds(rule.Success, status); ok {
		r.Status, r.Message, r.Expression = event.Ready, e.String(), e.String()
		return r
	}
	r.Expression = unmet(rule.Success, status, exists)
	r.Status, r.Message = event.InProgress, r.Expression
	if !IsBuiltIn(u.GroupVersionKind().Group) {
		return r
	}
	rule.JobsComplete = true
	if usual := byKind(u, rule, now); usual.Status != event.Ready && usual.Message != "" {
		r.Message, r.Progress, r.Recheck, r.Trouble = usual.Message, usual.Progress, usual.Recheck, usual.Trouble
	}
	return r
}

// unmet describes expressions that are false, with the actual values.
func unmet(list []Expression, status map[string]any, exists bool) string {
	problem := fmt.Sprintf("not ready: readiness-success %s is not met", list[0])
	if len(list) > 1 {
		problem = "not ready: no readiness-success expression is met"
	}
	if !exists {
		return problem + ": expressions apply to .status, and the object has none yet"
	}
	if len(list) == 1 {
		return fmt.Sprintf("%s (%s)", problem, list[0].Actual(status))
	}
	var all []string
	for _, e := range list {
		all = append(all, fmt.Sprintf("%s (%s)", e, e.Actual(status)))
	}
	return problem + ": " + strings.Join(all, ", ")
}

// anyHolds returns the first expression that is true. It adds to r.Doubts.
func (r *Result) anyHolds(list []Expression, status map[string]any) (Expression, bool) {
	for _, e := range list {
		holds, doubt := e.Holds(status)
		if holds {
			return e, true
		}
		if doubt != "" {
			r.Doubts = append(r.Doubts, doubt)
		}
	}
	return Expression{}, false
}

// hookStatus applies Helm's rule for hooks (R5): a Job must complete, a Pod must succeed, anything else must only exist.
func hookStatus(u *unstructured.Unstructured, now time.Time) Result {
	switch groupKind(u) {
	case "batch/Job":
		return jobStatus(u, true, now).by(event.ByBuiltIn)
	case "Pod":
		return hookPodStatus(u, now).by(event.ByBuiltIn)
	}
	return result(event.Ready, "").by(event.ByExistence)
}

func hookPodStatus(u *unstructured.Unstructured, now time.Time) Result {
	switch kstatus.GetStringField(u.Object, ".status.phase", "") {
	case "Succeeded":
		return result(event.Ready, "succeeded")
	case "Failed":
		return result(event.Failed, describePod(u))
	}
	if r, ok := unschedulable(u, now); ok {
		return r
	}
	if k, err := kstatus.Compute(u); err == nil && k.Status == kstatus.FailedStatus {
		return result(event.Failed, describePod(u))
	}
	return result(event.InProgress, describeHookPod(u))
}

// unschedulable handles a Pod for which there is no node. It fails only after 15 s, because a node may become available
// (R26). kstatus does the same, but reads the clock itself.
func unschedulable(u *unstructured.Unstructured, now time.Time) (Result, bool) {
	c, ok := findCondition(u, "PodScheduled")
	if !ok || c.status != "False" || c.reason != "Unschedulable" ||
		kstatus.GetStringField(u.Object, ".status.phase", "") != "Pending" {
		return Result{}, false
	}
	if _, ok := stale(u); ok {
		return Result{}, false
	}
	message := joinText("cannot be scheduled", c.message)
	left := u.GetCreationTimestamp().Add(kstatus.ScheduleWindow).Sub(now)
	if left <= 0 {
		return result(event.Failed, message), true
	}
	r := result(event.InProgress, message)
	r.Recheck = left
	return r, true
}

// jobStatus handles Jobs. Unless the Job must complete, it is ready once it has started, as for kstatus.
func jobStatus(u *unstructured.Unstructured, mustComplete bool, now time.Time) Result {
	for _, t := range []string{"Failed", "FailureTarget"} { // FailureTarget is set first, while the pods still exist
		if c, ok := findCondition(u, t); ok && c.status == "True" {
			return result(event.Failed, cmp.Or(c.text(), "failed")).by(event.ByBuiltIn)
		}
	}
	if c, ok := findCondition(u, "Complete"); ok && c.status == "True" {
		return result(event.Ready, describeJob(u, now)).by(event.ByBuiltIn)
	}
	if !mustComplete {
		r := byKstatus(u).by(event.ByStart)
		r.Message = describeJob(u, now)
		switch {
		case r.Status == event.Failed:
		case suspended(u):
			return result(event.Ready, "").noted(noteSuspended)
		case r.Status == event.Ready && kstatus.GetIntField(u.Object, ".spec.parallelism", 1) == 0:
			return result(event.Ready, "").noted(noteParallelism)
		}
		return r
	}
	r := result(event.InProgress, describeJob(u, now)).by(event.ByBuiltIn)
	r.Trouble = suspended(u) // a suspended Job has no pods that would show trouble
	if age, ok := jobAge(u, now); ok {
		r.Recheck = age.Truncate(jobTick) + jobTick - age
	}
	return r
}

// describeDeletion says why an object that is being deleted still exists.
func describeDeletion(u *unstructured.Unstructured) string {
	if f := u.GetFinalizers(); len(f) > 0 {
		return "waiting for " + text.Named("finalizer", f)
	}
	if groupKind(u) == "Namespace" {
		return joinText("terminating", WhyTerminating(u))
	}
	return "terminating"
}

// terminatingConditions are the conditions of a namespace that explain why it still exists.
var terminatingConditions = []string{
	"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure",
	"NamespaceContentRemaining", "NamespaceFinalizersRemaining",
}

// WhyTerminating says why a terminating namespace still exists: its remaining objects and their finalizers. It returns ""
// if that is unknown.
func WhyTerminating(u *unstructured.Unstructured) string {
	var why []string
	for _, t := range terminatingConditions {
		if c, ok := findCondition(u, t); ok && c.status == "True" && c.message != "" {
			why = append(why, shortenRemaining(c.message))
		}
	}
	return strings.Join(why, "; ")
}

var (
	remaining  = regexp.MustCompile(`^Some (?:resources are|content in the namespace has (finalizers)) remaining: (.*)`)
	oneRemains = regexp.MustCompile(`^(\S+?)\.? (?:has|in) (\d+) resource instances$`)
)

// shortenRemaining shortens the API server's message about the objects left in a namespace to "remaining objects: pods
// (2)". It returns other messages unchanged.
func shortenRemaining(message string) string {
	m := remaining.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	list := strings.Split(m[2], ", ")
	for i, item := range list {
		n := oneRemains.FindStringSubmatch(item)
		if n == nil {
			return message
		}
		list[i] = n[1] + " (" + n[2] + ")"
	}
	return "remaining " + cmp.Or(m[1], "objects") + ": " + strings.Join(list, ", ")
}

func objectName(u *unstructured.Unstructured) plan.Object {
	return plan.Object{
		Group:     u.GroupVersionKind().Group,
		Kind:      u.GetKind(),
		Namespace: u.GetNamespace(),
		Name:      u.GetName(),
	}
}

// groupKind returns "Pod" or "apps/Deployment".
func groupKind(u *unstructured.Unstructured) string {
	if g := u.GroupVersionKind().Group; g != "" {
		return g + "/" + u.GetKind()
	}
	return u.GetKind()
}

// ParseVersion parses a resourceVersion; it returns 0 if that is not a number.
func ParseVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
