//go:build unix

package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/engine/event"
	"lockstep/kube/throwaway/faultproxy"
)

// signalRun is a run of lockstep in a case of TestSignals.
type signalRun struct {
	signalCase
	signalPhase
	t                          *testing.T
	ctx                        context.Context
	kubeconfig, dir, namespace string
	chart, deafURL             string
	called                     chan struct{} // closed at a connection to the silent server
	held, letGo                chan struct{} // closed when the request arrives, and to let it continue

	cmd      *exec.Cmd
	ptm, pts *os.File // nil without a terminal
	before   *term.State
	over     chan struct{} // closed when the process has ended
	read     chan struct{} // closed when all output of the terminal is read
	mu       sync.Mutex
	text     bytes.Buffer
}

// startSignalRun starts lockstep, in a terminal if the case has one.
func startSignalRun(t *testing.T, ctx context.Context, c signalCase, kubeconfig, namespace string) *signalRun {
	t.Helper()
	dir := t.TempDir()
	r := &signalRun{signalCase: c, signalPhase: signalPhases[c.phase], t: t, ctx: ctx, kubeconfig: kubeconfig, dir: dir, namespace: namespace, chart: filepath.Join(dir, "chart"),
		called: make(chan struct{}), held: make(chan struct{}), letGo: make(chan struct{}), over: make(chan struct{})}
	r.write("chart/Chart.yaml", "apiVersion: v2\nname: phases\nversion: 1.0.0\n")
	r.write("chart/templates/resources.yaml", signalResources)
	r.serve()
	args := append(r.args(r), "-n", namespace, "--create-namespace", "--timeout", "3m", "--readiness-timeout", "2m")
	if !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "delay=") }) {
		delay := "1m"
		if c.action.hangsUp() {
			delay = "2s" // the run continues to its end
		}
		args = append(args, "--set", "delay="+delay)
	}
	if !c.screen {
		args = append(args, "--no-tui")
	}
	self, err := os.Executable()
	r.must(err)
	program := filepath.Join(dir, "lockstep")
	r.must(os.Symlink(self, program)) // the test binary is lockstep by that name
	r.cmd = exec.Command(program, append(args, c.flags...)...)
	r.cmd.Env = append(withoutCI(os.Environ()), "TERM=xterm-256color", "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	if c.screen || c.action == closesTerminal {
		r.openTerminal()
	} else {
		r.cmd.Stdout, r.cmd.Stderr = r, r
	}
	r.must(r.cmd.Start())
	go func() {
		_ = r.cmd.Wait() // the exit code is in its state
		close(r.over)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // fails if it has ended
		<-r.over
		if r.ptm != nil {
			_, _ = r.ptm.Close(), r.pts.Close()
		}
	})
	return r
}

func (r *signalRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *signalRun) write(name, text string) {
	path := filepath.Join(r.dir, name)
	r.must(os.MkdirAll(filepath.Dir(path), 0o700))
	r.must(os.WriteFile(path, []byte(text), 0o600))
}

// dependent is a chart with a dependency whose download never ends.
func (r *signalRun) dependent() string {
	r.write("dependent/Chart.yaml", "apiVersion: v2\nname: dependent\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, repository: '"+r.deafURL+"'}]\n")
	return filepath.Join(r.dir, "dependent")
}

// serve starts a proxy of the API server that holds the request of the phase, and a server that never
// responds.
func (r *signalRun) serve() {
	var once sync.Once
	front, err := faultproxy.New(faultproxy.Options{Kubeconfig: r.kubeconfig, Intercept: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if r.request != nil && r.request(q.Method, q.URL.Path) {
			first := false
			once.Do(func() { first = true })
			if first {
				close(r.held)
			}
			if first && !r.passes {
				select {
				case <-r.letGo:
				case <-q.Context().Done():
					return
				case <-r.ctx.Done():
					return
				}
			}
		}
		next.ServeHTTP(w, q)
	}})
	r.must(err)
	r.t.Cleanup(front.Close)
	r.must(front.WriteKubeconfig(filepath.Join(r.dir, "kubeconfig"), ""))
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	r.deafURL = "http://" + deaf.Addr().String()
	go func() {
		if c, err := deaf.Accept(); err == nil {
			close(r.called)
			<-r.ctx.Done()
			_ = c.Close()
		}
	}()
	context.AfterFunc(r.ctx, func() { _ = deaf.Close() })
}

// openTerminal makes a new terminal the controlling terminal of lockstep, and collects its output.
func (r *signalRun) openTerminal() {
	var err error
	r.ptm, r.pts, err = pty.Open()
	r.must(err)
	// Close interrupts Read only for files that can be polled, and files of pty.Open cannot.
	fd, err := unix.FcntlInt(r.ptm.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	r.must(errors.Join(err, syscall.SetNonblock(fd, true), r.ptm.Close()))
	r.ptm = os.NewFile(uintptr(fd), "terminal")
	r.must(pty.Setsize(r.ptm, &pty.Winsize{Rows: 36, Cols: 120}))
	noflsh := exec.Command("stty", "noflsh") // otherwise a late ctrl-c discards output that has not been read
	noflsh.Stdin = r.pts
	r.must(noflsh.Run())
	r.before, err = term.GetState(int(r.pts.Fd()))
	r.must(err)
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = r.pts, r.pts, r.pts
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	r.read = make(chan struct{})
	go func() {
		defer close(r.read)
		buf := make([]byte, 32<<10)
		for {
			n, err := r.ptm.Read(buf)
			_, _ = r.Write(buf[:n]) // never fails
			if err != nil {
				return
			}
		}
	}()
}

// Write collects the output of lockstep.
func (r *signalRun) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// shown returns the output without control sequences.
func (r *signalRun) shown() string { return sequences.ReplaceAllString(r.raw(), "") }

func (r *signalRun) raw() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// await waits until a condition holds.
func (r *signalRun) await(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("waiting for %s: %v; output:\n%s", what, context.Cause(r.ctx), r.shown())
		case <-tick.C:
		}
		if closed(r.over) && !holds() {
			r.t.Fatalf("waiting for %s: the program exited with code %d; output:\n%s", what, r.cmd.ProcessState.ExitCode(), r.shown())
		}
	}
}

// reach waits until the run reaches the phase.
func (r *signalRun) reach() {
	if r.screen && !r.prepares {
		r.await("the screen", func() bool { return strings.Contains(r.raw(), "\x1b[?1049h") })
	}
	r.await(r.phase, func() bool {
		switch {
		case r.deaf:
			return closed(r.called)
		case r.request != nil:
			return closed(r.held)
		case r.finished:
			return strings.Contains(r.shown(), "press q")
		default:
			return slices.ContainsFunc(r.events(), r.event)
		}
	})
}

// act performs the action of the case. Before it repeats the action, it waits for the reply.
func (r *signalRun) act() {
	if r.action == closesTerminal {
		r.must(errors.Join(r.pts.Close(), r.ptm.Close()))
		return
	}
	for n := range r.times {
		if r.action == pressCtrlC {
			_, err := r.ptm.WriteString("\x03")
			r.must(err)
		} else if err := r.cmd.Process.Signal(signalOf[r.action]); !errors.Is(err, os.ErrProcessDone) {
			r.must(err)
		}
		switch {
		case r.prepares, r.finished, r.action.hangsUp(): // no reply
		case r.action == pressCtrlC && n == 0:
			r.await("the question", func() bool {
				return strings.Contains(r.shown(), "abort the") || strings.Contains(r.shown(), "stop the rollback?")
			})
		default:
			r.await("the answer", func() bool { return r.answers() > n || r.action == pressCtrlC && r.answers() > 0 })
		}
	}
}

// answers counts the replies to commands.
func (r *signalRun) answers() (n int) {
	for _, e := range r.events() {
		if e.Kind == event.KindCommand {
			n++
		}
	}
	return n
}

// events returns the events in the record so far.
func (r *signalRun) events() []event.Event {
	files, _ := filepath.Glob(filepath.Join(r.dir, "state", "lockstep", "runs", "*.ndjson")) // the pattern is valid
	if len(files) == 0 {
		return nil
	}
	f, err := os.Open(files[0])
	if err != nil {
		return nil
	}
	defer f.Close()
	events, _ := event.Read(f) // the last line may be incomplete
	return events
}

// terminalChange describes how the terminal differs from before the run.
func (r *signalRun) terminalChange() (wrong []string) {
	if r.ptm == nil || r.action == closesTerminal {
		return nil
	}
	after, err := term.GetState(int(r.pts.Fd()))
	if err != nil || !reflect.DeepEqual(after, r.before) {
		wrong = append(wrong, "the terminal's modes are not as they were")
	}
	_ = r.pts.Close() // ends reading
	<-r.read
	text := r.raw()
	for _, mode := range []string{"\x1b[?1049", "\x1b[?1002", "\x1b[?2004"} {
		if strings.LastIndex(text, mode+"l") < strings.LastIndex(text, mode+"h") {
			wrong = append(wrong, mode[1:]+" is still on")
		}
	}
	if strings.LastIndex(text, "\x1b[?25h") < strings.LastIndex(text, "\x1b[?25l") {
		wrong = append(wrong, "the cursor is still hidden")
	}
	return wrong
}

// release returns the status of each revision in Helm's records.
func (r *signalRun) release() string {
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	r.must(err)
	c, err := kubernetes.NewForConfig(config)
	r.must(err)
	list, err := c.CoreV1().Secrets(r.namespace).List(r.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=s"})
	r.must(err)
	var statuses []string
	for _, s := range list.Items {
		statuses = append(statuses, s.Labels["status"])
	}
	return strings.Join(statuses, " ")
}

// signalResources is a chart whose values set the duration of its parts.
const signalResources = `{{- if .Values.spin }}{{ $_ := lookup "v1" "ConfigMap" .Release.Namespace "reached" }}{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: first
  annotations: {helm.sh/resource-group: first}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: slow
  annotations: {helm.sh/resource-group: slow, helm.sh/depends-on/resource-groups: '["first"]'}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata:
      labels: {app: slow}
      annotations: {sandbox/ready-delay: {{ .Values.delay }}}
    spec: {containers: [{name: main, image: example/app:1.0}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: last
  annotations: {helm.sh/resource-group: last, helm.sh/depends-on/resource-groups: '["slow"]'}
{{- if .Values.fail }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: failing
  annotations: {helm.sh/resource-group: slow, helm.sh/depends-on/resource-groups: '["first"]'}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {sandbox/exit-code: "1", sandbox/run-duration: 0s}
    spec: {restartPolicy: Never, containers: [{name: main, image: example/app:1.0}]}
{{- end }}
{{- if .Values.hook }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    metadata:
      annotations: {sandbox/run-duration: {{ .Values.delay }}}
    spec: {restartPolicy: Never, containers: [{name: main, image: example/app:1.0}]}
{{- end }}
`
