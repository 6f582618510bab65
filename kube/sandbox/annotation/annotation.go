// Package annotation names every annotation the sandbox reads and parses their values.
//
// The table is the single list of them: the README for chart authors is checked against it.
package annotation

import (
	"fmt"
	"strconv"
	"time"
)

// Prefix begins the key of every annotation in Table.
const Prefix = "sandbox/"

// Names of the annotations, without Prefix.
const (
	StartDelay   = "start-delay"
	ReadyDelay   = "ready-delay"
	RunDuration  = "run-duration"
	ExitCode     = "exit-code"
	FailTimes    = "fail-times"
	Fail         = "fail"
	Message      = "message"
	Container    = "container"
	UnreadyAfter = "unready-after"
	StopDuration = "stop-duration"
	Log          = "log"
	ReadyAfter   = "ready-after"
	Status       = "status"
)

// Entry documents one annotation.
type Entry struct {
	Name    string // without Prefix
	On      string // the objects it is read from
	Value   string // an example
	Default string
	Meaning string
}

// Table lists every annotation there is, in the order the README shows them.
var Table = []Entry{
	{StartDelay, "Pod", "`2s`", "`0s`", "How long the pod stays Pending (pulling the image, creating containers)."},
	{ReadyDelay, "Pod", "`5s`", "`0s`", "How long the containers run before the pod is Ready; above 2s an `Unhealthy` event says so."},
	{RunDuration, "Pod", "`3s`", "`1s`", "How long a container runs, where it ends at all: pods of Jobs, and pods with `sandbox/exit-code`."},
	{ExitCode, "Pod", "`\"3\"`", "`\"0\"`", "Containers end with this code. Not 0 with `restartPolicy: Always` or `OnFailure`: a crash loop."},
	{FailTimes, "Pod", "`\"2\"`", "always", "With `sandbox/exit-code`: fail that often, then work. Counts restarts, or the failed pods of a Job whose pods are never restarted."},
	{Fail, "Pod", "`image`", "", "`image`: ErrImagePull and ImagePullBackOff. `config`: CreateContainerConfigError; `create` and `run`: CreateContainerError and RunContainerError. `pending`: ContainerCreating for good; `attach`: the same, since another node has its volume. `never-ready`: runs, the readiness probe always fails. `oom`: ends for want of memory, code 137, as with `sandbox/exit-code`; `liveness` and `startup`: is ended since that probe fails. `evicted`: the node is low on disk."},
	{Message, "Pod", "`no route to host`", "usual words", "What a failure by `sandbox/fail` says in its state and its events, of a probe its output."},
	{Container, "Pod", "`proxy`", "all", "The one container that `sandbox/exit-code`, `sandbox/fail` (but for `image`, `config`, `pending`, `attach` and `evicted`) and `sandbox/log` are about, an init container or a sidecar too. The others run; they end with it where it ends for good."},
	{UnreadyAfter, "Pod", "`10s`", "never", "A pod that was Ready stops being so, that long after its containers started."},
	{StopDuration, "Pod", "`1s`", "`0s`", "How long a deleted pod takes to end, up to its grace period."},
	{Log, "Pod", "`text`", "one line", "What the containers print. Several lines are spread over `sandbox/run-duration` where that applies."},
	{ReadyAfter, "Service, Ingress, PersistentVolumeClaim", "`3s`", "`0s`", "When the load balancer's address is there, or the claim's volume."},
	{Fail, "Service, Ingress, PersistentVolumeClaim", "`never`", "", "Any value: the address or the volume never comes."},
	{ReadyAfter, "any custom resource", "`2s`", "not simulated", "That long after each change of its spec, the object gets a `Ready` condition that is True (False until then) and `status.observedGeneration`."},
	{Status, "any custom resource", "`'{\"phase\":\"Ready\"}'`", "the condition", "With `sandbox/ready-after`: this JSON object is merged into `.status` in place of the condition."},
}

// Values reads annotations and remembers which of them had a value that means nothing.
type Values struct {
	from     map[string]string
	problems []string
}

// Of returns the annotations of one object.
func Of(annotations map[string]string) *Values { return &Values{from: annotations} }

// Problems tells what could not be understood, one sentence each. Such an annotation counts as absent.
func (v *Values) Problems() []string { return v.problems }

// Has tells whether the annotation is there at all.
func (v *Values) Has(name string) bool {
	_, ok := v.from[Prefix+name]
	return ok
}

// Text returns the value as it is, "" where there is none.
func (v *Values) Text(name string) string { return v.from[Prefix+name] }

// OneOf returns the value if it is one of the allowed ones, else "".
func (v *Values) OneOf(name string, allowed ...string) string {
	s, ok := v.from[Prefix+name]
	if !ok || s == "" {
		return ""
	}
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	v.problem(name, s, fmt.Sprintf("must be one of %v", allowed))
	return ""
}

// Duration returns a value like "1.5s", or def where there is none.
func (v *Values) Duration(name string, def time.Duration) time.Duration {
	s, ok := v.from[Prefix+name]
	if !ok {
		return def
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		v.problem(name, s, "must be a duration such as 2s")
		return def
	}
	return d
}

// Int returns a whole number from 0 up to max, or def where there is none.
func (v *Values) Int(name string, def, max int) int {
	s, ok := v.from[Prefix+name]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > max {
		v.problem(name, s, fmt.Sprintf("must be a whole number from 0 to %d", max))
		return def
	}
	return n
}

func (v *Values) problem(name, value, why string) {
	v.problems = append(v.problems, fmt.Sprintf("annotation %s%s: %q is ignored: it %s", Prefix, name, value, why))
}
