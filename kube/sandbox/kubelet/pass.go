package kubelet

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"lockstep/kube/sandbox/container"
)

const (
	// probeDelay is how long a pod must be unready before an event reports a failing probe or mount.
	probeDelay = 2 * time.Second
	// repeatPeriod is the time between two equal events.
	repeatPeriod = 15 * time.Second
	// probePeriod is the default period of a readiness probe.
	probePeriod = 10 * time.Second
	// pullErrorPeriod is how long ErrImagePull is shown after a failed pull, before ImagePullBackOff.
	pullErrorPeriod = 2 * time.Second
	// minPullBackOff is the back-off after the first failed pull. It doubles up to maxPullBackOff.
	minPullBackOff = 10 * time.Second
	maxPullBackOff = 5 * time.Minute
	// maxRestartBackOff is the longest back-off of a crash loop. It starts at 1s (a real kubelet: 10s) and doubles.
	maxRestartBackOff = 32 * time.Second
	// obstaclePeriod is the interval at which a pod checks whether an obstacle is gone.
	obstaclePeriod = 2 * time.Second
	// processPoll is the interval at which a pod checks whether its process has ended.
	processPoll = 100 * time.Millisecond
)

// history has the exact times of a pod; those in the API are truncated to seconds. After a restart of the sandbox
// it starts again from the pod's status.
type history struct {
	start    time.Time // first sync of the pod
	begin    time.Time // start of the scripted containers' last attempt
	end      time.Time // end of that attempt
	reported time.Time // last repeated event
	killing  bool      // the Killing events have been reported
	warned   bool      // invalid annotations have been reported
}

// event is a Kubernetes event about a container, or about the pod if container is "".
type event struct {
	container string
	warning   bool
	reason    string
	message   string
}

// pass computes the new status of a pod from its current one. It does no I/O.
type pass struct {
	pod    *corev1.Pod
	script script
	past   history
	now    time.Time
	// failedSiblings is the number of failed pods of the same controller. It is only set if the script depends on it.
	failedSiblings int
	newIP          func() string
	// obstacle describes what prevents the start of a container: a missing ConfigMap, Secret or key, or a user that
	// is not allowed. blockedContainer is the container, or "" if a volume refers to the missing object.
	obstacle, blockedContainer string
	// process is the container that runs as a process, or "". exit is how it ended, nil while it runs.
	process string
	exit    *container.Exit
	passResult
}

// passResult is what a pass computes. again is the time until the next pass, or 0 if only a change of the pod
// requires one.
type passResult struct {
	status *corev1.PodStatus
	events []event
	again  time.Duration
	starts bool // the process must be started; its attempt is the restart count
}

// run computes the result and reports whether the pod's status changes.
func (p *pass) run() bool {
	p.status = p.pod.Status.DeepCopy()
	p.status.ObservedGeneration = p.pod.Generation
	first := p.status.StartTime == nil
	if first {
		p.status.StartTime = &metav1.Time{Time: p.now}
		p.status.HostIP, p.status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
		p.past.start = p.now
	}
	if p.past.start.IsZero() {
		p.past.start = p.status.StartTime.Time
	}
	age, s := p.now.Sub(p.past.start), p.script
	switch {
	case p.hasRun():
		p.runContainers()
	case s.fail == failPending, s.fail == failAttach:
		p.stayCreating(age)
	case age < s.startDelay:
		if first {
			p.addPullingEvents()
		}
		p.setPending(false, creating)
		p.recheckIn(s.startDelay - age)
	case slices.ContainsFunc(p.allContainers(), hasInvalidImage):
		p.failImageName()
	case slices.ContainsFunc(p.allContainers(), p.cannotPull):
		p.failPull(age - s.startDelay)
	case s.fail == failConfig:
		p.cannotStart("CreateContainerConfigError", s.messageOr(`configmap "missing" not found`))
	case p.obstacle != "":
		p.waitForObstacle()
	case s.fail == failCreate:
		p.cannotStart("CreateContainerError", s.messageOr(`failed to reserve container name: name "app" is reserved`))
	case s.fail == failRun:
		p.cannotStart("RunContainerError", s.messageOr(`failed to start container: exec: "/bin/no-such-program": stat /bin/no-such-program: no such file or directory`))
	case s.fail == failEvicted && p.failedSiblings > 0 && age < restartDelay(p.failedSiblings):
		// Without a delay, the controller would replace evicted pods in a busy loop.
		p.setPending(false, creating)
		p.recheckIn(restartDelay(p.failedSiblings) - age)
	case s.fail == failEvicted:
		p.evict()
	default:
		p.runContainers()
	}
	return !apiequality.Semantic.DeepEqual(p.status, &p.pod.Status)
}

// hasRun reports whether the containers have run before. After that, nothing prevents their start.
func (p *pass) hasRun() bool {
	return slices.ContainsFunc(p.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.LastTerminationState.Terminated != nil
	})
}

// stayCreating handles a pod whose containers are never created because a volume cannot be mounted.
func (p *pass) stayCreating(age time.Duration) {
	p.setPending(false, creating)
	if age < probeDelay {
		p.recheckIn(probeDelay - age)
		return
	}
	if p.script.fail == failAttach {
		p.repeatEvent(2*time.Minute, event{warning: true, reason: "FailedAttachVolume",
			message: p.script.messageOr(`Multi-Attach error for volume "data" Volume is already exclusively attached to one node and can't be attached to another`)})
		return
	}
	p.repeatEvent(2*time.Minute, event{warning: true, reason: "FailedMount",
		message: p.script.messageOr("Unable to attach or mount volumes: timed out waiting for the condition (sandbox/fail: pending)")})
}

// cannotStart handles a pod with a container that cannot be created or started.
func (p *pass) cannotStart(reason, message string) {
	p.setPending(true, func(c corev1.Container) corev1.ContainerStateWaiting {
		if !p.script.appliesTo(c.Name) {
			return creating(c)
		}
		return corev1.ContainerStateWaiting{Reason: reason, Message: message}
	})
	for _, c := range p.pod.Spec.Containers {
		if p.script.appliesTo(c.Name) {
			p.repeatEvent(repeatPeriod, event{c.Name, true, "Failed", "Error: " + message})
		}
	}
}

// waitForObstacle handles a pod whose start p.obstacle prevents.
func (p *pass) waitForObstacle() {
	if p.blockedContainer == "" { // a volume
		p.setPending(len(p.pod.Spec.InitContainers) == 0, creating)
		p.repeatEvent(repeatPeriod, event{warning: true, reason: "FailedMount", message: p.obstacle})
	} else {
		isBlocked := func(c corev1.Container) bool { return c.Name == p.blockedContainer }
		p.setPending(!slices.ContainsFunc(p.pod.Spec.InitContainers, isBlocked), func(c corev1.Container) corev1.ContainerStateWaiting {
			if !isBlocked(c) {
				return creating(c)
			}
			return corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: p.obstacle}
		})
		p.repeatEvent(repeatPeriod, event{p.blockedContainer, true, "Failed", "Error: " + p.obstacle})
	}
	p.recheckIn(obstaclePeriod)
}

// evict fails a pod as if its node were low on disk space.
func (p *pass) evict() {
	message := p.script.messageOr("The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512Mi. ")
	p.status.Phase, p.status.Reason, p.status.Message = corev1.PodFailed, "Evicted", message
	p.addEvent(event{warning: true, reason: "Evicted", message: message})
}

func (p *pass) cannotPull(c corev1.Container) bool { return p.script.cannotPull(c.Image) }

func (p *pass) allContainers() []corev1.Container {
	return slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers)
}

// failPull handles a pod with a missing image: pulls fail, with increasing back-off.
func (p *pass) failPull(age time.Duration) {
	since, next := pullCycle(age)
	reason := "ErrImagePull"
	if since < pullErrorPeriod {
		p.recheckIn(pullErrorPeriod - since)
	} else {
		reason = "ImagePullBackOff"
		p.recheckIn(next)
	}
	before := waitingReasons(&p.pod.Status)
	initDone := !slices.ContainsFunc(p.pod.Spec.InitContainers, p.cannotPull)
	p.setPending(initDone, func(c corev1.Container) corev1.ContainerStateWaiting {
		if !p.cannotPull(c) {
			return creating(c)
		}
		message := p.pullError(c.Image)
		if reason == "ImagePullBackOff" {
			message = fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, message)
		}
		return corev1.ContainerStateWaiting{Reason: reason, Message: message}
	})
	after := waitingReasons(p.status)
	for _, c := range p.allContainers() {
		if after[c.Name] != reason || before[c.Name] == reason {
			continue
		}
		if reason == "ErrImagePull" {
			p.addEvent(event{c.Name, false, "Pulling", fmt.Sprintf("Pulling image %q", c.Image)})
			p.addEvent(event{c.Name, true, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.Image, p.pullError(c.Image))})
		} else {
			p.addEvent(event{c.Name, false, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Image)})
		}
		p.addEvent(event{c.Name, true, "Failed", "Error: " + reason})
	}
}

func (p *pass) pullError(image string) string {
	return p.script.messageOr(fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: failed to resolve image: %s: not found", image, image))
}

// pullCycle returns the time since the last failed pull and the time until the next one, given the time since
// the first failed pull.
func pullCycle(age time.Duration) (since, next time.Duration) {
	for wait := minPullBackOff; ; wait = min(2*wait, maxPullBackOff) {
		if age < wait {
			return max(age, 0), wait - age
		}
		age -= wait
	}
}

// recheckIn schedules the next pass after d, unless an earlier one is scheduled.
func (p *pass) recheckIn(d time.Duration) {
	d = max(d, time.Millisecond)
	if p.again == 0 || d < p.again {
		p.again = d
	}
}

func (p *pass) addEvent(e event) { p.events = append(p.events, e) }

// repeatEvent adds e if a period has passed since the last repeated event, and schedules the next one.
func (p *pass) repeatEvent(period time.Duration, e event) {
	if since := p.now.Sub(p.past.reported); !p.past.reported.IsZero() && since > 0 && since < period {
		p.recheckIn(period - since)
		return
	}
	p.addEvent(e)
	p.past.reported = p.now
	p.recheckIn(period)
}

func (p *pass) addPullingEvents() {
	for _, c := range p.allContainers() {
		if !p.cannotPull(c) {
			p.addEvent(event{c.Name, false, "Pulling", fmt.Sprintf("Pulling image %q", c.Image)})
		}
	}
}

// addStartEvents adds the events of a container's start.
func (p *pass) addStartEvents(c corev1.Container, attempt int) {
	message := fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image)
	if attempt == 0 && p.script.startDelay > 0 {
		message = fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: 1048576 bytes.", c.Image, p.script.startDelay, p.script.startDelay)
	}
	p.addEvent(event{c.Name, false, "Pulled", message})
	p.addEvent(event{c.Name, false, "Created", "Container created"})
	p.addEvent(event{c.Name, false, "Started", "Container started"})
}

// runScriptedInit handles a pod whose script applies to an init container: it runs for a while, then fails or
// completes. It reports whether the other containers have to wait for it.
func (p *pass) runScriptedInit() bool {
	at := slices.IndexFunc(p.pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == p.script.container && !podutil.IsRestartableInitContainer(&c)
	})
	if at < 0 || p.script.exitCode == 0 || p.hasRun() {
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
		p.addStartEvents(c, attempt)
	}
	_, code := p.script.exits(corev1.RestartPolicyOnFailure, p.previousTries(p.pod.Spec.RestartPolicy, attempt))
	left := p.script.runDuration - p.now.Sub(p.past.begin)
	if left <= 0 && code == 0 && !begins {
		p.past = history{start: p.past.start, warned: p.past.warned}
		return false
	}
	p.setPending(false, creating)
	st := &p.status.InitContainerStatuses[at]
	*st = p.runningStatus(c, attempt, old.LastTerminationState, false)
	for i := range at {
		p.status.InitContainerStatuses[i] = p.initStatus(p.pod.Spec.InitContainers[i], p.past.begin)
	}
	switch {
	case left > 0 || begins:
		p.recheckIn(left)
	case p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		p.past.end = p.now
		st.State = corev1.ContainerState{Terminated: p.terminated(st, code)}
		p.finish(code)
	default:
		p.past.end = p.now
		p.backOff(st, attempt, code)
		p.recheckIn(restartDelay(attempt))
	}
	return true
}
