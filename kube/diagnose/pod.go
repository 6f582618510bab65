package diagnose

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube/status"
)

// Pod is what the inspector shows of a pod.
type Pod struct {
	Namespace, Name string
	// Phase is Kubernetes' own in lower case, or "terminating".
	Phase   string
	Node    string
	Created time.Time
	// Why says in one line what keeps the pod from being ready; it is empty if
	// nothing does.
	Why        string
	Containers []Container // init containers first

	uid     types.UID
	trouble trouble
	culprit string // the container that Why is about, or else the first one
	tries   int    // how often the culprit has failed
}

// Container is a container of a pod.
type Container struct {
	Name, Image string
	Init, Ready bool
	// State is waiting, running or terminated.
	State string
	// Reason and Message explain State.
	Reason, Message string
	// Ended means that the container has ended at least once; Exit and EndReason
	// say how it did so last.
	Ended     bool
	Exit      int
	EndReason string
	Restarts  int
}

// trouble ranks what can be wrong with a pod.
type trouble int

const (
	fine     trouble = iota // ready, or ended well
	young                   // still starting
	unready                 // running, but not ready
	unplaced                // cannot be scheduled
	unable                  // cannot start
	crashed                 // has failed
)

// String returns one line.
func (p Pod) String() string {
	switch {
	case p.Why != "":
		return "pod " + p.Name + ": " + p.Why
	case p.Phase == "running":
		return "pod " + p.Name + ": ready"
	}
	return "pod " + p.Name + ": " + p.Phase
}

// talks reports whether the pod's logs may say what is wrong.
func (p Pod) talks() bool { return p.trouble == crashed || p.trouble == unready }

func podOf(p *corev1.Pod) Pod {
	pod := Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Created: p.CreationTimestamp.Time,
		Phase: strings.ToLower(string(p.Status.Phase)), uid: p.UID}
	if len(p.Spec.Containers) > 0 {
		pod.culprit = p.Spec.Containers[0].Name
	}
	images := map[string]string{}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		images[c.Name] = c.Image
	}
	for _, s := range p.Status.InitContainerStatuses {
		pod.Containers = append(pod.Containers, containerOf(s, images[s.Name], true))
	}
	for _, s := range p.Status.ContainerStatuses {
		pod.Containers = append(pod.Containers, containerOf(s, images[s.Name], false))
	}
	pod.judge(p)
	return pod
}

func containerOf(s corev1.ContainerStatus, image string, init bool) Container {
	c := Container{Name: s.Name, Image: image, Init: init, Ready: s.Ready, Restarts: int(s.RestartCount)}
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
		c.Ended, c.Exit, c.EndReason = true, int(last.ExitCode), status.CleanText(last.Reason)
	}
	c.Reason, c.Message = status.CleanText(c.Reason), status.CleanText(c.Message)
	return c
}

// judge finds what keeps the pod from being ready.
func (p *Pod) judge(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		p.Phase, p.trouble, p.Why = "terminating", young, "is terminating"
		return
	}
	if pod.Status.Phase == corev1.PodSucceeded || isTrue(pod, corev1.PodReady) {
		return
	}
	for _, c := range p.Containers {
		if t, why := c.problem(); t > p.trouble {
			p.trouble, p.Why, p.culprit, p.tries = t, why, c.Name, c.tries()
		}
	}
	if p.trouble >= unable {
		return
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		p.trouble, p.Why = crashed, cmp.Or(colon(pod.Status.Reason, pod.Status.Message), "failed")
	case whyFalse(pod, corev1.PodScheduled) != "":
		p.trouble, p.Why = unplaced, "cannot be scheduled: "+whyFalse(pod, corev1.PodScheduled)
	case pod.Status.Phase == corev1.PodRunning:
		p.trouble, p.Why = unready, "is running but not ready"
	case p.Why == "":
		p.trouble, p.Why = young, "is being created"
	}
}

// problem returns what is wrong with a container, if anything.
func (c Container) problem() (trouble, string) {
	switch {
	case c.State == "waiting" && c.Reason == "CrashLoopBackOff",
		c.State == "terminated" && c.Exit != 0,
		c.State == "running" && !c.Ready && c.Restarts > 0 && c.Exit != 0:
		return crashed, c.ending()
	case c.State == "waiting" && isImage(c.Reason):
		return unable, strings.TrimSuffix(fmt.Sprintf("image %s cannot be pulled: %s", c.Image, cause(c.Message)), ": ")
	case c.State == "waiting" && c.Reason != "" && c.Reason != "ContainerCreating" && c.Reason != "PodInitializing":
		return unable, fmt.Sprintf("container %s cannot start: %s", c.Name, cmp.Or(c.Message, c.Reason))
	case c.Init && c.State == "running" && !c.Ready:
		return young, fmt.Sprintf("init container %s is running", c.Name)
	}
	return fine, ""
}

// tries is how often the container has failed.
func (c Container) tries() int {
	if c.State == "running" {
		return c.Restarts
	}
	return c.Restarts + 1
}

// ending says how the container ended last.
func (c Container) ending() string {
	text := "has ended"
	if c.Ended {
		text = fmt.Sprintf("exit code %d", c.Exit)
	}
	if c.EndReason == "OOMKilled" {
		text = "out of memory, " + text
	}
	return text
}

func isImage(reason string) bool {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable":
		return true
	}
	return false
}

// cause is the end of a chain of errors, which says the most: "not found". It
// is empty if the message only says that pulling will be tried again.
func cause(message string) string {
	last := message[strings.LastIndex(message, ": ")+1:]
	last = strings.TrimSpace(last)
	if strings.HasPrefix(last, "Back-off pulling image") {
		return ""
	}
	return last
}

// colon is "first: second", or whichever of the two is not empty.
func colon(first, second string) string {
	if first == "" || second == "" {
		return status.CleanText(first + second)
	}
	return status.CleanText(first + ": " + second)
}

func isTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// whyFalse returns the reason why a condition is false, "" if it is not.
func whyFalse(p *corev1.Pod, t corev1.PodConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == t && c.Status == corev1.ConditionFalse {
			return status.CleanText(cmp.Or(c.Message, c.Reason, "no reason given"))
		}
	}
	return ""
}
