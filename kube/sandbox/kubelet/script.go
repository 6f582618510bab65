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

// badImage is the part of an image's name that makes its pull fail.
const badImage = "no-such-image"

// forever stands for "as often as it is tried".
const forever = 1 << 30

// script is what a pod is to act out.
type script struct {
	startDelay, readyDelay, runDuration, unreadyAfter, stopDuration time.Duration

	exitCode, failTimes int
	fail                string
	message             string // of what fails, "" for the usual words
	container           string // that most of this is about, "" for all
	log                 string
}

// parseScript reads a pod's annotations, and tells which of them make no sense.
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
	case failOOM, failLiveness, failStartup: // by SIGKILL
		s.exitCode = 137
	}
	return s, v.Problems()
}

// words returns what a failure says.
func (s script) words(usual string) string { return cmp.Or(s.message, usual) }

// acts tells whether the script is about a container; the others just run.
func (s script) acts(container string) bool { return s.container == "" || s.container == container }

// cannotPull tells whether the pull of a container's image fails.
func (s script) cannotPull(image string) bool {
	return s.fail == failImage || strings.Contains(image, badImage)
}

// exits returns whether containers of the given attempt (counted from 0) end by themselves, and their code.
func (s script) exits(policy corev1.RestartPolicy, attempt int) (bool, int) {
	code := 0
	if attempt < s.failTimes {
		code = s.exitCode
	}
	return code != 0 || policy != corev1.RestartPolicyAlways, code
}
