package kubelet

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const hostIP = "127.0.0.1"

// creating is the state of a container that nothing is wrong with.
func creating(corev1.Container) corev1.ContainerStateWaiting {
	return corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

func waitingReasons(st *corev1.PodStatus) map[string]string {
	m := map[string]string{}
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for _, c := range list {
			if c.State.Waiting != nil {
				m[c.Name] = c.State.Waiting.Reason
			}
		}
	}
	return m
}

// wait makes the pod Pending. why tells what each container waits for; where there are init containers and
// they are not done, the others wait for them.
func (p *pass) wait(initDone bool, why func(corev1.Container) corev1.ContainerStateWaiting) {
	st := p.status
	initDone = initDone || len(p.pod.Spec.InitContainers) == 0
	st.Phase = corev1.PodPending
	st.InitContainerStatuses, st.ContainerStatuses = nil, nil
	waiting := func(c corev1.Container, w corev1.ContainerStateWaiting) corev1.ContainerStatus {
		no := false
		return corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: &no, State: corev1.ContainerState{Waiting: &w}}
	}
	for _, c := range p.pod.Spec.InitContainers {
		if initDone {
			st.InitContainerStatuses = append(st.InitContainerStatuses, p.initStatus(c, st.StartTime.Time))
			continue
		}
		w := why(c)
		if w == creating(c) {
			w.Reason = "PodInitializing"
		}
		st.InitContainerStatuses = append(st.InitContainerStatuses, waiting(c, w))
	}
	for _, c := range p.pod.Spec.Containers {
		w := corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		if initDone {
			w = why(c)
		}
		st.ContainerStatuses = append(st.ContainerStatuses, waiting(c, w))
	}
	p.condition(corev1.PodReadyToStartContainers, true, "", "")
	p.condition(corev1.PodInitialized, initDone, "ContainersNotInitialized", "")
	p.condition(corev1.PodReady, false, "ContainersNotReady", p.unreadyMessage())
	p.condition(corev1.ContainersReady, false, "ContainersNotReady", p.unreadyMessage())
}

// up is a pod whose containers can run: they start, become ready, end, and start again.
func (p *pass) up() {
	old := corev1.ContainerStatus{}
	if st := p.pod.Status.ContainerStatuses; len(st) > 0 {
		old = st[0] // the containers of a pod all do the same
	}
	attempt, running := int(old.RestartCount), old.State.Running
	if t := old.LastTerminationState.Terminated; t != nil && running == nil {
		ended := t.FinishedAt.Time
		if !p.past.end.IsZero() {
			ended = p.past.end
		}
		if left := restartDelay(attempt) - p.now.Sub(ended); left > 0 {
			p.lookIn(left)
			return
		}
		attempt++
	}
	if running == nil {
		p.begin(attempt)
	} else if p.past.begin.IsZero() {
		p.past.begin = running.StartedAt.Time
	}
	ran := p.now.Sub(p.past.begin)
	tries := attempt
	if p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		tries = p.failed
	}
	if ends, code := p.script.exits(p.pod.Spec.RestartPolicy, tries); ends {
		if ran >= p.script.runDuration && running != nil {
			p.end(attempt, code)
			return
		}
		p.lookIn(p.script.runDuration - ran)
	}
	p.running(attempt, old.LastTerminationState, p.ready(ran))
}

// restartDelay is the back-off before the restart that follows an attempt.
func restartDelay(attempt int) time.Duration {
	return min(time.Second<<min(attempt, 30), maxRestart)
}

// begin starts an attempt of the containers.
func (p *pass) begin(attempt int) {
	p.past.begin, p.past.end, p.past.said = p.now, time.Time{}, time.Time{}
	if p.status.PodIP == "" {
		p.status.PodIP = p.newIP()
		p.status.PodIPs = []corev1.PodIP{{IP: p.status.PodIP}}
	}
	if attempt == 0 {
		for _, c := range p.pod.Spec.InitContainers {
			p.sayStarted(c, attempt)
		}
	}
	for _, c := range p.pod.Spec.Containers {
		p.sayStarted(c, attempt)
	}
}

// ready tells whether containers that ran so long are ready, and reports a probe that keeps failing.
func (p *pass) ready(ran time.Duration) bool {
	unready := ran // for how long
	switch s := p.script; {
	case s.fail == failNeverReady:
	case ran < s.readyDelay:
		p.lookIn(s.readyDelay - ran)
	case s.unreadyAfter > 0 && ran >= s.unreadyAfter:
		unready = ran - s.unreadyAfter
	case s.unreadyAfter > 0:
		p.lookIn(s.unreadyAfter - ran)
		return true
	default:
		return true
	}
	if unready < lasts {
		p.lookIn(lasts - unready)
		return false
	}
	for _, c := range p.pod.Spec.Containers {
		period := probePeriod
		if c.ReadinessProbe != nil && c.ReadinessProbe.PeriodSeconds > 0 {
			period = time.Duration(c.ReadinessProbe.PeriodSeconds) * time.Second
		}
		p.sayAgain(period, event{c.Name, true, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"})
	}
	return false
}

// running writes the status of running containers.
func (p *pass) running(attempt int, last corev1.ContainerState, ready bool) {
	st, begin := p.status, metav1.NewTime(p.past.begin)
	if r := p.pod.Status.ContainerStatuses; len(r) > 0 && r[0].State.Running != nil {
		begin = r[0].State.Running.StartedAt
	}
	st.Phase = corev1.PodRunning
	st.InitContainerStatuses, st.ContainerStatuses = nil, nil
	for _, c := range p.pod.Spec.InitContainers {
		st.InitContainerStatuses = append(st.InitContainerStatuses, p.initStatus(c, begin.Time))
	}
	yes := true
	for _, c := range p.pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: imageID(c), ContainerID: p.containerID(c, attempt),
			Ready: ready, Started: &yes, RestartCount: int32(attempt), LastTerminationState: last,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begin}},
		})
	}
	p.condition(corev1.PodReadyToStartContainers, true, "", "")
	p.condition(corev1.PodInitialized, true, "", "")
	p.condition(corev1.ContainersReady, ready, "ContainersNotReady", p.unreadyMessage())
	if gate := p.closedGate(); ready && gate != "" {
		p.condition(corev1.PodReady, false, "ReadinessGatesNotReady", fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate))
		return
	}
	p.condition(corev1.PodReady, ready, "ContainersNotReady", p.unreadyMessage())
}

// closedGate returns the first readiness gate that is not met.
func (p *pass) closedGate() string {
	for _, g := range p.pod.Spec.ReadinessGates {
		met := false
		for _, c := range p.status.Conditions {
			met = met || c.Type == g.ConditionType && c.Status == corev1.ConditionTrue
		}
		if !met {
			return string(g.ConditionType)
		}
	}
	return ""
}

// initStatus is the status of an init container once the others run: a sidecar runs, the rest is done.
func (p *pass) initStatus(c corev1.Container, begin time.Time) corev1.ContainerStatus {
	for _, old := range p.pod.Status.InitContainerStatuses {
		if old.Name == c.Name && (old.State.Terminated != nil || old.State.Running != nil) {
			return old
		}
	}
	side := isSidecar(c)
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: imageID(c), ContainerID: p.containerID(c, 0), Ready: true, Started: &side}
	if side {
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}
	} else {
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: *p.status.StartTime,
			FinishedAt: metav1.NewTime(begin), ContainerID: s.ContainerID}
	}
	return s
}

func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// end ends an attempt: for good, or until the next restart.
func (p *pass) end(attempt, code int) {
	p.past.end, p.past.said = p.now, time.Time{}
	st := p.status
	again := code != 0 && p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	for i := range st.ContainerStatuses {
		c := &st.ContainerStatuses[i]
		term := &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, ContainerID: c.ContainerID, FinishedAt: metav1.NewTime(p.now)}
		if c.State.Running != nil {
			term.StartedAt = c.State.Running.StartedAt
		}
		no := false
		c.Ready, c.Started = false, &no
		if !again {
			c.State = corev1.ContainerState{Terminated: term}
			continue
		}
		name := fmt.Sprintf("%s_%s(%s)", p.pod.Name, p.pod.Namespace, p.pod.UID)
		c.LastTerminationState = corev1.ContainerState{Terminated: term}
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", restartDelay(attempt), c.Name, name)}}
		p.say(event{c.Name, true, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, name)})
	}
	if again {
		p.condition(corev1.ContainersReady, false, "ContainersNotReady", p.unreadyMessage())
		p.condition(corev1.PodReady, false, "ContainersNotReady", p.unreadyMessage())
		p.lookIn(restartDelay(attempt))
		return
	}
	p.finish(code)
}

// finish gives the pod, all of whose containers have ended, its last phase.
func (p *pass) finish(code int) {
	st := p.status
	for i := range st.InitContainerStatuses { // sidecars end with the pod
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
	p.condition(corev1.ContainersReady, false, reason, "")
	p.condition(corev1.PodReady, false, reason, "")
}

func (p *pass) unreadyMessage() string {
	var names []string
	for _, c := range p.pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return fmt.Sprintf("containers with unready status: [%s]", strings.Join(names, " "))
}

// condition sets a condition; reason and message tell why it is not met.
func (p *pass) condition(t corev1.PodConditionType, met bool, reason, message string) {
	want := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.now), ObservedGeneration: p.pod.Generation}
	if !met {
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, reason, message
	}
	for i := range p.status.Conditions {
		if c := &p.status.Conditions[i]; c.Type == t {
			if c.Status == want.Status {
				want.LastTransitionTime = c.LastTransitionTime
			}
			*c = want
			return
		}
	}
	p.status.Conditions = append(p.status.Conditions, want)
}

func imageID(c corev1.Container) string { return "sandbox://" + c.Image }

func (p *pass) containerID(c corev1.Container, attempt int) string {
	return fmt.Sprintf("sandbox://%s-%s-%d", p.pod.UID, c.Name, attempt)
}

// kill ends whatever runs in a pod that is being deleted, as SIGTERM would.
func (p *pass) kill() {
	p.status = p.pod.Status.DeepCopy()
	for i := range p.status.ContainerStatuses {
		c := &p.status.ContainerStatuses[i]
		if c.State.Terminated != nil {
			continue
		}
		term := &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error", ContainerID: c.ContainerID, FinishedAt: metav1.NewTime(p.now)}
		if c.State.Running != nil {
			term.StartedAt = c.State.Running.StartedAt
		}
		c.Ready, c.State = false, corev1.ContainerState{Terminated: term}
	}
	p.finish(143)
}
