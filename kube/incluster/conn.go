package incluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/parallel"
)

// Conn is a connection to a run. Read returns the lines of its pods, Write sends requests. It ends with the run, or when
// it is closed. After an outage it continues at the same line. If the pod is replaced, it continues with the new pod.
// Sequence numbers of events always increase.
type Conn struct {
	run    Run
	ctx    context.Context
	cancel context.CancelFunc
	lines  *io.PipeReader
}

// Wait is how long a Conn waits for a pod whose log it can read.
type Wait struct {
	// Limit is how long it waits for the first pod; 0 for no limit. For one that replaces another it waits at least
	// replacementLimit.
	Limit time.Duration
	// Why is called repeatedly while it waits, with the newest pod, or nil if there is none. It returns the cause. It may
	// be nil.
	Why func(*corev1.Pod) string
}

// WaitError is the error of a Conn whose pod did not start in time.
type WaitError struct {
	Job   string // namespace/name
	Limit time.Duration
	Cause string // "" if unknown
}

func (e *WaitError) Error() string {
	text := fmt.Sprintf("waited %s for the pod of Job %s", e.Limit, e.Job)
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	return text
}

// ExitCode returns the exit code of a command that only watches the run.
func (e *WaitError) ExitCode() int { return 1 }

// Open connects to the run.
func (r Run) Open(ctx context.Context, wait Wait) *Conn {
	ctx, cancel := context.WithCancel(ctx)
	lines, w := io.Pipe()
	if wait.Why == nil {
		wait.Why = func(*corev1.Pod) string { return "" }
	}
	f := follower{run: r, out: w, wait: wait}
	go func() { w.CloseWithError(f.follow(ctx)) }()
	return &Conn{run: r, ctx: ctx, cancel: cancel, lines: lines}
}

// Read reads lines of the run.
func (c *Conn) Read(p []byte) (int, error) { return c.lines.Read(p) }

// Write sends a request, which must be a whole line.
func (c *Conn) Write(line []byte) (int, error) {
	if err := send(c.ctx, c.run.kube, c.run.Namespace, c.run.Name, line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Close disconnects. The run continues.
func (c *Conn) Close() error {
	c.cancel()
	return c.lines.Close()
}

// follower copies the lines of a run's pods to out.
type follower struct {
	run  Run
	out  *io.PipeWriter
	wait Wait

	pod      string // the pod whose lines are copied
	podDone  bool   // the pod has ended and all its lines are copied
	offset   uint64 // added to the pod's sequence numbers
	lastSeq  uint64 // the last sequence number written
	caughtUp bool   // the empty line that follows all past events was written
	ended    bool   // the last event of the run was written
	rotated  bool   // the first events of the run are gone
}

const (
	quietTime  = 100 * time.Millisecond // after this long without new lines, the follower has caught up
	retryDelay = 300 * time.Millisecond
)

func (f *follower) follow(ctx context.Context) error {
	since, why := time.Now(), ""
	for {
		asking, cancel := f.limit(ctx, since)
		pod, err := f.run.newestPod(asking)
		cancel()
		switch {
		case ctx.Err() != nil && err != nil:
			return context.Cause(ctx)
		case f.wait.Limit > 0 && time.Since(since) > f.wait.Limit:
			if err != nil {
				why = err.Error()
			}
			return &WaitError{f.run.Namespace + "/" + f.run.Name, f.wait.Limit, why}
		case apierrors.IsForbidden(err):
			return err
		case err == nil:
			read, err := f.read(ctx, pod)
			if err != nil {
				return err
			}
			if f.ended {
				return io.EOF
			}
			if read && !f.podDone {
				since = time.Now()
				f.extendLimit()
				break // the pod may have more lines, even if its Job has ended
			}
			if read {
				since = time.Now()
				f.extendLimit()
			} else {
				why = cmp.Or(f.wait.Why(pod), why)
			}
			if ended, err := f.runEnded(ctx, pod); ended {
				return err
			}
		}
		_ = parallel.Sleep(ctx, retryDelay)
	}
}

// replacementLimit is how long a pod may take to replace another one: a Job may wait minutes after several failures.
const replacementLimit = 10 * time.Minute

func (f *follower) extendLimit() {
	if f.wait.Limit > 0 {
		f.wait.Limit = max(f.wait.Limit, replacementLimit)
	}
}

// limit returns a context that ends when the follower has waited long enough.
func (f *follower) limit(ctx context.Context, since time.Time) (context.Context, context.CancelFunc) {
	if f.wait.Limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, since.Add(f.wait.Limit))
}

// newestPod returns the newest pod of the run, or nil.
func (r Run) newestPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := r.kube.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + r.Name})
	if err != nil || len(pods.Items) == 0 {
		return nil, err
	}
	newest := slices.MaxFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &newest, nil
}

// EndedError is the error of a Conn to a run that ended without a closing event: the operation was refused, a killed pod
// had already completed it, or the Job failed without starting a pod.
type EndedError struct {
	Job     string // namespace/name
	Message string // of the Job or its last pod, or ""
	Code    int    // the exit code of the last pod; 1 if the Job failed without one
}

func (e *EndedError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("run %s has already finished", e.Job)
	}
	text := fmt.Sprintf("run %s ended without a result (exit code %d)", e.Job, e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// ExitCode returns the exit code of the run.
func (e *EndedError) ExitCode() int { return e.Code }

// DeletedError is the error of a Conn to a run that is over because its Job was deleted, before its closing event was read.
type DeletedError struct{ Job string } // namespace/name

func (e *DeletedError) Error() string { return fmt.Sprintf("Job %s was deleted", e.Job) }

// RunOver marks the error as one after which nothing continues the run.
func (e *DeletedError) RunOver() {}

// RotatedError is the error of a Conn to a run whose first events are gone: without its plan, nothing can be shown.
type RotatedError struct{ job, pod string }

func (e *RotatedError) Error() string {
	namespace, name, _ := strings.Cut(e.job, "/")
	return fmt.Sprintf("the beginning of the log of run %s is gone, because the kubelet rotates the logs of pods: a screen cannot show the run, and commands cannot reach it; "+
		"see what it does with kubectl logs -f %s -n %[3]s, and stop it with kubectl delete job %s -n %[3]s", e.job, e.pod, namespace, name)
}

// runEnded reports whether the run has ended, and the error to return then.
func (f *follower) runEnded(ctx context.Context, pod *corev1.Pod) (bool, error) {
	job, err := f.run.kube.BatchV1().Jobs(f.run.Namespace).Get(ctx, f.run.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && job.UID != f.run.uid {
		return true, &DeletedError{f.run.Namespace + "/" + f.run.Name}
	}
	if err != nil || !newRun(f.run.kube, job).Ended() {
		return false, nil
	}
	e := &EndedError{Job: f.run.Namespace + "/" + f.run.Name}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			e.Message = c.Message
		}
		if c.Status == corev1.ConditionTrue && c.Type == batchv1.JobFailed {
			e.Code = 1
		}
	}
	if pod == nil {
		return true, e
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			e.Message, e.Code = cmp.Or(strings.TrimSpace(t.Message), e.Message), int(t.ExitCode)
		}
	}
	return true, e
}

// read copies the new lines of a pod until its log ends. It returns false if there is no log to read, and an error if the
// lines cannot be written.
func (f *follower) read(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod == nil || pod.Status.Phase == corev1.PodPending || f.podDone && f.pod == pod.Name {
		return false, nil
	}
	log, err := f.run.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: Container, Follow: true}).Stream(ctx)
	if err != nil {
		return false, nil // follow tries again
	}
	defer log.Close()
	if f.pod != pod.Name {
		f.pod, f.offset = pod.Name, f.lastSeq
	}
	stop := f.startCaughtUpTimer()
	defer func() { stop() }()
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			f.podDone = errors.Is(err, io.EOF) && pod.Status.Phase != corev1.PodRunning
			if stop(); f.podDone && !f.caughtUp {
				f.caughtUp = true
				_, err := f.out.Write([]byte("\n"))
				return true, err
			}
			return true, nil
		}
		line, ok := f.renumber(line)
		if f.rotated {
			return true, &RotatedError{f.run.Namespace + "/" + f.run.Name, pod.Name}
		}
		if ok {
			if _, err := f.out.Write(line); err != nil || f.ended {
				return true, err
			}
		}
		stop()
		stop = f.startCaughtUpTimer()
	}
}

// startCaughtUpTimer writes an empty line once the log has been silent for quietTime.
func (f *follower) startCaughtUpTimer() (stop func()) {
	if f.caughtUp {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(quietTime, func() {
		defer close(done)
		f.caughtUp = true
		_, _ = f.out.Write([]byte("\n"))
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-done
		}
	})
}

var seqPrefix = []byte(`{"seq":`)

// renumber replaces the sequence number of an event with one that is unique across pods. ok is false for an event that
// was already written, and for a line that is neither an event nor a reply.
func (f *follower) renumber(line []byte) (out []byte, ok bool) {
	rest, isEvent := bytes.CutPrefix(line, seqPrefix)
	if !isEvent {
		return line, bytes.HasPrefix(line, []byte(`{"reply":`))
	}
	digits := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return nil, false
	}
	seq, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	if err != nil || f.offset+seq <= f.lastSeq {
		return nil, false
	}
	missing := f.offset + seq - f.lastSeq - 1
	f.rotated = f.lastSeq == 0 && missing > 0
	f.lastSeq = f.offset + seq
	var end struct {
		Kind  string `json:"kind"`
		Scope string `json:"scope"`
		Exit  *int   `json:"exit"`
	}
	if bytes.Contains(rest, []byte(`"exit":`)) && json.Unmarshal(line, &end) == nil && end.Kind == "operation" && end.Scope == "" && end.Exit != nil {
		f.ended = true
	}
	out = slices.Concat(seqPrefix, strconv.AppendUint(nil, f.lastSeq, 10), rest[digits:])
	if missing > 0 { // the log was rotated while the connection was cut
		out = append(fmt.Appendf(nil, `{"seq":%d,"kind":"warning","message":"%d events of the run are missing here: the kubelet has rotated the log of its pod"}`+"\n",
			f.lastSeq-1, missing), out...)
	}
	return out, true
}
