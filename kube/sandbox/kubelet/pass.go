package kubelet

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/sandbox/container"
)

const (
	// lasts is how long a pod is not Ready before its probe is reported to fail.
	lasts = 2 * time.Second
	// repeat is the time between two reports of something that does not change.
	repeat = 15 * time.Second
	// probePeriod is a readiness probe's period where the pod does not name one.
	probePeriod = 10 * time.Second
	// errImagePull is shown for that long after each failed pull, ImagePullBackOff up to the next one.
	errImagePull = 2 * time.Second
	firstPull    = 10 * time.Second // back-off after the first failed pull; it doubles
	maxPull      = 5 * time.Minute
	// maxRestart is the longest back-off of a crash loop. It begins at 1s (a real kubelet: 10s) and doubles.
	maxRestart = 32 * time.Second
	// lookAgain is how often it is looked for what a pod refers to.
	lookAgain = 2 * time.Second
	// processPoll is how often it is looked whether a process has ended.
	processPoll = 100 * time.Millisecond
)

// history is what the API cannot keep: times have whole seconds there. It is lost in a restart of the
// sandbox; the times in the pod's status then stand in for it.
type history struct {
	start   time.Time // the kubelet's first look at the pod
	begin   time.Time // of the containers' attempt
	end     time.Time // of that attempt
	said    time.Time // the last report that repeats
	killing bool
	warned  bool // about annotations
}

// event is something to be reported about a container, or about the pod if container is "".
type event struct {
	container string
	warning   bool
	reason    string
	message   string
}

// pass is one look at a pod: what it is, and as the result what it should be. It does no I/O.
type pass struct {
	pod    *corev1.Pod
	script script
	past   history
	now    time.Time
	// failed counts the ended pods of the same controller that failed, for pods that are not restarted.
	failed int
	newIP  func() string
	// missing says what the pod refers to and is not there, missingIn names the container that does, "" for a
	// volume.
	missing, missingIn string
	// real names the container that is a process, "" if there is none. exit is how it ended, nil while it runs.
	real string
	exit *container.Exit

	// The result. again is when to look again, 0 for not before the pod changes.
	status *corev1.PodStatus
	events []event
	again  time.Duration
	starts bool // an attempt of the process, whose number is the restart count
}

// run works out the result. It returns false if the pod's status is right as it is.
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
	case p.wasUp():
		p.up()
	case s.fail == failPending, s.fail == failAttach:
		p.stuck(age)
	case age < s.startDelay:
		if first {
			p.sayPulling()
		}
		p.wait(false, creating)
		p.lookIn(s.startDelay - age)
	case slices.ContainsFunc(p.allContainers(), misnamed):
		p.noName()
	case slices.ContainsFunc(p.allContainers(), p.cannotPull):
		p.pull(age - s.startDelay)
	case s.fail == failConfig:
		p.cannotStart("CreateContainerConfigError", s.words(`configmap "missing" not found`))
	case p.missing != "":
		p.lacks()
	case s.fail == failCreate:
		p.cannotStart("CreateContainerError", s.words(`failed to reserve container name: name "app" is reserved`))
	case s.fail == failRun:
		p.cannotStart("RunContainerError", s.words(`failed to start container: exec: "/bin/no-such-program": stat /bin/no-such-program: no such file or directory`))
	case s.fail == failEvicted:
		p.evict()
	default:
		p.up()
	}
	return !apiequality.Semantic.DeepEqual(p.status, &p.pod.Status)
}

// wasUp tells whether the containers have run before, so that nothing can keep them from starting.
func (p *pass) wasUp() bool {
	for _, c := range p.pod.Status.ContainerStatuses {
		if c.State.Running != nil || c.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

// stuck is a pod whose containers are never created, as with a volume that cannot be mounted.
func (p *pass) stuck(age time.Duration) {
	p.wait(false, creating)
	if age < lasts {
		p.lookIn(lasts - age)
		return
	}
	if p.script.fail == failAttach {
		p.sayAgain(2*time.Minute, event{warning: true, reason: "FailedAttachVolume",
			message: p.script.words(`Multi-Attach error for volume "data" Volume is already exclusively attached to one node and can't be attached to another`)})
		return
	}
	p.sayAgain(2*time.Minute, event{warning: true, reason: "FailedMount",
		message: p.script.words("Unable to attach or mount volumes: timed out waiting for the condition (sandbox/fail: pending)")})
}

// cannotStart is a pod with a container that cannot be made, or started.
func (p *pass) cannotStart(reason, message string) {
	p.wait(true, func(c corev1.Container) corev1.ContainerStateWaiting {
		if !p.script.acts(c.Name) {
			return creating(c)
		}
		return corev1.ContainerStateWaiting{Reason: reason, Message: message}
	})
	for _, c := range p.pod.Spec.Containers {
		if p.script.acts(c.Name) {
			p.sayAgain(repeat, event{c.Name, true, "Failed", "Error: " + message})
		}
	}
}

// lacks is a pod that refers to what is not there: it is looked for again and again.
func (p *pass) lacks() {
	if p.missingIn == "" { // a volume
		p.wait(len(p.pod.Spec.InitContainers) == 0, creating)
		p.sayAgain(repeat, event{warning: true, reason: "FailedMount", message: p.missing})
	} else {
		p.wait(true, func(c corev1.Container) corev1.ContainerStateWaiting {
			if c.Name != p.missingIn {
				return creating(c)
			}
			return corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: p.missing}
		})
		p.sayAgain(repeat, event{p.missingIn, true, "Failed", "Error: " + p.missing})
	}
	p.lookIn(lookAgain)
}

// evict ends a pod since its node has no room for it.
func (p *pass) evict() {
	message := p.script.words("The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512Mi. ")
	p.status.Phase, p.status.Reason, p.status.Message = corev1.PodFailed, "Evicted", message
	p.say(event{warning: true, reason: "Evicted", message: message})
}

func (p *pass) cannotPull(c corev1.Container) bool { return p.script.cannotPull(c.Image) }

func (p *pass) allContainers() []corev1.Container {
	return slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers)
}

// pull is a pod whose image is not there: pulls fail, further and further apart.
func (p *pass) pull(age time.Duration) {
	since, next := pullCycle(age)
	reason := "ErrImagePull"
	if since < errImagePull {
		p.lookIn(errImagePull - since)
	} else {
		reason = "ImagePullBackOff"
		p.lookIn(next)
	}
	before := waitingReasons(&p.pod.Status)
	initDone := !slices.ContainsFunc(p.pod.Spec.InitContainers, p.cannotPull)
	p.wait(initDone, func(c corev1.Container) corev1.ContainerStateWaiting {
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
			p.say(event{c.Name, false, "Pulling", fmt.Sprintf("Pulling image %q", c.Image)})
			p.say(event{c.Name, true, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.Image, p.pullError(c.Image))})
		} else {
			p.say(event{c.Name, false, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Image)})
		}
		p.say(event{c.Name, true, "Failed", "Error: " + reason})
	}
}

func (p *pass) pullError(image string) string {
	return p.script.words(fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: failed to resolve image: %s: not found", image, image))
}

// pullCycle tells how long ago the last pull failed, and how far off the next one is, for a pod whose first
// pull failed that long ago.
func pullCycle(age time.Duration) (since, next time.Duration) {
	for wait := firstPull; ; wait = min(2*wait, maxPull) {
		if age < wait {
			return max(age, 0), wait - age
		}
		age -= wait
	}
}

// lookIn asks for another look after d, or sooner if something else asked for that.
func (p *pass) lookIn(d time.Duration) {
	d = max(d, time.Millisecond)
	if p.again == 0 || d < p.again {
		p.again = d
	}
}

func (p *pass) say(e event) { p.events = append(p.events, e) }

// sayAgain reports e now if a period has gone by since the last report, and keeps on doing so.
func (p *pass) sayAgain(period time.Duration, e event) {
	if since := p.now.Sub(p.past.said); !p.past.said.IsZero() && since > 0 && since < period {
		p.lookIn(period - since)
		return
	}
	p.say(e)
	p.past.said = p.now
	p.lookIn(period)
}

func (p *pass) sayPulling() {
	for _, c := range p.allContainers() {
		if !p.cannotPull(c) {
			p.say(event{c.Name, false, "Pulling", fmt.Sprintf("Pulling image %q", c.Image)})
		}
	}
}

// sayStarted reports what comes before a running container.
func (p *pass) sayStarted(c corev1.Container, attempt int) {
	message := fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image)
	if attempt == 0 && p.script.startDelay > 0 {
		message = fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: 1048576 bytes.", c.Image, p.script.startDelay, p.script.startDelay)
	}
	p.say(event{c.Name, false, "Pulled", message})
	p.say(event{c.Name, false, "Created", "Container created"})
	p.say(event{c.Name, false, "Started", "Container started"})
}

// initFails returns a pod whose script is about an init container: that runs for a while and fails, or is done. It
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
