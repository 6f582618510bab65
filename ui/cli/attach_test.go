package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lockstep/engine/event"
	"lockstep/kube/throwaway/testcluster"
)

// machine runs lockstep with one state directory, like one user on one machine.
type machine struct {
	t       *testing.T
	env     []string
	program string
	last    *exec.Cmd // the last started process
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, program: filepath.Join(t.TempDir(), "lockstep"), env: []string{"KUBECONFIG=" + testcluster.Get(t).Kubeconfig, "XDG_STATE_HOME=" + t.TempDir()}}
	m.env = append(m.env, observerEnv+"="+testcluster.Get(t).Kubeconfig)
	if err := os.Symlink(self, m.program); err != nil {
		t.Fatal(err)
	}
	return m
}

// outputBuffer collects the output of a program.
type outputBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *outputBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *outputBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the program has printed a text. A run can be controlled before its own terminal
// has printed its state.
func (s *outputBuffer) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.String(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("output without %q:\n%s", want, s)
			return
		}
	}
}

// start starts lockstep. ends waits for its end and returns the exit code.
func (m *machine) start(args ...string) (out *outputBuffer, ends func() int) {
	m.t.Helper()
	out = &outputBuffer{}
	cmd := exec.Command(m.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), m.env...), out, out
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.last = cmd
	over := make(chan bool)
	go func() {
		_ = cmd.Wait() // callers check the exit code
		close(over)
	}()
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); <-over })
	return out, func() int {
		m.t.Helper()
		select {
		case <-over:
		case <-time.After(2 * time.Minute):
			m.t.Fatalf("lockstep %s does not end; output:\n%s", strings.Join(args, " "), out)
		}
		return cmd.ProcessState.ExitCode()
	}
}

// run runs lockstep, checks the exit code and returns the output.
func (m *machine) run(want int, args ...string) string {
	m.t.Helper()
	out, ends := m.start(args...)
	if code := ends(); code != want {
		m.t.Errorf("lockstep %s: exit code %d, want %d; output:\n%s", strings.Join(args, " "), code, want, out)
	}
	return out.String()
}

// waitPaused waits until the run of release s is paused.
func (m *machine) waitPaused() {
	m.t.Helper()
	m.runUntil("ctl s status", "paused")
}

// runUntil runs lockstep repeatedly until it succeeds and prints a text. The pauses leave the processor to the run that it waits for.
func (m *machine) runUntil(command, want string) {
	m.t.Helper()
	last := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		out, ends := m.start(strings.Fields(command)...)
		code := ends()
		if last = out.String(); code == 0 && strings.Contains(last, want) {
			return
		}
	}
	m.t.Fatalf("lockstep %s: no %q in the output: %s", command, want, last)
}

// TestLiveRunsByCluster (S10): a live run is found under any name of its cluster, and not under the name of its context in a
// kubeconfig of another cluster.
func TestLiveRunsByCluster(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	_, ends := m.start("install", "s", filepath.Join(data, "charts", "fanout"), "-n", "by-cluster", "--create-namespace", "--no-tui", "--step")
	m.waitPaused()
	config, err := clientcmd.LoadFromFile(testcluster.Get(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := func(change func(*clientcmdapi.Config)) string {
		c, path := config.DeepCopy(), filepath.Join(t.TempDir(), "config")
		change(c)
		if err := clientcmd.WriteToFile(*c, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	renamed := kubeconfig(func(c *clientcmdapi.Config) {
		c.Contexts["again"], c.CurrentContext = c.Contexts[c.CurrentContext], "again"
	})
	elsewhere := kubeconfig(func(c *clientcmdapi.Config) {
		c.Clusters[c.Contexts[c.CurrentContext].Cluster].Server = "https://127.0.0.1:1"
	})
	watch := []string{"watch", "s", "-n", "by-cluster", "-o", "json", "--once", "--kubeconfig"}
	if s := m.run(0, append(watch, renamed)...); !strings.Contains(s, `"paused"`) {
		t.Errorf("under another name of the context: %s", s)
	}
	if s := m.run(0, "ctl", "s", "status", "--kubeconfig", renamed, "--kube-context", "again"); !strings.Contains(s, "paused") {
		t.Errorf("ctl under another name of the context: %s", s)
	}
	if s := m.run(2, append(watch, elsewhere)...); strings.Contains(s, `"paused"`) {
		t.Errorf("a run in another cluster: %s", s)
	}
	if s := m.run(0, "ctl", "s", "abort", "--kubeconfig", elsewhere); !strings.Contains(s, "abort") { // needs no cluster
		t.Errorf("abort while the cluster is away: %s", s)
	}
	ends()
}

// TestControlFromOtherTerminals controls a run without a screen with ctl, while two screens and a
// reader of events are attached, which all see the same (R47, R41).
func TestControlFromOtherTerminals(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	out, ends := m.start("install", "s", filepath.Join(data, "charts", "fanout"), "-n", "att", "--create-namespace", "--no-tui", "--step")
	m.waitPaused()
	out.await(t, "control it with: lockstep ctl s step|resume|abort")
	if s := m.run(1, "ctl", "s", "retry"); !strings.Contains(s, "retry refused: ") {
		t.Errorf("refused command: got %q", s)
	}
	if s := m.run(0, "ctl", "s", "step", "-o", "json"); !strings.Contains(s, `"command":"step"`) {
		t.Errorf("ctl -o json: got %q", s)
	}
	for _, ask := range []struct { // R42
		code          int
		command, want string
	}{
		{1, "run-to nosuch", "no group nosuch; the groups are namespace:att, fanout:left-1,"},
		{1, "step *-2", "step takes one group, but *-2 matches fanout:left-2, fanout:right-2"},
		{0, "break left-2", "breakpoint fanout:left-2 set"},
		{0, "break *:left-?", "breakpoint fanout:left-1 set\nbreakpoint fanout:left-3 set"},
		{1, "run-to fanout:lfet-2", "no group fanout:lfet-2; did you mean fanout:left-2?"},
		{1, "run-to t-2", "t-2 is ambiguous: fanout:left-2 or fanout:right-2"},
		{0, "disable *-2", "breakpoint fanout:left-2 disabled"},
		{0, "disable ft-2", "breakpoint fanout:left-2 enabled"},
		{0, "disable fanout:left-2", "breakpoint fanout:left-2 disabled"},
		{0, "break *:left-?", "breakpoint fanout:left-1 removed\nbreakpoint fanout:left-2 removed\nbreakpoint fanout:left-3 removed"},
	} {
		if s := m.run(ask.code, append([]string{"ctl", "s"}, strings.Fields(ask.command)...)...); !strings.Contains(s, ask.want) {
			t.Errorf("%s: got %q, want %q", ask.command, s, ask.want)
		}
	}
	for command, want := range map[string]string{"run-to": "fanout:left-1\t1 object", "pause": ":4"} {
		if s := m.run(0, "__complete", "ctl", "s", command, ""); !strings.Contains(s, want) || command == "pause" && strings.Contains(s, "fanout") {
			t.Errorf("completion of %s: got %q", command, s)
		}
	}
	if s := m.run(0, "watch", "s", "-n", "att", "--once"); !strings.Contains(s, "install s paused") {
		t.Errorf("watch:\n%s", s)
	}
	events, read := m.start("attach", "s", "-o", "json")
	one, two := inTerminal(t, 30, 100, m.env, "attach", "s"), inTerminal(t, 36, 120, m.env, "attach")
	one.await(0, "attached")
	two.await(0, "attached")
	mark := two.mark()
	one.keys("c")
	two.await(mark, "press q to quit")
	one.await(0, "press q to quit")
	one.keys("q")
	two.keys("q")
	if code := ends(); code != 0 {
		t.Errorf("the run: exit code %d\n%s", code, out)
	}
	for _, c := range []*terminal{one, two} {
		if code := c.ends(); code != 0 {
			t.Errorf("attach: exit code %d", code)
		}
		c.restored()
		c.await(0, "install s done in")
	}
	if code := read(); code != 0 {
		t.Errorf("attach -o json: exit code %d", code)
	}
	got, err := event.Read(strings.NewReader(events.String()))
	files, globbed := filepath.Glob(filepath.Join(strings.TrimPrefix(m.env[1], "XDG_STATE_HOME="), "lockstep", "runs", "*"))
	if err = errors.Join(err, globbed); err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	record, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	manifests := regexp.MustCompile(`(?m)^\{"seq":0,.*\n`) // only in the record
	if events.String() != manifests.ReplaceAllString(string(record), "") {
		t.Errorf("the %d events from attach differ from the record", len(got))
	}
	m.run(2, "ctl", "s", "status")
}

// TestCtlLargeEdit sends 3 MiB of values to a paused run, which continues as a new revision (R46,
// R47).
func TestCtlLargeEdit(t *testing.T) {
	m := newMachine(t)
	chart := writeChart(t, map[string]string{
		"Chart.yaml":           "apiVersion: v2\nname: s\nversion: 1.0.0\n",
		"templates/first.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first, annotations: {helm.sh/resource-group: first}}\n",
		"templates/last.yaml": "apiVersion: v1\nkind: ConfigMap\ndata: {length: {{ len (default \"\" .Values.large) | quote }}}\n" +
			"metadata: {name: last, annotations: {helm.sh/resource-group: last, helm.sh/depends-on/resource-groups: '[\"first\"]'}}\n",
	})
	values, large := filepath.Join(t.TempDir(), "values.yaml"), strings.Repeat("x", 3<<20)
	if err := os.WriteFile(values, []byte("large: "+large+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, ends := m.start("install", "s", chart, "-n", "largeedit", "--create-namespace", "--no-tui", "--break-on", "last")
	m.waitPaused()
	if s := m.run(0, "ctl", "s", "edit", "-f", values); !strings.Contains(s, "edit accepted") {
		t.Errorf("edit: got %.300q", s)
	}
	m.runUntil("ctl s continue", "resume accepted") // fails until the edited revision starts
	m.runUntil("ctl s continue", "resume accepted") // fails until the breakpoint, which is kept
	if code := ends(); code != 0 {
		t.Errorf("the run: exit code %d\n%s", code, out)
	}
	if text := helm(t, m.env, "get", "all", "s", "-n", "largeedit"); !strings.Contains(text, "REVISION: 2") || !strings.Contains(text, large) || !strings.Contains(text, `length: "3145728"`) {
		t.Errorf("release: got %.300q", text)
	}
}

// TestAttachAfterHangup closes the terminal of a paused run and attaches from another one (R47).
func TestAttachAfterHangup(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := inTerminal(t, 30, 100, m.env, "install", "s", filepath.Join(data, "charts", "fanout"), "-n", "gone", "--create-namespace", "--step")
	c.await(0, "paused")
	_ = c.tty.Close()
	again := inTerminal(t, 30, 100, m.env, "attach", "s")
	again.await(0, "attached")
	again.done()
	again.await(0, "the run continues; attach again: lockstep attach s")
	m.run(0, "ctl", "s", "continue")
	if code := c.ends(); code != 0 {
		t.Errorf("the run: exit code %d", code)
	}
	if list := helm(t, m.env, "list", "-n", "gone"); !strings.Contains(list, "deployed") {
		t.Errorf("the release should be deployed: %s", list)
	}
}

// TestLeftRunning leaves a paused run with the key d: the shell has its terminal back, another terminal attaches, and the run
// goes on after the shell has ended (R47).
func TestLeftRunning(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := inShell(t, 30, 100, m.env, "install", "s", filepath.Join(data, "charts", "fanout"), "-n", "left", "--create-namespace", "--step", "--on-hangup=keep")
	c.await(0, "paused")
	c.press("q", "come back with: lockstep attach s -n left")
	c.press("d", "the run continues in the background; attach again: lockstep attach s -n left")
	c.press("echo the shell is $((6*7)) back\n", "the shell is 42 back")
	m.run(0, "ctl", "s", "status")
	c.keys("exit\nexit\n") // the first one only warns about the job
	c.ends()
	again := inTerminal(t, 30, 100, m.env, "attach", "s")
	again.await(0, "attached")
	again.keys("c")
	again.await(0, "press q to quit")
	again.done()
	if list := helm(t, m.env, "list", "-n", "left"); !strings.Contains(list, "deployed") {
		t.Errorf("the release should be deployed: %s", list)
	}
}

// TestStepNeedsSocket: without a screen and a socket, --step is refused before the first write.
func TestStepNeedsSocket(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.env[1] = "XDG_STATE_HOME=/dev/null"
	out := m.run(2, "install", "s", filepath.Join(data, "charts", "plain"), "-n", "nosocket", "--create-namespace", "--no-tui", "--step")
	if !strings.Contains(out, "--step needs the screen or a socket to control the run from another terminal") {
		t.Errorf("output:\n%s", out)
	}
}

// TestUnattendedRun (R47): a run without the screen that is paused or held ends after --timeout without a client, and says
// so. A run in the cluster waits on, but the command that started it ends (R54).
func TestUnattendedRun(t *testing.T) {
	limitedParallel(t)
	m := newMachine(t)
	const waited = ", and nobody attached or used lockstep ctl for "
	install := func(code int, want, chart, ns string, flags ...string) {
		t.Helper()
		args := []string{"install", "s", filepath.Join(data, "charts", chart), "-n", ns, "--no-tui"}
		if out := m.run(code, append(args, flags...)...); !strings.Contains(out, want) {
			t.Errorf("no %q in the output:\n%s", want, out)
		}
	}
	out, ends := m.start("install", "s", filepath.Join(data, "charts", "fanout"), "-n", "unattended", "--create-namespace", "--no-tui", "--step", "--timeout=10s")
	m.waitPaused()
	ended := make(chan int, 1)
	go func() { ended <- ends() }()
	for looks, code := 0, -1; code < 0; looks++ { // which do not keep it waiting
		select {
		case code = <-ended:
			if want := "error: aborted: paused" + waited + "10s (--timeout)"; code != 3 || !strings.Contains(out.String(), want) {
				t.Errorf("exit code %d, want 3, and %q in the output:\n%s", code, want, out)
			}
		case <-time.After(time.Second):
			m.run(0, "runs")
			if looks > 60 {
				t.Fatal("lists of runs keep a paused run waiting")
			}
		}
	}
	install(1, "warning: held"+waited+"10s (--timeout)", "fail-image", "unattended", "--create-namespace", "--hold-on-failure", "--timeout=10s")

	const ns = "unattended-job"
	inNamespace(t, ns)
	install(1, "error: paused, and no command came for 20s (--timeout); the run continues in the cluster", "fanout", ns,
		"--in-cluster", "--service-account=runner", "--step", "--timeout=20s")
	m.run(0, "ctl", "s", "abort", "-n", ns)
}

// TestRunWithoutAPod (R54): the pod of a paused run in the cluster is gone, and its Job can create no other. Commands that give up say
// so, and not that the run continues.
func TestRunWithoutAPod(t *testing.T) {
	limitedParallel(t)
	const ns = "without-pod"
	client := inNamespace(t, ns)
	m := newMachine(t)
	out, ends := m.startInCluster(ns, "install", "s", filepath.Join(data, "charts", "fanout"), "--step", "--timeout=20s")
	m.runUntil("ctl s status -n "+ns, "paused")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	if _, err := client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	killPod(t.Context(), t, client, ns, podsOf("s"))
	out.await(t, "waiting for the Job's pod: no pods can be created")
	if s := m.run(2, "ctl", "s", "status", "-n", ns, "--timeout", "6s"); !strings.Contains(s, "waiting for a pod that executes the run: no pods can be created") {
		t.Errorf("ctl status: %s", s)
	}
	if code := ends(); code != 1 || !strings.Contains(out.String(), "no command came for 20s (--timeout); no pod executes the run at the moment: no pods can be created") || strings.Contains(out.String(), "the run continues") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
