package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// write creates a ConfigMap in the cluster of KUBECONFIG.
func write() error {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	cfg.UserAgent = "writer"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}, metav1.CreateOptions{})
	return err
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

// folders returns the temporary folders of sandboxes in dir.
func folders(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "lockstep-sandbox-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A command gets the cluster, stdin and stdout, and the sandbox exits with its exit code. This also works without
// HOME, and with a temporary folder whose path is too long for a socket.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tmp := filepath.Join(dir, strings.Repeat("deep", 25))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	before := folders(t, "/tmp")
	audit, kubeconfig := filepath.Join(dir, "audit.log"), filepath.Join(dir, "kubeconfig")
	cmd := exec.Command(binary, "--audit-log", audit, "--kubeconfig", kubeconfig, "--", os.Args[0])
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, roleEnv + "=writer"}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("through and through"), &stdout, &stderr
	if code := exitCode(t, cmd.Run()); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if stdout.String() != "through and through" || stderr.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
	}
	if left := folders(t, tmp); len(left) > 0 || exists(kubeconfig) {
		t.Errorf("left: %q, kubeconfig: %v", left, exists(kubeconfig))
	}
	for _, f := range folders(t, "/tmp") {
		if !strings.Contains(strings.Join(before, " "), f) && exists(filepath.Join(f, "etcd.sock")) && !exists(filepath.Join(f, "etcd")) {
			t.Errorf("the folder of the sockets is not removed: %s", f)
		}
	}
	checkAudit(t, audit)
}

type auditEvent struct {
	Level, Stage, Verb, UserAgent string
	User                          struct{ Username string }
	ObjectRef                     struct{ Resource, Namespace, Name string }
	ResponseStatus                struct{ Code int }
}

func checkAudit(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for line := range strings.Lines(string(data)) {
		var e auditEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Level != "Metadata" || e.Stage == "RequestReceived" {
			t.Errorf("unexpected level or stage: %s", line)
		}
		if e.UserAgent == "writer" && e.Verb == "create" && e.User.Username == "sandbox-admin" && e.Stage == "ResponseComplete" &&
			e.ObjectRef.Resource == "configmaps" && e.ObjectRef.Namespace == "default" && e.ObjectRef.Name == "written" && e.ResponseStatus.Code == 201 {
			written++
		}
	}
	if written != 1 {
		t.Errorf("the log has the command's write %d times, want once", written)
	}
}

func TestUsage(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "config")
	const text = "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster: {server: https://prod.example}\n"
	if err := os.WriteFile(foreign, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		code int
		want string
	}{
		{"--no-such-flag", 2, "unknown flag"},
		{"status", 2, "a command goes after --"},
		{"--", 2, "no command"},
		{"--nodes 0", 2, "at least 1"},
		{"--while-stdin -- true", 2, "cannot be combined with a command"},
		{"-- no-such-command", 127, "command not found"},
		{"--kubeconfig " + foreign, 2, "is not a sandbox's kubeconfig"},
		{"--help", 0, ""},
	}
	for _, tt := range tests {
		cmd := exec.Command(binary, strings.Fields(tt.args)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		if code := exitCode(t, cmd.Run()); code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: %d, %q", tt.args, code, &stderr)
		}
		if (stdout.Len() > 0) != (tt.code == 0) {
			t.Errorf("%s: stdout %q", tt.args, &stdout)
		}
	}
	if data, err := os.ReadFile(foreign); string(data) != text || err != nil {
		t.Errorf("the kubeconfig of another cluster was changed: %q, %v", data, err)
	}
}

// Without a command, the sandbox prints a line that a shell can evaluate, and Ctrl-C stops it cleanly.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	kubeconfig, ok := strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG=")
	if err != nil || !ok || !exists(kubeconfig) {
		t.Errorf("stdout: %q, %v", line, err)
	}
	if info, err := os.Stat(filepath.Dir(kubeconfig)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, cmd.Wait()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := folders(t, tmp); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A sandbox whose parent is killed stops and removes its folder.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "TMPDIR="+tmp, roleEnv+"=parent", "BINARY="+binary)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var s sandbox
	if err := s.read(stdout); err != nil {
		t.Fatal(err)
	}
	if !alive(s.PID) || !exists(s.DataDir) {
		t.Fatalf("%+v", s)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "process and folder are gone", func() bool { return !alive(s.PID) && len(folders(t, tmp)) == 0 })
}

// In a terminal, Ctrl-C reaches the command, and the sandbox waits for the command.
func TestTerminal(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(binary, "--", "sh", "-c", `trap 'echo interrupted; exit 5' INT; test -t 0 && test -t 1 && test -t 2 && echo terminal; while :; do sleep 0.02; done`)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	r := bufio.NewReader(tty)
	if line, err := r.ReadString('\n'); line != "terminal\r\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := tty.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); !strings.HasSuffix(line, "interrupted\r\n") || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if code := exitCode(t, cmd.Wait()); code != 5 {
		t.Errorf("exit code %d, want 5", code)
	}
	if left := folders(t, tmp); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A data folder keeps the cluster. Only one sandbox at a time can use it.
func TestDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, kubeconfig := filepath.Join(dir, "data"), filepath.Join(dir, "kubeconfig")
	first := start(t, nil, "--data-dir", data)
	client, err := kubernetes.NewForConfig(config(t, first.Kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	createPod(t, client, "default")
	waitPod(t, client, "default", "it is ready", func(c corev1.ContainerStatus) bool { return c.Ready })
	pod, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := launch(nil, "--data-dir", data); err == nil || !strings.Contains(err.Error(), "in use by another sandbox") {
		t.Errorf("a second sandbox: %v", err)
	}
	copied, err := os.ReadFile(first.Kubeconfig)
	if err := errors.Join(err, os.WriteFile(kubeconfig, copied, 0o600)); err != nil {
		t.Fatal(err)
	}
	if code := first.stop(); code != 0 || !exists(data) {
		t.Errorf("exit code %d, folder: %v", code, exists(data))
	}
	second := start(t, nil, "--data-dir", data)
	client, err = kubernetes.NewForConfig(config(t, kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.UID != pod.UID || again.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod was replaced or restarted: %+v", again)
	}
	if _, err := client.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil {
		t.Errorf("its log: %v", err)
	}
	if code := second.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// BenchmarkStart measures the time until pods can run.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s := start(b, nil)
		b.StopTimer()
		s.stop()
		b.StartTimer()
	}
}
