package kubelet

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// initFails is a pod whose script is about an init container: that runs for a while and fails, or is done. It
// reports whether the pod is not past it.
func (p *pass) initFails() bool {
	at := slices.IndexFunc(p.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == p.script.container && !isSidecar(c) })
	if at < 0 || p.script.exitCode == 0 || p.wasUp() {
		return false
	}
	c := p.pod.Spec.InitContainers[at]
	old, _ := containerStatus(p.pod, c.Name)
	attempt, due := p.attempt(old)
	if !due {
		return true
	}
	begins := old.State.Running == nil
	if begins {
		p.past.begin, p.past.end = p.now, time.Time{}
		p.sayStarted(c, attempt)
	}
	_, code := p.script.exits(corev1.RestartPolicyOnFailure, p.tries(p.pod.Spec.RestartPolicy, attempt))
	left := p.script.runDuration - p.now.Sub(p.past.begin)
	if left <= 0 && code == 0 && !begins {
		p.past = history{start: p.past.start, warned: p.past.warned}
		return false
	}
	p.wait(false, creating)
	st := &p.status.InitContainerStatuses[at]
	*st = p.runs(c, attempt, old.LastTerminationState, false)
	for i := range at {
		p.status.InitContainerStatuses[i] = p.initStatus(p.pod.Spec.InitContainers[i], p.past.begin)
	}
	switch {
	case left > 0 || begins:
		p.lookIn(left)
	case p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		p.past.end = p.now
		st.State = corev1.ContainerState{Terminated: p.terminated(st, code)}
		p.finish(code)
	default:
		p.past.end = p.now
		p.backOff(st, attempt, code)
		p.lookIn(restartDelay(attempt))
	}
	return true
}
