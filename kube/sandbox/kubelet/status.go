package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

const hostIP = "127.0.0.1"

// creating returns the state of a container that is being created.
func creating(corev1.Container) corev1.ContainerStateWaiting {
	return corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

func waitingReasons(st *corev1.PodStatus) map[string]string {
	m := map[string]string{}
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if c.State.Waiting != nil {
			m[c.Name] = c.State.Waiting.Reason
		}
	}
	return m
}

// setPending makes the pod Pending. why returns the waiting state of a container. Unless initDone, the containers
// wait for the init containers.
func (p *pass) setPending(initDone bool, why func(corev1.Container) corev1.ContainerStateWaiting) {
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
	p.setCondition(corev1.PodReadyToStartContainers, true, "", "")
	p.setCondition(corev1.PodInitialized, initDone, "ContainersNotInitialized", "")
	p.setCondition(corev1.PodReady, false, "ContainersNotReady", p.unreadyMessage())
	p.setCondition(corev1.ContainersReady, false, "ContainersNotReady", p.unreadyMessage())
}

// runContainers handles a pod whose containers can run: they start, become ready, exit, and restart.
func (p *pass) runContainers() {
	if p.runScriptedInit() {
		return
	}
	old, policy := p.scriptTarget()
	attempt, due := p.attempt(old)
	if !due {
		return
	}
	running := old.State.Running
	if running == nil {
		p.beginAttempt(attempt)
	} else if p.past.begin.IsZero() {
		p.past.begin = running.StartedAt.Time
	}
	ran := p.now.Sub(p.past.begin)
	if p.process != "" {
		if p.exit != nil && running != nil {
			p.endAttempt(attempt, p.exit.Code)
			return
		}
		p.recheckIn(processPoll)
	} else if ends, code := p.script.exits(policy, p.previousTries(policy, attempt)); ends {
		if ran >= p.script.runDuration && running != nil {
			p.endAttempt(attempt, code)
			return
		}
		p.recheckIn(p.script.runDuration - ran)
	}
	p.setRunning(attempt, old.LastTerminationState, p.ready(ran))
}

// scriptTarget returns the status and the restart policy of the container that the script applies to, or of one of
// them if it applies to all.
func (p *pass) scriptTarget() (corev1.ContainerStatus, corev1.RestartPolicy) {
	for _, c := range p.pod.Spec.InitContainers {
		if podutil.IsRestartableInitContainer(&c) && c.Name == p.script.container {
			st, _ := containerStatus(p.pod, c.Name)
			return st, corev1.RestartPolicyAlways
		}
	}
	for _, c := range p.pod.Spec.Containers {
		if p.script.appliesTo(c.Name) {
			st, _ := containerStatus(p.pod, c.Name)
			return st, p.pod.Spec.RestartPolicy
		}
	}
	if st := p.pod.Status.ContainerStatuses; len(st) > 0 { // the script applies to an init container, which has completed
		return st[0], p.pod.Spec.RestartPolicy
	}
	return corev1.ContainerStatus{}, p.pod.Spec.RestartPolicy
}

// attempt returns the number of the attempt that runs or is due, and false during a back-off.
func (p *pass) attempt(old corev1.ContainerStatus) (n int, due bool) {
	n = int(old.RestartCount)
	if t := old.LastTerminationState.Terminated; t != nil && old.State.Running == nil {
		ended := t.FinishedAt.Time
		if !p.past.end.IsZero() {
			ended = p.past.end
		}
		if left := restartDelay(n) - p.now.Sub(ended); left > 0 {
			p.recheckIn(left)
			return n, false
		}
		n++
	}
	return n, true
}

// previousTries returns the number of earlier attempts: of this pod, or if it is never restarted, of the pods that
// it replaces.
func (p *pass) previousTries(policy corev1.RestartPolicy, attempt int) int {
	if policy == corev1.RestartPolicyNever {
		return p.failedSiblings
	}
	return attempt
}

// restartDelay returns the back-off before the restart that follows an attempt.
func restartDelay(attempt int) time.Duration {
	return min(time.Second<<min(attempt, 30), maxRestartBackOff)
}

// beginAttempt starts an attempt of the containers.
func (p *pass) beginAttempt(attempt int) {
	p.past.begin, p.past.end, p.past.reported = p.now, time.Time{}, time.Time{}
	p.starts = p.process != ""
	if p.status.PodIP == "" {
		p.status.PodIP = p.newIP()
		p.status.PodIPs = []corev1.PodIP{{IP: p.status.PodIP}}
	}
	if attempt == 0 {
		for _, c := range p.pod.Spec.InitContainers {
			p.addStartEvents(c, attempt)
		}
	}
	for _, c := range p.pod.Spec.Containers {
		if attempt == 0 || p.script.appliesTo(c.Name) {
			p.addStartEvents(c, attempt)
		}
	}
}

// ready reports whether containers that have run for this long are ready. It adds the events of a failing probe.
func (p *pass) ready(ran time.Duration) bool {
	unready := ran // for how long the pod has been unready
	switch s := p.script; {
	case s.fail == failNeverReady:
	case s.fail == failStartup:
		return false
	case ran < s.readyDelay:
		p.recheckIn(s.readyDelay - ran)
	case s.unreadyAfter > 0 && ran >= s.unreadyAfter:
		unready = ran - s.unreadyAfter
	case s.unreadyAfter > 0:
		p.recheckIn(s.unreadyAfter - ran)
		return true
	default:
		return true
	}
	if unready < probeDelay {
		p.recheckIn(probeDelay - unready)
		return false
	}
	for _, c := range p.pod.Spec.Containers {
		if !p.script.appliesTo(c.Name) {
			continue
		}
		period := probePeriod
		if c.ReadinessProbe != nil && c.ReadinessProbe.PeriodSeconds > 0 {
			period = time.Duration(c.ReadinessProbe.PeriodSeconds) * time.Second
		}
		p.repeatEvent(period, event{c.Name, true, "Unhealthy", "Readiness probe failed: " + p.script.messageOr("HTTP probe failed with statuscode: 503")})
	}
	return false
}

// setRunning sets the status of a pod whose containers run. attempt, last and ready apply to the containers of the
// script.
func (p *pass) setRunning(attempt int, last corev1.ContainerState, ready bool) {
	st := p.status
	st.Phase = corev1.PodRunning
	st.InitContainerStatuses, st.ContainerStatuses = nil, nil
	for _, c := range p.pod.Spec.InitContainers {
		if podutil.IsRestartableInitContainer(&c) {
			st.InitContainerStatuses = append(st.InitContainerStatuses, p.runningStatus(c, attempt, last, ready))
		} else {
			st.InitContainerStatuses = append(st.InitContainerStatuses, p.initStatus(c, p.past.begin))
		}
	}
	for _, c := range p.pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, p.runningStatus(c, attempt, last, ready))
	}
	p.setCondition(corev1.PodReadyToStartContainers, true, "", "")
	p.setCondition(corev1.PodInitialized, true, "", "")
	p.setCondition(corev1.ContainersReady, ready, "ContainersNotReady", p.unreadyMessage())
	if gate := p.unmetGate(); ready && gate != "" {
		p.setCondition(corev1.PodReady, false, "ReadinessGatesNotReady", fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate))
		return
	}
	p.setCondition(corev1.PodReady, ready, "ContainersNotReady", p.unreadyMessage())
}

// runningStatus returns the status of a running container. attempt, last and ready are ignored for containers that
// the script does not apply to.
func (p *pass) runningStatus(c corev1.Container, attempt int, last corev1.ContainerState, ready bool) corev1.ContainerStatus {
	if !p.script.appliesTo(c.Name) || podutil.IsRestartableInitContainer(&c) && p.script.container == "" {
		attempt, last, ready = 0, corev1.ContainerState{}, true
	}
	begin := metav1.NewTime(p.past.begin)
	if old, ok := containerStatus(p.pod, c.Name); ok && old.State.Running != nil {
		begin = old.State.Running.StartedAt
	}
	started := p.script.fail != failStartup || !p.script.appliesTo(c.Name)
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: imageID(c), ContainerID: p.containerID(c, attempt),
		Ready: ready, Started: &started, RestartCount: int32(attempt), LastTerminationState: last,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begin}},
	}
}

// unmetGate returns the first readiness gate that is not met, or "".
func (p *pass) unmetGate() string {
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

// initStatus returns the status of an init container that no longer holds up the pod: sidecars run, others have
// completed.
func (p *pass) initStatus(c corev1.Container, begin time.Time) corev1.ContainerStatus {
	sidecar := podutil.IsRestartableInitContainer(&c)
	old, ok := containerStatus(p.pod, c.Name)
	if ok && (old.State.Terminated != nil && old.State.Terminated.ExitCode == 0 || sidecar && old.State.Running != nil) {
		return old
	}
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: imageID(c), ContainerID: p.containerID(c, int(old.RestartCount)), Ready: true,
		Started: &sidecar, RestartCount: old.RestartCount, LastTerminationState: old.LastTerminationState}
	if sidecar {
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}
	} else {
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: *p.status.StartTime,
			FinishedAt: metav1.NewTime(begin), ContainerID: s.ContainerID}
	}
	return s
}

func (p *pass) unreadyMessage() string {
	var names []string
	for _, c := range p.pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return fmt.Sprintf("containers with unready status: [%s]", strings.Join(names, " "))
}

// setCondition sets a condition. reason and message are only used if it is not met.
func (p *pass) setCondition(t corev1.PodConditionType, met bool, reason, message string) {
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

// kill terminates the containers of a pod that is being deleted, with the exit code of SIGTERM.
func (p *pass) kill() {
	p.status = p.pod.Status.DeepCopy()
	last := 143
	for i := range p.status.ContainerStatuses {
		c := &p.status.ContainerStatuses[i]
		if c.State.Terminated != nil {
			continue
		}
		term := &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error", ContainerID: c.ContainerID, FinishedAt: metav1.NewTime(p.now)}
		if c.State.Running != nil {
			term.StartedAt = c.State.Running.StartedAt
		}
		if c.Name == p.process && p.exit != nil {
			last, term = p.exit.Code, p.terminated(c, p.exit.Code)
		}
		c.Ready, c.State = false, corev1.ContainerState{Terminated: term}
	}
	p.finish(last)
}
