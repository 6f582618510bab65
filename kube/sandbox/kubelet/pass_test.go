package kubelet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// testPod returns a pod with one container; options are "key=value" annotations, or a restart policy.
func testPod(options ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Generation: 1, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	for _, o := range options {
		if k, v, ok := strings.Cut(o, "="); ok {
			pod.Annotations["sandbox/"+k] = v
		} else {
			pod.Spec.RestartPolicy = corev1.RestartPolicy(o)
		}
	}
	return pod
}

// play runs the passes of a pod for a simulated time, each when the previous one asked for it. It returns a line for
// every change of the status and for every event.
func play(t *testing.T, pod *corev1.Pod, length time.Duration) []string {
	t.Helper()
	var lines []string
	var past history
	for at := time.Duration(0); at <= length; {
		if finished(pod) {
			break
		}
		s, problems := parseScript(pod)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		p := &pass{pod: pod, script: s, past: past, now: epoch.Add(at), newIP: func() string { return "10.244.0.1" }}
		changed := p.run()
		past = p.past
		for _, e := range p.events {
			lines = append(lines, fmt.Sprintf("%v event %s %s", at, e.reason, e.message))
		}
		if changed {
			pod.Status = stored(t, *p.status)
			lines = append(lines, fmt.Sprintf("%v %s", at, describe(pod)))
		}
		if p.again == 0 {
			break
		}
		at += p.again
	}
	return lines
}

// stored returns a status as the API would: with times in whole seconds.
func stored(t *testing.T, st corev1.PodStatus) corev1.PodStatus {
	t.Helper()
	data, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	var out corev1.PodStatus
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func describe(pod *corev1.Pod) string {
	st := pod.Status
	c := st.ContainerStatuses[0]
	state := "running"
	switch {
	case c.State.Waiting != nil:
		state = c.State.Waiting.Reason
	case c.State.Terminated != nil:
		state = fmt.Sprintf("%s(%d)", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	}
	s := fmt.Sprintf("%s %s", st.Phase, state)
	for _, cond := range st.Conditions {
		if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
			s += " ready"
		}
	}
	if c.RestartCount > 0 {
		s += fmt.Sprintf(" restarts=%d", c.RestartCount)
	}
	return s
}

func TestTimeline(t *testing.T) {
	const (
		present = `event Pulled Container image "app:1" already present on machine and can be accessed by the pod`
		pullErr = `rpc error: code = NotFound desc = failed to pull and unpack image "app:1": failed to resolve image: app:1: not found`
		backOff = `event BackOff Back-off restarting failed container app in pod p_ns(u)`
		probe   = `event Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 503`
		mount   = `event FailedMount Unable to attach or mount volumes: timed out waiting for the condition (sandbox/fail: pending)`
	)
	started := func(at string) []string {
		return []string{at + " " + present, at + " event Created Container created", at + " event Started Container started"}
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want [][]string
	}{
		{"plain", testPod(), [][]string{started("0s"), {"0s Running running ready"}}},
		{"slow start", testPod("start-delay=2500ms"), [][]string{
			{`0s event Pulling Pulling image "app:1"`, "0s Pending ContainerCreating",
				`2.5s event Pulled Successfully pulled image "app:1" in 2.5s (2.5s including waiting). Image size: 1048576 bytes.`,
				"2.5s event Created Container created", "2.5s event Started Container started", "2.5s Running running ready"}}},
		{"short wait for readiness", testPod("ready-delay=1s"), [][]string{
			started("0s"), {"0s Running running", "1s Running running ready"}}},
		{"long wait for readiness", testPod("ready-delay=13s"), [][]string{
			started("0s"), {"0s Running running", "2s " + probe, "12s " + probe, "13s Running running ready"}}},
		{"never ready", testPod("fail=never-ready"), [][]string{
			started("0s"), {"0s Running running", "2s " + probe, "12s " + probe, "22s " + probe, "32s " + probe}}},
		{"no longer ready", testPod("unready-after=3s"), [][]string{
			started("0s"), {"0s Running running ready", "3s Running running", "5s " + probe, "15s " + probe, "25s " + probe, "35s " + probe}}},
		{"job", testPod("Never", "run-duration=300ms"), [][]string{
			started("0s"), {"0s Running running ready", "300ms Succeeded Completed(0)"}}},
		{"failing job", testPod("Never", "exit-code=3"), [][]string{
			started("0s"), {"0s Running running ready", "1s Failed Error(3)"}}},
		{"server with exit code 0", testPod("exit-code=0"), [][]string{started("0s"), {"0s Running running ready"}}},
		{"crash loop that ends", testPod("exit-code=1", "fail-times=2", "run-duration=500ms"), [][]string{
			started("0s"), {"0s Running running ready", "500ms " + backOff, "500ms Running CrashLoopBackOff"},
			started("1.5s"), {"1.5s Running running ready restarts=1", "2s " + backOff, "2s Running CrashLoopBackOff restarts=1"},
			started("4s"), {"4s Running running ready restarts=2"}}},
		{"retried job", testPod("OnFailure", "exit-code=1", "fail-times=1"), [][]string{
			started("0s"), {"0s Running running ready", "1s " + backOff, "1s Running CrashLoopBackOff"},
			started("2s"), {"2s Running running ready restarts=1", "3s Succeeded Completed(0) restarts=1"}}},
		{"missing image", testPod("fail=image"), [][]string{{
			`0s event Pulling Pulling image "app:1"`, `0s event Failed Failed to pull image "app:1": ` + pullErr, "0s event Failed Error: ErrImagePull",
			"0s Pending ErrImagePull",
			`2s event BackOff Back-off pulling image "app:1"`, "2s event Failed Error: ImagePullBackOff", "2s Pending ImagePullBackOff",
			`10s event Pulling Pulling image "app:1"`, `10s event Failed Failed to pull image "app:1": ` + pullErr, "10s event Failed Error: ErrImagePull",
			"10s Pending ErrImagePull",
			`12s event BackOff Back-off pulling image "app:1"`, "12s event Failed Error: ImagePullBackOff", "12s Pending ImagePullBackOff",
			`30s event Pulling Pulling image "app:1"`, `30s event Failed Failed to pull image "app:1": ` + pullErr, "30s event Failed Error: ErrImagePull",
			"30s Pending ErrImagePull",
			`32s event BackOff Back-off pulling image "app:1"`, "32s event Failed Error: ImagePullBackOff", "32s Pending ImagePullBackOff"}}},
		{"missing config", testPod("fail=config"), [][]string{{
			`0s event Failed Error: configmap "missing" not found`, "0s Pending CreateContainerConfigError",
			`15s event Failed Error: configmap "missing" not found`, `30s event Failed Error: configmap "missing" not found`}}},
		{"stuck", testPod("fail=pending"), [][]string{{"0s Pending ContainerCreating", "2s " + mount}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			for _, w := range tt.want {
				want = append(want, w...)
			}
			got := play(t, tt.pod, 35*time.Second)
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Errorf("got\n%s\n\nwant\n%s", g, w)
			}
		})
	}
}

func TestNewAnnotationsCount(t *testing.T) {
	pod := testPod("fail=never-ready")
	play(t, pod, 0)
	delete(pod.Annotations, "sandbox/fail")
	play(t, pod, 0)
	if d := describe(pod); d != "Running running ready" {
		t.Errorf("without the annotation: %s", d)
	}
	pod.Annotations["sandbox/fail"] = "image"
	play(t, pod, 0)
	if d := describe(pod); d != "Running running ready" {
		t.Errorf("a running pod must not pull its image again: %s", d)
	}
}

func TestLostHistory(t *testing.T) {
	pod := testPod("exit-code=1", "run-duration=500ms")
	play(t, pod, 600*time.Millisecond)
	if d := describe(pod); d != "Running CrashLoopBackOff" {
		t.Fatal(d)
	}
	s, _ := parseScript(pod)
	p := &pass{pod: pod, script: s, now: epoch.Add(time.Hour), newIP: func() string { return "" }}
	if !p.run() || p.status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("the container does not restart after a restart of the sandbox: %+v", p.status)
	}
}

func TestFailedSiblingsCount(t *testing.T) {
	pod := testPod("Never", "exit-code=1", "fail-times=2")
	for failed, want := range []corev1.PodPhase{corev1.PodFailed, corev1.PodFailed, corev1.PodSucceeded} {
		pod.Status = corev1.PodStatus{}
		play(t, pod, 0)
		s, _ := parseScript(pod)
		p := &pass{pod: pod, script: s, past: history{start: epoch, begin: epoch}, now: epoch.Add(time.Second), failedSiblings: failed}
		p.run()
		if p.status.Phase != want {
			t.Errorf("after %d failed pods: %s, want %s", failed, p.status.Phase, want)
		}
	}
}

// A pod that replaces evicted ones waits longer each time, so that its controller does not replace it in a busy
// loop.
func TestEvictionsBackOff(t *testing.T) {
	pod := testPod("Always", "fail=evicted")
	s, _ := parseScript(pod)
	for _, tt := range []struct {
		failed int
		age    time.Duration
		want   corev1.PodPhase
	}{{0, time.Second, corev1.PodFailed}, {3, 7 * time.Second, corev1.PodPending}, {3, 8 * time.Second, corev1.PodFailed}} {
		pod.Status = corev1.PodStatus{StartTime: &metav1.Time{Time: epoch}}
		p := &pass{pod: pod, script: s, past: history{start: epoch, begin: epoch}, now: epoch.Add(tt.age), failedSiblings: tt.failed}
		if p.run(); p.status.Phase != tt.want {
			t.Errorf("%s after %d evictions: %s, want %s", tt.age, tt.failed, p.status.Phase, tt.want)
		}
	}
}

func TestInitContainersAndSidecars(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := testPod("Never", "start-delay=1s")
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}, {Name: "side", Image: "side:1", RestartPolicy: &always}}
	play(t, pod, 0)
	if c := pod.Status.InitContainerStatuses[0]; c.State.Waiting == nil || c.State.Waiting.Reason != "PodInitializing" {
		t.Errorf("init container of a starting pod: %+v", c.State)
	}
	pod.Annotations = nil
	play(t, pod, 0)
	init, side := pod.Status.InitContainerStatuses[0], pod.Status.InitContainerStatuses[1]
	if init.State.Terminated == nil || side.State.Running == nil {
		t.Errorf("running pod: init %+v, sidecar %+v", init.State, side.State)
	}
	play(t, pod, 5*time.Second)
	if side := pod.Status.InitContainerStatuses[1]; pod.Status.Phase != corev1.PodSucceeded || side.State.Terminated == nil {
		t.Errorf("finished pod: %s, sidecar %+v", pod.Status.Phase, side.State)
	}
}

// A container that cannot start says why; if it is an init container, the others wait for it.
func TestBlockedContainer(t *testing.T) {
	for blocked, want := range map[string]string{"init": "CreateContainerConfigError PodInitializing", "app": "Completed CreateContainerConfigError"} {
		pod := testPod()
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}}
		pod.Status = corev1.PodStatus{StartTime: &metav1.Time{Time: epoch}}
		s, _ := parseScript(pod)
		p := &pass{pod: pod, script: s, past: history{start: epoch, begin: epoch}, now: epoch.Add(time.Second), obstacle: "no Secret", blockedContainer: blocked}
		p.run()
		var got []string
		for _, c := range slices.Concat(p.status.InitContainerStatuses, p.status.ContainerStatuses) {
			if c.State.Waiting != nil {
				got = append(got, c.State.Waiting.Reason)
			} else {
				got = append(got, c.State.Terminated.Reason)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %s, want %s", blocked, s, want)
		}
	}
}

func TestBadImageOfOneContainer(t *testing.T) {
	pod := testPod()
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "bad", Image: "registry.example/no-such-image:1"})
	events := play(t, pod, 0)
	if a, b := pod.Status.ContainerStatuses[0].State.Waiting.Reason, pod.Status.ContainerStatuses[1].State.Waiting.Reason; a != "ContainerCreating" || b != "ErrImagePull" {
		t.Errorf("got %s and %s", a, b)
	}
	if len(events) != 4 {
		t.Errorf("events: %q", events)
	}
}

func TestReadinessGate(t *testing.T) {
	pod := testPod()
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	play(t, pod, 0)
	if d := describe(pod); d != "Running running" {
		t.Fatal(d)
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	play(t, pod, 0)
	if d := describe(pod); d != "Running running ready" {
		t.Error(d)
	}
}

func TestObservedGeneration(t *testing.T) {
	pod := testPod()
	play(t, pod, 0)
	pod.Generation = 2
	play(t, pod, 0)
	if g := pod.Status.ObservedGeneration; g != 2 {
		t.Errorf("observedGeneration is %d", g)
	}
}

func TestKill(t *testing.T) {
	pod := testPod("Never", "run-duration=1h")
	play(t, pod, 0)
	p := &pass{pod: pod, now: epoch.Add(time.Second)}
	p.kill()
	if term := p.status.ContainerStatuses[0].State.Terminated; p.status.Phase != corev1.PodFailed || term == nil || term.ExitCode != 143 {
		t.Errorf("%s %+v", p.status.Phase, term)
	}
}

func TestParseScriptProblems(t *testing.T) {
	s, problems := parseScript(testPod("run-duration=soon", "exit-code=-1", "fail=often"))
	if s.runDuration != time.Second || s.exitCode != 0 || s.fail != "" {
		t.Errorf("invalid values do not count as absent: %+v", s)
	}
	if got := strings.Join(problems, "\n"); strings.Count(got, "\n") != 2 || !strings.Contains(got, `sandbox/run-duration: "soon"`) {
		t.Errorf("problems: %s", got)
	}
}

// With sandbox/container, the other containers of the pod run.
func TestScriptOfOneContainer(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, tt := range map[string]struct{ options, want string }{
		"container": {"exit-code=3", "init Completed(0) side running app running proxy CrashLoopBackOff(Error 3)"},
		"oom":       {"fail=oom", "init Completed(0) side running app running proxy CrashLoopBackOff(OOMKilled 137)"},
		"side":      {"exit-code=3", "init Completed(0) side CrashLoopBackOff(Error 3) app running proxy running"},
		"init":      {"exit-code=3", "init CrashLoopBackOff(Error 3) side PodInitializing app PodInitializing proxy PodInitializing"},
	} {
		t.Run(name, func(t *testing.T) {
			container := cmp.Or(map[string]string{"container": "proxy", "oom": "proxy"}[name], name)
			pod := testPod(tt.options, "container="+container, "run-duration=500ms")
			pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}, {Name: "side", Image: "side:1", RestartPolicy: &always}}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
			play(t, pod, 600*time.Millisecond)
			var got []string
			for _, c := range append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
				state := "running"
				switch {
				case c.State.Waiting != nil:
					state = c.State.Waiting.Reason
					if l := c.LastTerminationState.Terminated; l != nil {
						state += fmt.Sprintf("(%s %d)", l.Reason, l.ExitCode)
					}
				case c.State.Terminated != nil:
					state = fmt.Sprintf("%s(%d)", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
				}
				got = append(got, c.Name+" "+state)
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got  %s\nwant %s", g, tt.want)
			}
		})
	}
}
