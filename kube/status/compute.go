package status

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Result is the result of Compute.
type Result struct {
	run.Observation
	// Recheck is the time after which the result may differ even if the object does not change; 0 for never.
	Recheck time.Duration
	// Doubts describe comparisons with something that is not a number (R23), one line each.
	Doubts []string
}

// Compute returns the status of an object from the API server at the time now. It is pure: it
// reads no clock, sends no request and does not modify u.
//
// An object that is being deleted is Deleting, whatever its status. A status older than the
// object's generation never makes it ready or failed.
func Compute(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
	r := decide(u, rule, now)
	r.Object = objectName(u)
	r.Version = ParseVersion(u.GetResourceVersion())
	r.Message = CleanText(r.Message)
	return r
}

// decide computes the status of an object by its rule, its kind, or kstatus.
//
// Rule R22: ready is kstatus' Current, but for Jobs, paused Deployments and APIServices.
func decide(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
	if u.GetDeletionTimestamp() != nil {
		return result(event.Deleting, deleting(u))
	}
	switch {
	case rule.Hook:
		return hook(u, now)
	case rule.Custom():
		return custom(u, rule)
	}
	switch groupKind(u) {
	case "apps/Deployment":
		if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
			return result(event.Ready, "paused, not checked")
		}
	case "apiregistration.k8s.io/APIService":
		return apiService(u)
	case "batch/Job":
		return job(u, rule.JobsComplete, now)
	case "Pod":
		if r, ok := unscheduled(u, now); ok {
			return r
		}
	}
	return byKstatus(u)
}

func result(s event.Status, message string) Result {
	return Result{Observation: run.Observation{Status: s, Message: message}}
}

// byKstatus returns the status of kstatus (R22, R26). Its Failed is final: unscheduled handles
// a Pod that may still get a node, and a Deployment fails only after its progress deadline.
func byKstatus(u *unstructured.Unstructured) Result {
	k, err := kstatus.Compute(u)
	if err != nil {
		return result(event.InProgress, "status cannot be read: "+err.Error())
	}
	status := event.InProgress
	switch k.Status {
	case kstatus.CurrentStatus:
		status = event.Ready
	case kstatus.FailedStatus:
		status = event.Failed
	}
	if message, ok := stale(u); ok {
		return result(status, message)
	}
	return result(status, describe(u, status, k))
}

// apiService handles APIServices, which kstatus does not know: they are ready when available.
func apiService(u *unstructured.Unstructured) Result {
	c, ok := findCondition(u, "Available")
	switch {
	case !ok:
		return result(event.InProgress, "not checked yet")
	case c.status == "True":
		return result(event.Ready, "available")
	}
	return result(event.InProgress, joinText("not available", c.text()))
}

// stale reports whether the status was written for an older generation.
func stale(u *unstructured.Unstructured) (message string, ok bool) {
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if err != nil || !found || observed >= u.GetGeneration() {
		return "", false
	}
	return "its controller has not observed the change yet", true
}

// custom evaluates the expressions of the rule, failure first (R23).
func custom(u *unstructured.Unstructured, rule Rule) Result {
	if message, ok := stale(u); ok {
		return result(event.InProgress, message)
	}
	status, exists, _ := unstructured.NestedMap(u.Object, "status")
	var r Result
	if e, ok := r.anyHolds(rule.Failure, status); ok {
		r.Status, r.Message, r.FailureDeclared = event.Failed, fmt.Sprintf("readiness-failure %s is true (%s)", e, e.Actual(status)), true
		return r
	}
	if e, ok := r.anyHolds(rule.Success, status); ok {
		r.Status, r.Message = event.Ready, e.String()
		return r
	}
	r.Status, r.Message = event.InProgress, unmet(rule.Success, status, exists)
	return r
}

// unmet lists the unmet expressions with the actual values.
func unmet(list []Expression, status map[string]any, exists bool) string {
	var all []string
	for _, e := range list {
		all = append(all, fmt.Sprintf("%s (%s)", e, e.Actual(status)))
	}
	controller := ""
	if !exists {
		controller = "; no controller has written a status"
	}
	if e := list[0]; len(list) == 1 {
		return fmt.Sprintf("not ready: readiness-success %s is not met (%s%s)", e, e.Actual(status), controller)
	}
	return "not ready: no readiness-success expression is met: " + strings.Join(all, ", ") + controller
}

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

// hook applies Helm's rule for hooks (R5).
func hook(u *unstructured.Unstructured, now time.Time) Result {
	switch groupKind(u) {
	case "batch/Job":
		return job(u, true, now)
	case "Pod":
		return hookPod(u, now)
	}
	return result(event.Ready, "")
}

// hookPod handles a Pod that is a hook: it is ready when it has succeeded.
func hookPod(u *unstructured.Unstructured, now time.Time) Result {
	switch kstatus.GetStringField(u.Object, ".status.phase", "") {
	case "Succeeded":
		return result(event.Ready, "succeeded")
	case "Failed":
		return result(event.Failed, describePod(u))
	}
	if r, ok := unscheduled(u, now); ok {
		return r
	}
	if k, err := kstatus.Compute(u); err == nil && k.Status == kstatus.FailedStatus {
		return result(event.Failed, describePod(u))
	}
	return result(event.InProgress, describePod(u))
}

// unscheduled handles a Pod without a suitable node: it fails after 15 s, in case a node
// becomes available (R26). kstatus would read the clock for this.
func unscheduled(u *unstructured.Unstructured, now time.Time) (Result, bool) {
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

// job handles Jobs. For kstatus a started Job is Current, which R22 uses unless the Job must complete.
func job(u *unstructured.Unstructured, complete bool, now time.Time) Result {
	for _, t := range []string{"Failed", "FailureTarget"} { // FailureTarget comes earlier, before the pods are gone
		if c, ok := findCondition(u, t); ok && c.status == "True" {
			return result(event.Failed, joinText("failed", c.text()))
		}
	}
	if c, ok := findCondition(u, "Complete"); ok && c.status == "True" {
		return result(event.Ready, describeJob(u, now))
	}
	if !complete {
		r := byKstatus(u)
		r.Message, r.Trouble = describeJob(u, now), suspended(u)
		return r
	}
	r := result(event.InProgress, describeJob(u, now))
	r.Trouble = suspended(u) // there are no pods to give a sign of trouble
	if age, ok := jobAge(u, now); ok {
		r.Recheck = age.Truncate(jobTick) + jobTick - age
	}
	return r
}

// deleting describes why an object that is being deleted still exists.
func deleting(u *unstructured.Unstructured) string {
	if f := u.GetFinalizers(); len(f) > 0 {
		return "waiting for finalizers " + strings.Join(f, ", ")
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

// WhyTerminating returns why a terminating namespace still exists: its remaining objects and their
// finalizers, "" if unknown.
func WhyTerminating(u *unstructured.Unstructured) string {
	var why []string
	for _, t := range terminatingConditions {
		if c, ok := findCondition(u, t); ok && c.status == "True" && c.message != "" {
			why = append(why, c.message)
		}
	}
	return strings.Join(why, "; ")
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
