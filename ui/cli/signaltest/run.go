//go:build unix

package signaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/engine/event"
)

// Rig is what cases run with.
type Rig struct {
	// Program is lockstep, Kubeconfig leads to a cluster.
	Program, Kubeconfig string
	// Dir is a folder for what a case needs; it has to be empty.
	Dir string
	// Namespace is where the case installs; it is made.
	Namespace string
}

// Outcome is what became of a run.
type Outcome struct {
	Exit int
	// Release is the status of each revision, in their order.
	Release string
	// Text is all that was written to stdout, stderr or the terminal.
	Text   string
	Events []event.Event
	// Terminal says what of the terminal is not as it was.
	Terminal string
}

// run is a case under way.
type run struct {
	Rig
	Case
	config  *rest.Config
	chart   string
	deafURL string
	called  chan struct{} // a connection to the deaf server
	api     *holding
	cmd     *exec.Cmd
	ptm     *os.File // nil without a terminal
	pts     *os.File
	before  *term.State
	mu      sync.Mutex
	text    bytes.Buffer
	over    chan struct{}
	read    chan struct{} // closed when all was read that was written to the terminal
}

// Run runs a case to its end. An error is about the test; what is wrong about
// lockstep, Case.Check says.
func (c Case) Run(ctx context.Context, rig Rig) (Outcome, error) {
	r := &run{Rig: rig, Case: c, over: make(chan struct{})}
	config, err := clientcmd.BuildConfigFromFlags("", rig.Kubeconfig)
	if err != nil {
		return Outcome{}, err
	}
	r.config = config
	if r.chart, err = writeChart(filepath.Join(rig.Dir, "chart")); err != nil {
		return Outcome{}, err
	}
	if err := r.serve(ctx); err != nil {
		return Outcome{}, err
	}
	if err := r.start(); err != nil {
		return Outcome{}, err
	}
	defer r.end()
	if err := r.reach(ctx); err != nil {
		return Outcome{}, fmt.Errorf("%w; it says:\n%s", err, r.shown())
	}
	if err := r.act(ctx); err != nil {
		return Outcome{}, fmt.Errorf("%w; it says:\n%s", err, r.shown())
	}
	if !r.Phase.prepares { // the signal has to be enough
		r.api.letGo()
	}
	if err := r.await(ctx, "the end", func() bool { return closed(r.over) }); err != nil {
		return Outcome{}, fmt.Errorf("%w; it says:\n%s", err, r.shown())
	}
	o := Outcome{Exit: r.cmd.ProcessState.ExitCode(), Events: r.events(), Terminal: r.changed()}
	o.Text = r.shown()
	o.Release, err = r.release(ctx)
	return o, err
}

// start starts lockstep, in a terminal of its own where the case has one.
func (r *run) start() error {
	args := append(r.Phase.args(r), "-n", r.Namespace, "--create-namespace", "--timeout", "3m", "--readiness-timeout", "2m")
	if !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "delay=") }) {
		delay := "1m"
		if r.Action.hangup() {
			delay = "2s" // it is to come to its end
		}
		args = append(args, "--set", "delay="+delay)
	}
	if !r.Screen {
		args = append(args, "--no-tui")
	}
	r.cmd = exec.Command(r.Program, append(args, r.Flags...)...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CI=") && !strings.HasPrefix(e, "NO_COLOR=") {
			r.cmd.Env = append(r.cmd.Env, e)
		}
	}
	r.cmd.Env = append(r.cmd.Env, "TERM=xterm-256color", "XDG_STATE_HOME="+filepath.Join(r.Dir, "state"),
		"XDG_CACHE_HOME="+filepath.Join(r.Dir, "cache"), "KUBECONFIG="+filepath.Join(r.Dir, "kubeconfig"))
	if !r.Screen && r.Action != Closed {
		r.cmd.Stdout, r.cmd.Stderr = r, r
	} else if err := r.openTerminal(); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = r.cmd.Wait() // its state says it
		close(r.over)
	}()
	return nil
}

func (r *run) openTerminal() (err error) {
	if r.ptm, r.pts, err = pty.Open(); err != nil {
		return err
	}
	if r.ptm, err = pollable(r.ptm); err != nil {
		return err
	}
	if err := pty.Setsize(r.ptm, &pty.Winsize{Rows: 36, Cols: 120}); err != nil {
		return err
	}
	if r.before, err = term.GetState(int(r.pts.Fd())); err != nil {
		return err
	}
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
	return nil
}

// pollable is a file whose Close ends a Read, which that of pty.Open does not.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // lockstep is not to have it
	if err == nil {
		err = errors.Join(syscall.SetNonblock(fd, true), f.Close())
	}
	return os.NewFile(uintptr(fd), "terminal"), err
}

func (r *run) end() {
	r.api.letGo()
	_ = r.cmd.Process.Kill() // it is over, or has to be
	<-r.over
	if r.ptm != nil {
		_ = r.ptm.Close()
		_ = r.pts.Close()
	}
}

// Write takes what lockstep writes.
func (r *run) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// shown is what it has written, without control sequences.
func (r *run) shown() string { return ansi.Strip(r.raw()) }

func (r *run) raw() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// await waits until something is so.
func (r *run) await(ctx context.Context, what string, so func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s never came: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
		if closed(r.over) && !so() {
			return fmt.Errorf("%s never came: the program has ended with exit code %d", what, r.cmd.ProcessState.ExitCode())
		}
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// reach waits until the phase has been reached.
func (r *run) reach(ctx context.Context) error {
	if r.Screen && !r.Phase.prepares {
		if err := r.await(ctx, "the screen", func() bool { return strings.Contains(r.raw(), "\x1b[?1049h") }); err != nil {
			return err
		}
	}
	return r.await(ctx, r.Phase.Name, func() bool {
		switch p := r.Phase; {
		case p.deaf:
			return closed(r.called)
		case p.holds != nil:
			return closed(r.api.held)
		case p.finished:
			return strings.Contains(r.shown(), "leaves")
		default:
			return slices.ContainsFunc(r.events(), p.reached)
		}
	})
}

var signals = map[Action]syscall.Signal{INT: syscall.SIGINT, TERM: syscall.SIGTERM, HUP: syscall.SIGHUP}

// act does what the case is about. What can be answered is, before there is more.
func (r *run) act(ctx context.Context) error {
	if r.Action == Closed {
		return errors.Join(r.pts.Close(), r.ptm.Close())
	}
	for n := range r.Times {
		if r.Action == CtrlC {
			if _, err := r.ptm.WriteString("\x03"); err != nil {
				return err
			}
		} else if err := r.cmd.Process.Signal(signals[r.Action]); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		switch {
		case r.Phase.prepares, r.Phase.finished, r.Action.hangup(): // nothing answers
		case r.Action == CtrlC && n == 0:
			if err := r.await(ctx, "the question", func() bool {
				return strings.Contains(r.shown(), "abort the") || strings.Contains(r.shown(), "stop the rollback?")
			}); err != nil {
				return err
			}
		default:
			if err := r.await(ctx, "the answer", func() bool { return r.answers() > n || r.Action == CtrlC && r.answers() > 0 }); err != nil {
				return err
			}
		}
	}
	return nil
}

// answers counts what was answered to commands.
func (r *run) answers() (n int) {
	for _, e := range r.events() {
		if e.Kind == event.KindCommand {
			n++
		}
	}
	return n
}

// events is the record of the run so far.
func (r *run) events() []event.Event {
	files, _ := filepath.Glob(filepath.Join(r.Dir, "state", "lockstep", "runs", "*.ndjson")) // the pattern is good
	if len(files) == 0 {
		return nil
	}
	f, err := os.Open(files[0])
	if err != nil {
		return nil
	}
	defer f.Close()
	events, _ := event.Read(f) // the last line may be half there
	return events
}

// changed says what of the terminal is not as it was, once all was read.
func (r *run) changed() string {
	if r.ptm == nil || r.Action == Closed {
		return ""
	}
	after, err := term.GetState(int(r.pts.Fd()))
	if err != nil || !reflect.DeepEqual(after, r.before) {
		return fmt.Sprintf("the terminal's modes are %v, were %v (%v)", after, r.before, err)
	}
	_ = r.pts.Close() // the last end: reading comes to its own
	<-r.read
	text := r.raw()
	for _, mode := range []string{"\x1b[?1049", "\x1b[?1002", "\x1b[?2004"} {
		if strings.LastIndex(text, mode+"l") < strings.LastIndex(text, mode+"h") {
			return fmt.Sprintf("%q is still on", mode)
		}
	}
	if strings.LastIndex(text, "\x1b[?25h") < strings.LastIndex(text, "\x1b[?25l") {
		return "the cursor is still hidden"
	}
	return ""
}

// release is what Helm's records say of the release.
func (r *run) release(ctx context.Context) (string, error) {
	c, err := kubernetes.NewForConfig(r.config)
	if err != nil {
		return "", err
	}
	list, err := c.CoreV1().Secrets(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=s"})
	if err != nil {
		return "", err
	}
	var out []string
	for _, s := range list.Items {
		out = append(out, s.Labels["status"])
	}
	return strings.Join(out, " "), nil
}
