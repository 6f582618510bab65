package kubelet

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lockstep/kube/sandbox/annotation"
)

// Values of sandbox/fail on a pod.
const (
	failImage      = "image"
	failConfig     = "config"
	failPending    = "pending"
	failAttach     = "attach"
	failNeverReady = "never-ready"
	failCreate     = "create"
	failRun        = "run"
	failOOM        = "oom"
	failLiveness   = "liveness"
	failStartup    = "startup"
	failEvicted    = "evicted"
)

// badImage makes a pull fail if the image's name contains it.
const badImage = "no-such-image"

// forever is the default of sandbox/fail-times.
const forever = 1 << 30

// script is the simulated behaviour of a pod.
type script struct {
	startDelay, readyDelay, runDuration, unreadyAfter, stopDuration time.Duration

	exitCode, failTimes int
	fail                string
	message             string // the message of the failure, "" for the usual one
	container           string // the only container to which most of this applies, "" for all
	log                 string
}

// parseScript parses a pod's annotations. It also describes the invalid ones.
func parseScript(pod *corev1.Pod) (script, []string) {
	v := annotation.Of(pod.Annotations)
	s := script{
		startDelay:   v.Duration(annotation.StartDelay, 0),
		readyDelay:   v.Duration(annotation.ReadyDelay, 0),
		runDuration:  v.Duration(annotation.RunDuration, time.Second),
		unreadyAfter: v.Duration(annotation.UnreadyAfter, 0),
		stopDuration: v.Duration(annotation.StopDuration, 0),
		exitCode:     v.Int(annotation.ExitCode, 0, 255),
		failTimes:    v.Int(annotation.FailTimes, forever, forever),
		fail: v.OneOf(annotation.Fail, failImage, failConfig, failPending, failAttach, failNeverReady,
			failCreate, failRun, failOOM, failLiveness, failStartup, failEvicted),
		message:   v.Text(annotation.Message),
		container: v.Text(annotation.Container),
		log:       v.Text(annotation.Log),
	}
	switch s.fail {
	case failOOM, failLiveness, failStartup: // they kill the container with SIGKILL
		s.exitCode = 137
	}
	return s, v.Problems()
}

// messageOr returns the message of a failure: the one in the annotation, or the usual one.
func (s script) messageOr(usual string) string { return cmp.Or(s.message, usual) }

// appliesTo reports whether the script applies to a container. The others just run.
func (s script) appliesTo(container string) bool {
	return s.container == "" || s.container == container
}

// cannotPull reports whether pulling an image fails.
func (s script) cannotPull(image string) bool {
	return s.fail == failImage || strings.Contains(image, badImage)
}

// exits reports whether the containers of an attempt (from 0) exit, and with which code.
func (s script) exits(policy corev1.RestartPolicy, attempt int) (bool, int) {
	code := 0
	if attempt < s.failTimes {
		code = s.exitCode
	}
	return code != 0 || policy != corev1.RestartPolicyAlways, code
}
