package status

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// jobTick is how often the message of a running Job changes because of its age.
const jobTick = 10 * time.Second

// describe summarises the progress of an object: for known kinds in kubectl's terms, for others with a condition, or else
// with kstatus' message.
func describe(u *unstructured.Unstructured, status event.Status, k *kstatus.Result) string {
	switch groupKind(u) {
	case "apps/Deployment":
		return describeDeployment(u)
	case "apps/ReplicaSet":
		return podCounts(u).String() + creationFailure(u)
	case "apps/StatefulSet":
		return podCounts(u).String()
	case "apps/DaemonSet":
		return describeDaemonSet(u)
	case "Pod":
		return describePod(u)
	case "PersistentVolumeClaim":
		return describeClaim(u)
	case "Service":
		return describeService(u)
	case "apiextensions.k8s.io/CustomResourceDefinition":
		return describeCRD(status, k)
	}
	if status == event.Ready {
		return ""
	}
	for _, t := range []string{"Stalled", "Reconciling", "Ready"} {
		if c, ok := findCondition(u, t); ok && (t == "Ready") == (c.status != "True") {
			if text := c.text(); text != "" {
				return text
			}
			return joinText("not ready", t+" is "+c.status)
		}
	}
	return k.Message
}

func describeDeployment(u *unstructured.Unstructured) string {
	state := podCounts(u).String()
	if deadlineExceeded(u) {
		state += " · progress deadline exceeded"
	}
	return state + creationFailure(u)
}

// deadlineExceeded reports whether a Deployment has exceeded its progress deadline, which is at least a second, since its spec was
// written last. The controller keeps the condition of an earlier rollout until the new one progresses, for instance after a
// rollback.
func deadlineExceeded(u *unstructured.Unstructured) bool {
	c, ok := deadlineCondition(u)
	if !ok {
		return false
	}
	since, err := time.Parse(time.RFC3339, c.updated)
	return err != nil || !slices.ContainsFunc(u.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Subresource == "" && m.Time != nil && !m.Time.Time.Before(since) && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
	})
}

// deadlineCondition returns the condition of a Deployment that says that it has exceeded a progress deadline.
func deadlineCondition(u *unstructured.Unstructured) (condition, bool) {
	c, ok := findCondition(u, "Progressing")
	return c, ok && u.GetKind() == "Deployment" && c.reason == "ProgressDeadlineExceeded"
}

// creationFailure says why pods cannot be created, for example because of a quota or an admission webhook.
func creationFailure(u *unstructured.Unstructured) string {
	if c, ok := findCondition(u, "ReplicaFailure"); ok && c.status == "True" {
		return " · " + c.text()
	}
	return ""
}

// podCounts counts the pods of a workload by its status, which includes old pods.
func podCounts(u *unstructured.Unstructured) event.Progress {
	want := kstatus.GetIntField(u.Object, ".spec.replicas", 1)
	count := func(field string) int { return kstatus.GetIntField(u.Object, ".status."+field, 0) }
	upTo := func(field, word string) event.Progress {
		return event.Progress{Done: min(count(field), want), Wanted: want, Word: word}
	}
	switch groupKind(u) {
	case "apps/Deployment":
		if updated := count("updatedReplicas"); updated < want {
			return event.Progress{Done: updated, Wanted: want, Word: "updated"}
		}
		p := upTo("availableReplicas", "available")
		p.Old = max(count("replicas")-want, 0)
		return p
	case "apps/ReplicaSet":
		return upTo("availableReplicas", "available")
	case "apps/StatefulSet":
		p := upTo("readyReplicas", "ready")
		if updated, found, _ := unstructured.NestedInt64(u.Object, "status", "updatedReplicas"); found {
			p.Outdated = max(want-int(updated), 0)
		}
		return p
	case "ReplicationController":
		return upTo("readyReplicas", "ready")
	case "apps/DaemonSet":
		if want = kstatus.GetIntField(u.Object, ".status.desiredNumberScheduled", -1); want >= 0 {
			return event.Progress{Done: count("numberReady"), Wanted: want, Word: "ready", Outdated: max(want-count("updatedNumberScheduled"), 0)}
		}
	}
	return event.Progress{}
}

func describeDaemonSet(u *unstructured.Unstructured) string {
	return cmp.Or(podCounts(u).String(), notObserved)
}

func describeClaim(u *unstructured.Unstructured) string {
	phase := strings.ToLower(kstatus.GetStringField(u.Object, ".status.phase", "pending"))
	if class := kstatus.GetStringField(u.Object, ".spec.storageClassName", ""); class != "" && phase == "pending" {
		return phase + ": no volume of class " + class + " yet"
	}
	return phase
}

func describeService(u *unstructured.Unstructured) string {
	if kstatus.GetStringField(u.Object, ".spec.type", "") != "LoadBalancer" {
		return ""
	}
	if list := addresses(u); len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return "no address yet"
}

// addresses returns the addresses of a Service or an Ingress.
func addresses(u *unstructured.Unstructured) (addresses []string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "loadBalancer", "ingress")
	for _, item := range list {
		m, _ := item.(map[string]any)
		for _, key := range []string{"ip", "hostname"} {
			if s, _ := m[key].(string); s != "" {
				addresses = append(addresses, s)
			}
		}
	}
	return addresses
}

func describeCRD(status event.Status, k *kstatus.Result) string {
	switch status {
	case event.Ready:
		return "established"
	case event.InProgress:
		return "not established yet"
	}
	return k.Message
}

func suspended(u *unstructured.Unstructured) bool {
	yes, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return yes
}

func describeJob(u *unstructured.Unstructured, now time.Time) string {
	parallel := kstatus.GetIntField(u.Object, ".spec.parallelism", 1)
	want := kstatus.GetIntField(u.Object, ".spec.completions", parallel)
	text := fmt.Sprintf("%d of %d complete", kstatus.GetIntField(u.Object, ".status.succeeded", 0), want)
	if c, ok := findCondition(u, "Complete"); ok && c.status == "True" {
		return text
	}
	if suspended(u) {
		return "suspended · " + text
	}
	age, started := jobAge(u, now)
	switch {
	case !started:
		return "not started yet"
	case age >= jobTick:
		text = "running " + formatDuration(age.Truncate(jobTick)) + " · " + text
	default:
		text = "running · " + text
	}
	switch n := kstatus.GetIntField(u.Object, ".status.failed", 0); n {
	case 0:
		return text
	case 1:
		return text + " · 1 pod failed"
	default:
		return text + fmt.Sprintf(" · %d pods failed", n)
	}
}

// jobAge returns the time since the Job started, never negative.
func jobAge(u *unstructured.Unstructured, now time.Time) (time.Duration, bool) {
	start, err := time.Parse(time.RFC3339, kstatus.GetStringField(u.Object, ".status.startTime", ""))
	if err != nil {
		return 0, false
	}
	return max(0, now.Sub(start)), true
}

// formatDuration returns whole seconds: "40 s", "2 min", "2 min 10 s".
func formatDuration(d time.Duration) string {
	m, s := int(d/time.Minute), int(d%time.Minute/time.Second)
	switch {
	case m == 0:
		return fmt.Sprintf("%d s", s)
	case s == 0:
		return fmt.Sprintf("%d min", m)
	}
	return fmt.Sprintf("%d min %d s", m, s)
}

// joinText returns "what: why", or the one that is not empty.
func joinText(what, why string) string {
	switch {
	case why == "":
		return what
	case what == "":
		return why
	}
	return what + ": " + why
}

// condition is an entry of .status.conditions.
type condition struct{ status, reason, message, updated, changed string }

func (c condition) text() string { return joinText(c.reason, c.message) }

// findCondition returns the condition of a type. It ignores malformed ones.
func findCondition(u *unstructured.Unstructured, kind string) (condition, bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := v.([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["type"] == kind {
			text := func(key string) string { s, _ := m[key].(string); return s }
			return condition{status: text("status"), reason: text("reason"), message: text("message"), updated: text("lastUpdateTime"), changed: text("lastTransitionTime")}, true
		}
	}
	return condition{}, false
}

// describeHookPod is describePod for the Pod of a hook, which must complete: whether it is ready does not matter.
func describeHookPod(u *unstructured.Unstructured) string {
	message := describePod(u)
	switch {
	case message != podReady && message != podNotReady:
		return message
	case kstatus.GetStringField(u.Object, ".spec.restartPolicy", "Always") == "Always":
		return "still running: a hook's Pod must complete, but its restartPolicy is Always"
	}
	return "still running"
}

// The messages of a running Pod whose containers have no problem.
const podReady, podNotReady = "ready", "running but not ready"

// describePod returns a Pod's phase and the first problem of its containers.
func describePod(u *unstructured.Unstructured) string {
	phase := strings.ToLower(kstatus.GetStringField(u.Object, ".status.phase", "not picked up by a node yet"))
	why := ""
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		if why == "" {
			why = describeContainers(u, field)
		}
	}
	ready, _ := findCondition(u, "Ready")
	switch {
	case why != "" && phase == "failed":
		return why
	case why != "":
		return joinText(phase, why)
	case phase == "running" && ready.status == "True":
		return podReady
	case phase == "running":
		return podNotReady
	case phase == "failed":
		return cmp.Or(joinText(
			kstatus.GetStringField(u.Object, ".status.reason", ""),
			kstatus.GetStringField(u.Object, ".status.message", "")), phase)
	}
	return phase
}

// describeContainers returns the problem of the first container that failed or cannot start, or "".
func describeContainers(u *unstructured.Unstructured, field string) string {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", field)
	list, _ := v.([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		text := func(path ...string) string { s, _, _ := unstructured.NestedString(c, path...); return s }
		switch reason := text("state", "waiting", "reason"); reason {
		case "", "ContainerCreating", "PodInitializing":
		default:
			return joinText(reason, text("state", "waiting", "message"))
		}
		code, found, _ := unstructured.NestedInt64(c, "state", "terminated", "exitCode")
		if found && code != 0 {
			return fmt.Sprintf("%s exited with code %d", text("name"), code)
		}
	}
	return ""
}

// maxText is the maximum length of CleanText, in runes. The longest useful messages of the API server fit, such as those of
// PodSecurity about several containers.
const maxText = 1000

// NoKind says that the cluster does not serve a kind.
func NoKind(k schema.GroupKind) string {
	if k.Group == "" {
		return "the cluster has no kind " + k.Kind
	}
	return "the cluster has no kind " + k.Kind + " in API group " + k.Group
}

// CleanText turns text from the cluster into one line that is safe to print on a terminal (text.Line). It collapses
// white space, and replaces the middle of long text with "…": the start names the subject, the end the reason.
func CleanText(s string) string {
	s = strings.Join(strings.Fields(text.Line(s)), " ")
	if utf8.RuneCountInString(s) <= maxText {
		return s
	}
	runes := []rune(s)
	const head = maxText * 2 / 3
	return strings.TrimRight(string(runes[:head]), " ") + "…" + string(runes[len(runes)-(maxText-head-1):])
}
