package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"

	"lockstep/engine/text"
	"lockstep/kube/status"
)

// Pod is a pod as the inspector shows it.
type Pod struct {
	Namespace, Name string
	// Phase is the Kubernetes phase in lower case, or terminating.
	Phase   string
	Node    string
	Created time.Time
	// Why says in one line why the pod is not ready; it is "" for a ready or completed pod.
	Why        string
	Containers []Container // init containers first

	source      *corev1.Pod
	severity    severity
	culprit     string // the container that Why is about; by default the first one
	claims      []string
	statusLines []string // its problem according to its status
}

// Container is a container of a pod.
type Container struct {
	Name, Image string
	// Init is true for init containers, Sidecar for those that keep running.
	Init, Sidecar, Ready bool
	// Limit is the memory limit, or "".
	Limit string
	// State is waiting, running or terminated.
	State string
	// Reason and Message explain State.
	Reason, Message string
	// Ended means that the container has exited at least once; Exit (its exit code), EndReason and EndMessage (its
	// termination message) describe the last time.
	Ended                 bool
	Exit                  int
	EndReason, EndMessage string
	Restarts              int
}

// severity ranks the problems of a pod.
type severity int

const (
	healthy  severity = iota // ready, or completed
	starting                 // or terminating
	unready                  // running, but not ready
	unschedulable
	cannotStart
	crashed // failed, evicted, or terminated externally
)

func (p Pod) uid() types.UID {
	if p.source == nil {
		return ""
	}
	return p.source.UID
}

// String describes the pod in one line.
func (p Pod) String() string {
	switch {
	case p.Why != "":
		return "pod " + p.Name + ": " + p.Why
	case p.Phase == "running":
		return "pod " + p.Name + ": ready"
	}
	return "pod " + p.Name + ": " + p.Phase
}

// Count counts the ready containers, all containers, and the restarts. Init containers count only for restarts, unless
// they are sidecars.
func (p Pod) Count() (ready, total, restarts int) {
	for _, c := range p.Containers {
		restarts += c.Restarts
		if c.Init && !c.Sidecar {
			continue
		}
		total++
		if c.Ready {
			ready++
		}
	}
	return ready, total, restarts
}

func (p Pod) container(name string) Container {
	if i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.Name == name }); i >= 0 {
		return p.Containers[i]
	}
	return Container{Name: name}
}

// logsMayHelp reports whether the logs may explain the pod's problem.
func (p Pod) logsMayHelp() bool { return p.severity == crashed || p.severity == unready }

func newPod(p *corev1.Pod) Pod {
	pod := Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Created: p.CreationTimestamp.Time,
		Phase: strings.ToLower(string(p.Status.Phase)), source: p, claims: claimNames(p)}
	if len(p.Spec.Containers) > 0 {
		pod.culprit = p.Spec.Containers[0].Name
	}
	specs := map[string]corev1.Container{}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		specs[c.Name] = c
	}
	shared := p.Spec.Resources // of all containers together
	for name, c := range specs {
		if _, limited := c.Resources.Limits[corev1.ResourceMemory]; !limited && shared != nil {
			c.Resources.Limits = shared.Limits
			specs[name] = c
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		pod.Containers = append(pod.Containers, newContainer(s, specs[s.Name], true))
	}
	for _, s := range p.Status.ContainerStatuses {
		pod.Containers = append(pod.Containers, newContainer(s, specs[s.Name], false))
	}
	pod.assess(p)
	pod.statusLines = statusLines(p, pod)
	return pod
}

// statusLines describes the problem of a pod according to its status: the state of its culprit, and false conditions
// that say more than that.
func statusLines(pod *corev1.Pod, p Pod) (lines []string) {
	if p.severity <= starting {
		return nil
	}
	if pod.Status.Reason != "" {
		lines = append(lines, "the pod failed: "+joinColon(pod.Status.Reason, pod.Status.Message))
	}
	c := p.container(p.culprit)
	switch {
	case c.State == "waiting" && c.Message != "":
		lines = append(lines, c.title()+" is waiting: "+joinColon(c.Reason, c.Message))
	case c.Ended && c.Exit != 0:
		lines = append(lines, c.title()+" "+c.exitWithReason())
	}
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		if why, reason := whyFalse(pod, t); why != "" && reason != "PodFailed" && reason != "ContainersNotReady" { // other lines say those
			lines = append(lines, fmt.Sprintf("%s is False: %s", t, why))
		}
	}
	return lines
}

func newContainer(s corev1.ContainerStatus, spec corev1.Container, init bool) Container {
	c := Container{Name: s.Name, Image: spec.Image, Init: init, Ready: s.Ready, Restarts: int(s.RestartCount)}
	c.Sidecar = init && spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
	if limit, ok := spec.Resources.Limits[corev1.ResourceMemory]; ok {
		c.Limit = limit.String()
	}
	last := s.LastTerminationState.Terminated
	switch {
	case s.State.Waiting != nil:
		c.State, c.Reason, c.Message = "waiting", s.State.Waiting.Reason, s.State.Waiting.Message
	case s.State.Running != nil:
		c.State = "running"
	case s.State.Terminated != nil:
		last = s.State.Terminated
		c.State, c.Reason, c.Message = "terminated", last.Reason, last.Message
	}
	if last != nil {
		c.Ended, c.Exit, c.EndReason, c.EndMessage = true, int(last.ExitCode), status.CleanText(last.Reason), status.CleanText(last.Message)
	}
	c.Reason, c.Message = status.CleanText(c.Reason), status.CleanText(c.Message)
	return c
}

// assess finds the problem that keeps the pod from being ready.
func (p *Pod) assess(pod *corev1.Pod) {
	deleting := pod.DeletionTimestamp != nil
	if pod.Status.Phase == corev1.PodSucceeded || podutils.IsPodReady(pod) && !deleting {
		return
	}
	if why := terminationCause(pod); why != "" && !deleting {
		p.severity, p.Why = crashed, why
		return
	}
	for _, c := range p.Containers {
		if s, why := c.problem(); s > p.severity && (!deleting || failedBeforeDeletion(pod, c)) {
			p.severity, p.Why, p.culprit = s, why, c.Name
		}
	}
	unscheduled, _ := whyFalse(pod, corev1.PodScheduled)
	switch {
	case deleting && p.severity < crashed:
		p.Phase, p.severity, p.Why = terminating, starting, "is terminating"
	case p.severity >= cannotStart:
	case pod.Status.Phase == corev1.PodFailed:
		p.severity, p.Why = crashed, cmp.Or(joinColon(pod.Status.Reason, pod.Status.Message), "failed")
	case len(pod.Spec.SchedulingGates) > 0:
		p.severity, p.Why = unschedulable, "cannot be scheduled: scheduling gate not removed: "+pod.Spec.SchedulingGates[0].Name
	case unscheduled != "":
		p.severity, p.Why = unschedulable, "cannot be scheduled: "+schedulingCause(unscheduled)
	case pod.Status.Phase == corev1.PodRunning:
		p.assessUnready(pod)
	case p.Why == "" && pod.Spec.NodeName == "" && pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName:
		p.severity, p.Why = starting, "has no node: scheduler "+pod.Spec.SchedulerName+" has not assigned one"
	case p.Why == "":
		p.severity, p.Why = starting, "being created"
	}
}

// failedBeforeDeletion reports whether a container of a Job's pod failed before the pod was deleted, because a failed
// Job removes its pods. Exit codes 143 (SIGTERM) and 137 (SIGKILL) come from the deletion.
func failedBeforeDeletion(pod *corev1.Pod, c Container) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "Job" && c.Ended && c.Exit != 143 && (c.Exit != 137 || c.EndReason == "OOMKilled")
}

// terminationCause returns why a pod was evicted or terminated externally, or "".
func terminationCause(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodFailed {
		return ""
	}
	if pod.Status.Reason == "Evicted" {
		return status.CleanText("the pod was evicted: " + pod.Status.Message)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return status.CleanText("the pod was terminated: " + joinColon(c.Reason, c.Message))
		}
	}
	if pod.Status.Reason != "" {
		return joinColon(pod.Status.Reason, pod.Status.Message)
	}
	return ""
}

// terminating is the phase of a pod that is being deleted.
const terminating = "terminating"

const unreadyText = "is running but not ready"

// assessUnready finds the problem of a running pod: a container is not ready, or a readiness gate is false.
func (p *Pod) assessUnready(pod *corev1.Pod) {
	p.severity = unready
	for _, c := range p.Containers {
		if c.State == "running" && !c.Ready && (!c.Init || c.Sidecar) {
			p.Why, p.culprit = c.title()+" "+unreadyText, c.Name
			return
		}
	}
	p.Why = unreadyText
	if why, reason := whyFalse(pod, corev1.PodReady); reason == "ReadinessGatesNotReady" {
		p.Why = "running but not ready: " + why
	}
}

// joinColon returns "first: second", or the one that is not empty.
func joinColon(first, second string) string {
	return status.CleanText(text.Join(": ", first, second))
}

// whyFalse returns why a condition is False, in words and as a code; both are "" if it is not.
func whyFalse(p *corev1.Pod, t corev1.PodConditionType) (why, reason string) {
	for _, c := range p.Status.Conditions {
		if c.Type == t && c.Status == corev1.ConditionFalse {
			return status.CleanText(cmp.Or(c.Message, c.Reason, "no reason given")), c.Reason
		}
	}
	return "", ""
}

// podNodeCause checks the node of a pod whose status shows no problem: the kubelet has not started it, or it is not
// ready although its containers are. It finds nothing without permission to read nodes.
func (d *Diagnoser) podNodeCause(ctx context.Context, p Pod) finding {
	notStarted := p.severity == starting && p.Phase == "pending" && len(p.Containers) == 0
	if p.Node == "" || !notStarted && !p.notReadyDespiteContainers() {
		return finding{}
	}
	n, err := d.kube.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return finding{}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			why := condition{kind: string(c.Type), status: string(c.Status), reason: c.Reason, message: c.Message}
			return finding{cause: "node " + n.Name + " is not ready: " + joinColon(c.Reason, c.Message), evidence: []string{"node " + n.Name + ": " + why.String()}}
		}
	}
	return finding{}
}

// notReadyDespiteContainers reports whether a pod is not ready although its containers are.
func (p Pod) notReadyDespiteContainers() bool {
	for _, c := range p.Containers {
		if !c.Ready && (!c.Init || c.Sidecar) {
			return false
		}
	}
	return p.severity == unready && p.Why == unreadyText
}

// PodCause says why a pod is not ready.
type PodCause struct {
	Why string // "" if it is ready or has completed
	// Severity ranks causes, the worst has the highest. Stuck means that waiting will not help.
	Severity int
	Stuck    bool
	Created  time.Time
	Since    time.Time // when it was created, or was ready last
}

// CauseOfPod returns why a pod is not ready as far as the pod itself says it.
func CauseOfPod(p *corev1.Pod) PodCause {
	pod := newPod(p)
	since := pod.Created
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return PodCause{Why: pod.Why, Severity: int(pod.severity), Stuck: pod.severity >= unschedulable, Created: pod.Created, Since: since}
}
