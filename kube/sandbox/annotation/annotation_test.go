package annotation

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// entry documents one annotation.
type entry struct {
	Name    string // without Prefix
	On      string // the objects it is read from
	Value   string // an example
	Default string
	Meaning string
}

// table lists all annotations in the order of the README.
var table = []entry{
	{StartDelay, "Pod", "`2s`", "`0s`", "How long the pod stays Pending (pulling the image, creating containers)."},
	{ReadyDelay, "Pod", "`5s`", "`0s`", "How long the containers run before the pod is Ready. Above 2s there is an `Unhealthy` event."},
	{RunDuration, "Pod", "`3s`", "`1s`", "How long a container runs if it exits at all: in pods of Jobs, and in pods with `sandbox/exit-code`."},
	{ExitCode, "Pod", "`\"3\"`", "`\"0\"`", "Containers exit with this code. With `restartPolicy: Always` or `OnFailure`, any code but 0 is a crash loop."},
	{FailTimes, "Pod", "`\"2\"`", "always", "With `sandbox/exit-code`: fail this many times, then succeed. Counts restarts, or the failed pods of a Job whose pods are never restarted."},
	{Fail, "Pod", "`image`", "", "`image`: ErrImagePull and ImagePullBackOff. `config`: CreateContainerConfigError. `create`, `run`: CreateContainerError, RunContainerError. `pending`: ContainerCreating forever. `attach`: the same, because another node has its volume. `never-ready`: runs, but the readiness probe always fails. `oom`: killed for using too much memory, code 137, as with `sandbox/exit-code`. `liveness`, `startup`: killed because that probe fails. `evicted`: the node is low on disk."},
	{Message, "Pod", "`no route to host`", "the usual message", "The message of a `sandbox/fail` in status and events; the output of a failing probe."},
	{Container, "Pod", "`proxy`", "all", "The only container that `sandbox/exit-code`, `sandbox/log` and `sandbox/fail` (except `image`, `config`, `pending`, `attach` and `evicted`) apply to; it may be an init container or a sidecar. The others run, and stop if it exits for good."},
	{UnreadyAfter, "Pod", "`10s`", "never", "A Ready pod becomes unready this long after its containers started."},
	{StopDuration, "Pod", "`1s`", "`0s`", "How long a deleted pod takes to stop, up to its grace period."},
	{Log, "Pod", "`text`", "one line", "The output of the containers. If `sandbox/run-duration` applies, lines are spread over it."},
	{ReadyAfter, "Service, Ingress, PersistentVolumeClaim", "`3s`", "`0s`", "When the load balancer gets its address, or the claim its volume."},
	{Fail, "Service, Ingress, PersistentVolumeClaim", "`never`", "", "Any value: there will be no address and no volume."},
	{ReadyAfter, "any custom resource", "`2s`", "not simulated", "How long after each change of its spec the object gets a `Ready` condition that is True (False until then) and `status.observedGeneration`."},
	{ObservedGeneration, "any custom resource", "`string`", "`number`", "With `sandbox/ready-after`: how the status shows the generation: as a `number`, a `string`, a `hash` that is none, or not at all (`none`)."},
	{Status, "any custom resource", "`'{\"phase\":\"Ready\"}'`", "the condition", "With `sandbox/ready-after`: this JSON object is merged into `.status` instead of the condition."},
}

// The table in README.md is the same as table.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "| `"+Prefix) {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, e := range table {
		want = append(want, fmt.Sprintf("| `%s%s` | %s | %s | %s | %s |", Prefix, e.Name, e.On, e.Value, e.Default, e.Meaning))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("the table in README.md should be\n%s", w)
	}
}

func TestValues(t *testing.T) {
	v := Of(map[string]string{
		"sandbox/start-delay": "1.5s", "sandbox/exit-code": "3", "sandbox/fail": "image",
		"sandbox/ready-delay": "-1s", "sandbox/fail-times": "many", "other/run-duration": "1h",
	})
	if d := v.Duration(StartDelay, 0); d != 1500*time.Millisecond {
		t.Errorf("duration: %v", d)
	}
	if n := v.Int(ExitCode, 0, 255); n != 3 {
		t.Errorf("number: %d", n)
	}
	if s := v.OneOf(Fail, "image", "config"); s != "image" {
		t.Errorf("one of several: %q", s)
	}
	if d := v.Duration(RunDuration, time.Second); d != time.Second {
		t.Errorf("an annotation with another prefix counts: %v", d)
	}
	if len(v.Problems()) != 0 {
		t.Errorf("problems with good values: %q", v.Problems())
	}
	if d := v.Duration(ReadyDelay, time.Minute); d != time.Minute {
		t.Errorf("a negative duration: %v, want the default", d)
	}
	if n := v.Int(FailTimes, 7, 10); n != 7 {
		t.Errorf("a word as number: %d, want the default", n)
	}
	if s := v.OneOf(Fail, "config"); s != "" {
		t.Errorf("a value that is not allowed: %q", s)
	}
	if n := len(v.Problems()); n != 3 {
		t.Errorf("%d problems, want 3: %q", n, v.Problems())
	}
}
