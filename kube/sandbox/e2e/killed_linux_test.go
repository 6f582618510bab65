package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// If the sandbox is killed, its command gets SIGTERM. The next sandbox removes the folder, even if that sandbox is
// interrupted while it starts.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tmp, told := filepath.Join(dir, "tmp"), filepath.Join(dir, "told")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--", "sh", "-c", `trap 'echo told > "$TOLD"; exit' TERM; echo set; while :; do sleep 0.02; done`)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TOLD="+told)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the command gets SIGTERM", func() bool { return exists(told) })
	left := folders(t, tmp)
	if len(left) != 1 {
		t.Fatalf("folders of the killed sandbox: %q", left)
	}
	next := exec.Command(binary)
	next.Env = append(os.Environ(), "TMPDIR="+tmp)
	if err := next.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next sandbox has started and removed the folder", func() bool { return !exists(left[0]) && len(folders(t, tmp)) == 1 })
	if err := next.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, next.Wait()); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	if left := folders(t, tmp); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The processes of containers end when the sandbox is stopped or killed.
func TestProcessEndsWithSandbox(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(*sandbox){
		"killed":  func(s *sandbox) { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() },
		"stopped": func(s *sandbox) { s.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, []string{"TMPDIR=" + t.TempDir()}, "--lockstep-bin", self)
			client, err := kubernetes.NewForConfig(config(t, s.Kubeconfig))
			if err != nil {
				t.Fatal(err)
			}
			tpl := processPod("stubborn", "ignore")
			tpl.Name = "p"
			if _, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: tpl.ObjectMeta, Spec: tpl.Spec}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			waitPod(t, client, "default", "it runs", func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
			stream, err := client.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			var pid, child int
			if _, err := fmt.Fscanf(stream, "processes %d %d\n", &pid, &child); err != nil {
				t.Fatal(err)
			}
			end(s)
			eventually(t, "the process is gone", func() bool { return !alive(pid) })
			if name == "killed" { // only the process itself gets a signal
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
			eventually(t, "its child is gone", func() bool { return !alive(child) })
		})
	}
}
