package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/kube/throwaway/faultproxy"
	"lockstep/kube/throwaway/testcluster"
)

// slowdown multiplies time limits: the machine may be busy.
const slowdown = 4

// harness is a namespace, a proxy to the API server and a directory with the chart, for commands that run one after
// another.
type harness struct {
	t       *testing.T
	dir     string
	ns      string
	proxy   *faultproxy.Proxy
	tracker atomic.Pointer[tracker]
	pods    *tracker // of the pods of a run in the cluster, nil if there are none
	group   string   // of the chart's CRD, or ""
}

var harnessCount atomic.Int32

// newHarness returns a harness; close releases it. With h2, the proxy speaks HTTP/2, so requests share connections.
func newHarness(t *testing.T, h2, withCRD bool) *harness {
	t.Helper()
	testcluster.Get(t)
	b := &harness{t: t, dir: t.TempDir(), ns: fmt.Sprintf("chaos-%d", harnessCount.Add(1))}
	if withCRD {
		b.group = b.ns + ".example.com"
	}
	b.check(writeChart(b.chart(), b.group))
	b.check(writeStack(b.dir, b.ns))
	var err error
	b.proxy, err = faultproxy.New(faultproxy.Options{Kubeconfig: sandbox.Kubeconfig, TLS: h2, Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		b.tracker.Load().intercept(w, r, next)
	}})
	b.check(err)
	b.tracker.Store(newTracker(false, nil))
	b.check(b.proxy.WriteKubeconfig(b.kubeconfig(), b.ns))
	b.newNamespace()
	return b
}

func (h *harness) check(err error) {
	h.t.Helper()
	if err != nil {
		panic(err) // FailNow must not be called in a worker's goroutine; runTrials recovers
	}
}

func (h *harness) newNamespace() {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": h.ns}}}
	_, err := admin.Resource(namespaces).Create(h.t.Context(), ns, metav1.CreateOptions{})
	h.check(err)
}

// close releases the harness. Whatever the trial did, lockstep must have written only to what was its own, and a release
// that its newest record calls deployed must be in the cluster as recorded.
func (h *harness) close() {
	h.proxy.Close()
	foreign, err := sandbox.ForeignWrites(func(ns string) bool { return ns == h.ns })
	h.check(err)
	for _, problem := range append(foreign, witness.Settled(context.Background(), h.ns, "r")...) {
		h.t.Errorf("in namespace %s: %s", h.ns, problem)
	}
	h.dropCRD()
}

// dropCRD deletes the chart's CRD: an uninstall keeps it.
func (h *harness) dropCRD() {
	if h.group == "" {
		return
	}
	err := admin.Resource(crds).Delete(context.Background(), "things."+h.group, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		h.check(err)
	}
}

func (h *harness) chart() string      { return filepath.Join(h.dir, "chart") }
func (h *harness) kubeconfig() string { return filepath.Join(h.dir, "kubeconfig") }

// operation is a command and the operations before it.
type operation struct {
	name      string
	args      []string    // CHART stands for the chart's folder
	preceding []operation // create the state that it starts from
	// isRollback: see tracker.
	isRollback bool
	// run is the name of a run that asks for an approval, which another command gives it once it waits; "" if it asks for none.
	run string
}

// The operations are in an order in which each can follow the previous one.
var operations = chain(
	operation{name: "bad-install", args: []string{"install", "r", "CHART", "--set", "v=bad,fail=true", "--rollback-on-failure"}},
	operation{name: "install", args: []string{"install", "r", "CHART", "--set", "v=one"}},
	operation{name: "upgrade", args: []string{"upgrade", "r", "CHART", "--set", "v=two"}},
	operation{name: "bad-upgrade", args: []string{"upgrade", "r", "CHART", "--set", "v=three,fail=true", "--rollback-on-failure"}},
	operation{name: "rollback", args: []string{"rollback", "r", "1"}, isRollback: true},
	operation{name: "uninstall", args: []string{"uninstall", "r"}, isRollback: true},
)

// chain sets the operations before each operation. The first one has none.
func chain(all ...operation) []operation {
	for i := 2; i < len(all); i++ {
		all[i].preceding = append(all[i-1].preceding[:i-2:i-2], all[i-1])
	}
	return all
}

// single returns an operation with at most an install and an upgrade before it.
func single(name string) operation {
	for _, o := range operations {
		if o.name == name {
			o.preceding = o.preceding[:min(2, len(o.preceding))]
			return o
		}
	}
	panic("no operation " + name)
}

// mustFail reports whether the operation must fail.
func (o operation) mustFail() bool { return strings.HasPrefix(o.name, "bad-") }

// process is a running command.
type process struct {
	cmd      *exec.Cmd
	text     lockedBuffer // stdout and stderr
	err      lockedBuffer // stderr alone
	done     chan struct{}
	duration time.Duration
	exitCode int // -1 if a signal killed it
	// unapproved is set if its run wrote a group before that was approved.
	unapproved atomic.Bool
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type teeWriter []*lockedBuffer

func (b teeWriter) Write(p []byte) (int, error) {
	for _, to := range b {
		_, _ = to.Write(p)
	}
	return len(p), nil
}

// start starts lockstep with the harness's proxy and chart. on intercepts its requests.
func (h *harness) start(o operation, on func(request) handler, more ...string) (*process, *tracker) {
	tr := newTracker(o.isRollback, on)
	h.tracker.Store(tr)
	if !slices.Contains([]string{"uninstall", "down"}, o.args[0]) {
		more = append([]string{"--settle=0"}, more...) // its containers have no probes
	}
	p := h.exec(lockstepProgram, h.kubeconfig(), append(h.args(o), more...)...)
	if o.run != "" {
		run := cmp.Or(h.pods, tr)
		go h.approve(p, o.run, func() []request { all, _ := run.sent(); return all })
	}
	return p, tr
}

func (h *harness) args(o operation) []string {
	args := make([]string, len(o.args))
	for i, a := range o.args {
		args[i] = strings.ReplaceAll(a, "CHART", h.chart())
	}
	return args
}

func (h *harness) exec(program, kubeconfig string, args ...string) *process {
	p := h.command(program, kubeconfig, args...)
	h.check(p.run())
	return p
}

// command returns a process that has not been started.
func (h *harness) command(program, kubeconfig string, args ...string) *process {
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = h.env(kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = &p.text, teeWriter{&p.text, &p.err}
	ownGroup(p.cmd)
	p.cmd.WaitDelay = 5 * time.Second
	return p
}

func (p *process) run() error {
	started := time.Now()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // the result is in ProcessState
		p.duration, p.exitCode = time.Since(started), p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	return nil
}

// env returns an environment with the harness's home directory.
func (h *harness) env(kubeconfig string) []string {
	env := []string{"HOME=" + h.dir, "KUBECONFIG=" + kubeconfig, "XDG_STATE_HOME=" + filepath.Join(h.dir, "state"), "TERM=xterm-256color"}
	for _, name := range []string{"PATH", "TMPDIR", "USER", "LOCKSTEP_SANDBOX_BIN"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// kill kills a process and its children, like a crash.
func (p *process) kill() { killGroup(p.cmd.Process) }

var errHangs = errors.New("the process does not exit")

// wait waits until a process exits, and kills it after a limit.
func (p *process) wait(limit time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // prints the stacks of its goroutines
		select {
		case <-p.done:
		case <-time.After(2 * time.Second):
		}
		p.kill()
		<-p.done
		return fmt.Errorf("%w after %s", errHangs, limit)
	}
}

// outputTail returns the last lines of a process's output.
func (p *process) outputTail() string {
	text := strings.TrimSpace(p.text.String())
	text, _, _ = strings.Cut(text, "SIGQUIT: quit")
	lines := strings.Split(text, "\n")
	if len(lines) > 25 {
		lines = lines[len(lines)-25:]
	}
	return "    | " + strings.Join(lines, "\n    | ")
}

// withoutNamespace returns the key of a request without the namespace.
func (h *harness) withoutNamespace(key string) string {
	return strings.ReplaceAll(key+"/", "/"+h.ns+"/", "/NAMESPACE/")
}

// snapshot returns the state of the namespace.
func (h *harness) snapshot() snapshot {
	p, err := admin.snapshot(context.Background(), h.ns)
	h.check(err)
	return p
}

// waitUntil waits until the namespace is as wanted, because deletions take a moment, and returns the remaining
// differences.
func (h *harness) waitUntil(want snapshot, history bool) (what []string) {
	within(context.Background(), 2*slowdown*time.Second, func() bool {
		what = h.snapshot().diff(want, history)
		return len(what) == 0
	})
	return what
}

// runWithoutFaults runs an operation without faults.
func (h *harness) runWithoutFaults(o operation) (*process, *tracker, error) {
	p, tr := h.start(o, nil)
	if err := p.wait(2 * time.Minute); err != nil {
		return p, tr, fmt.Errorf("%s without faults: %w\n%s", o.name, err, p.outputTail())
	}
	if o.mustFail() != (p.exitCode == 1) || !o.mustFail() && p.exitCode != 0 {
		return p, tr, fmt.Errorf("%s without faults: exit code %d\n%s", o.name, p.exitCode, p.outputTail())
	}
	return p, tr, nil
}

// runPreceding runs the operations before o.
func (h *harness) runPreceding(o operation) error {
	for _, before := range o.preceding {
		if _, _, err := h.runWithoutFaults(before); err != nil {
			return err
		}
	}
	return nil
}

// baseline is the result of an operation without faults.
type baseline struct {
	exitCode        int
	target          snapshot
	phases          map[string]int
	total           int            // requests
	keys            map[string]int // how often each was sent
	writes, records int
	took            time.Duration
}

var (
	baselinesMu sync.Mutex
	baselines   = map[string]*baseline{}
)

// baselineOf measures an operation and its preceding ones, once. A chart with a CRD has its own baselines, because
// the operation then sends other requests.
func baselineOf(t *testing.T, o operation, withCRD bool) (*baseline, error) {
	baselinesMu.Lock()
	defer baselinesMu.Unlock()
	key := func(name string, after int) string { return fmt.Sprint(name, after, withCRD) }
	if s := baselines[key(o.name, len(o.preceding))]; s != nil {
		return s, nil
	}
	h := newHarness(t, true, withCRD)
	defer h.close()
	var last *baseline
	for i, step := range append(slices.Clone(o.preceding), o) {
		p, tr, err := h.runWithoutFaults(step)
		if err != nil {
			return nil, err
		}
		last = h.measure(p, tr)
		baselines[key(step.name, i)] = last
	}
	return last, nil
}

// measure returns the result of an operation that ran without faults.
func (h *harness) measure(p *process, tr *tracker) *baseline {
	s := &baseline{exitCode: p.exitCode, keys: map[string]int{}, took: p.duration}
	// The hook's pod is deleted in the background.
	within(h.t.Context(), slowdown*time.Second, func() bool { _, there := h.snapshot().objects["Pod/hook-pod"]; return !there })
	s.target = h.snapshot()
	var requests []request
	requests, s.phases = tr.sent()
	s.total = len(requests)
	for _, q := range requests {
		s.keys[h.withoutNamespace(q.key)]++
		s.writes, s.records = max(s.writes, q.write), max(s.records, q.record)
	}
	return s
}
