package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endAttempt ends an attempt of the scripted containers, permanently or until the next restart.
func (p *pass) endAttempt(attempt, code int) {
	p.past.end, p.past.reported = p.now, time.Time{}
	st := p.status
	policy := p.pod.Spec.RestartPolicy
	again := policy == corev1.RestartPolicyAlways || code != 0 && policy != corev1.RestartPolicyNever
	for i := range st.InitContainerStatuses {
		if c := &st.InitContainerStatuses[i]; c.Name == p.script.container {
			again = true // a sidecar
			p.backOff(c, attempt, code)
		}
	}
	for i := range st.ContainerStatuses {
		switch c := &st.ContainerStatuses[i]; {
		case again && p.script.appliesTo(c.Name):
			p.backOff(c, attempt, code)
		case !again:
			c.State = corev1.ContainerState{Terminated: p.terminated(c, code)}
			c.Ready, c.Started = false, new(bool)
		}
	}
	if again {
		p.setCondition(corev1.ContainersReady, false, "ContainersNotReady", p.unreadyMessage())
		p.setCondition(corev1.PodReady, false, "ContainersNotReady", p.unreadyMessage())
		p.recheckIn(restartDelay(attempt))
		return
	}
	p.finish(code)
}

// terminated returns the terminated state of a container: with code if the script applies to it, otherwise with 0.
func (p *pass) terminated(c *corev1.ContainerStatus, code int) *corev1.ContainerStateTerminated {
	if !p.script.appliesTo(c.Name) {
		code = 0
	}
	term := &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed", ContainerID: c.ContainerID, FinishedAt: metav1.NewTime(p.now)}
	switch {
	case code != 0 && p.script.fail == failOOM:
		term.Reason = "OOMKilled"
	case code != 0:
		term.Reason = "Error"
	}
	if c.Name == p.process && p.exit != nil {
		term.Reason, term.Message, term.FinishedAt = p.exit.Reason, p.exit.Message, metav1.NewTime(p.exit.At)
	}
	if c.State.Running != nil {
		term.StartedAt = c.State.Running.StartedAt
	}
	return term
}

// backOff ends a container until its next restart.
func (p *pass) backOff(c *corev1.ContainerStatus, attempt, code int) {
	switch p.script.fail {
	case failLiveness:
		p.addEvent(event{c.Name, true, "Unhealthy", "Liveness probe failed: " + p.script.messageOr("HTTP probe failed with statuscode: 500")})
		p.addEvent(event{c.Name, false, "Killing", fmt.Sprintf("Container %s failed liveness probe, will be restarted", c.Name)})
	case failStartup:
		p.addEvent(event{c.Name, true, "Unhealthy", "Startup probe failed: " + p.script.messageOr("dial tcp 10.244.0.7:8080: connect: connection refused")})
		p.addEvent(event{c.Name, false, "Killing", fmt.Sprintf("Container %s failed startup probe, will be restarted", c.Name)})
	}
	name := fmt.Sprintf("%s_%s(%s)", p.pod.Name, p.pod.Namespace, p.pod.UID)
	c.Ready, c.Started = false, new(bool)
	c.LastTerminationState = corev1.ContainerState{Terminated: p.terminated(c, code)}
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", restartDelay(attempt), c.Name, name)}}
	p.addEvent(event{c.Name, true, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, name)})
}

// finish sets the final phase of a pod whose containers have all terminated.
func (p *pass) finish(code int) {
	st := p.status
	for i := range st.InitContainerStatuses { // sidecars run until the pod ends
		if c := &st.InitContainerStatuses[i]; c.State.Running != nil {
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
				StartedAt: c.State.Running.StartedAt, FinishedAt: metav1.NewTime(p.now), ContainerID: c.ContainerID}}
			c.Ready = false
		}
	}
	st.Phase = corev1.PodSucceeded
	reason := "PodCompleted"
	if code != 0 {
		st.Phase, reason = corev1.PodFailed, "PodFailed"
	}
	p.setCondition(corev1.ContainersReady, false, reason, "")
	p.setCondition(corev1.PodReady, false, reason, "")
}
