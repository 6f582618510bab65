// Package annotation names the annotations that the sandbox reads (Table) and parses their
// values (Values). A test checks the README against Table.
package annotation

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Prefix is the prefix of all annotation keys.
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

// Table lists all annotations in the order of the README.
var Table = []Entry{
	{StartDelay, "Pod", "`2s`", "`0s`", "How long the pod stays Pending (pulling the image, creating containers)."},
	{ReadyDelay, "Pod", "`5s`", "`0s`", "How long the containers run before the pod is Ready. Above 2s there is an `Unhealthy` event."},
	{RunDuration, "Pod", "`3s`", "`1s`", "How long a container runs if it exits at all: in pods of Jobs, and in pods with `sandbox/exit-code`."},
	{ExitCode, "Pod", "`\"3\"`", "`\"0\"`", "Containers exit with this code. With `restartPolicy: Always` or `OnFailure`, any code but 0 is a crash loop."},
	{FailTimes, "Pod", "`\"2\"`", "always", "With `sandbox/exit-code`: fail this many times, then work. Counts restarts, or the failed pods of a Job whose pods are never restarted."},
	{Fail, "Pod", "`image`", "", "`image`: ErrImagePull and ImagePullBackOff. `config`: CreateContainerConfigError. `create`, `run`: CreateContainerError, RunContainerError. `pending`: ContainerCreating forever. `attach`: the same, because another node has its volume. `never-ready`: runs, but the readiness probe always fails. `oom`: killed for using too much memory, code 137, as with `sandbox/exit-code`. `liveness`, `startup`: killed because that probe fails. `evicted`: the node is low on disk."},
	{Message, "Pod", "`no route to host`", "the usual message", "The message of a `sandbox/fail` in status and events; the output of a failing probe."},
	{Container, "Pod", "`proxy`", "all", "The only container that `sandbox/exit-code`, `sandbox/log` and `sandbox/fail` (except `image`, `config`, `pending`, `attach` and `evicted`) apply to; it may be an init container or a sidecar. The others run, and stop if it exits for good."},
	{UnreadyAfter, "Pod", "`10s`", "never", "A Ready pod becomes unready this long after its containers started."},
	{StopDuration, "Pod", "`1s`", "`0s`", "How long a deleted pod takes to stop, up to its grace period."},
	{Log, "Pod", "`text`", "one line", "The output of the containers. If `sandbox/run-duration` applies, lines are spread over it."},
	{ReadyAfter, "Service, Ingress, PersistentVolumeClaim", "`3s`", "`0s`", "When the load balancer gets its address, or the claim its volume."},
	{Fail, "Service, Ingress, PersistentVolumeClaim", "`never`", "", "Any value: there will be no address and no volume."},
	{ReadyAfter, "any custom resource", "`2s`", "not simulated", "How long after each change of its spec the object gets a `Ready` condition that is True (False until then) and `status.observedGeneration`."},
	{Status, "any custom resource", "`'{\"phase\":\"Ready\"}'`", "the condition", "With `sandbox/ready-after`: this JSON object is merged into `.status` instead of the condition."},
}

// Values parses annotations and collects the problems of invalid values.
type Values struct {
	from     map[string]string
	problems []string
}

// Of returns the annotations of one object.
func Of(annotations map[string]string) *Values { return &Values{from: annotations} }

// Problems describes the invalid values, one sentence each. Such annotations are ignored.
func (v *Values) Problems() []string { return v.problems }

// Has reports whether the annotation is set.
func (v *Values) Has(name string) bool {
	_, ok := v.from[Prefix+name]
	return ok
}

// Text returns the value, or "".
func (v *Values) Text(name string) string { return v.from[Prefix+name] }

// OneOf returns the value if it is one of the allowed ones, else "".
func (v *Values) OneOf(name string, allowed ...string) string {
	s := v.Text(name)
	if s == "" || slices.Contains(allowed, s) {
		return s
	}
	v.problem(name, s, fmt.Sprintf("must be one of %v", allowed))
	return ""
}

// Duration returns a value like "1.5s", or def if there is none.
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

// Int returns a whole number from 0 up to max, or def if there is none.
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
