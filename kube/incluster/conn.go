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
)

// Conn carries the lines of a run: Read returns those of its pods, Write sends orders. It
// ends with the run, or when it is closed. After an outage it goes on where it was, and
// where one pod replaces another, with that one's lines. Numbers of events always grow.
type Conn struct {
	run   Run
	ctx   context.Context
	end   context.CancelFunc
	lines *io.PipeReader
}

// Open connects to the run. onWait, which may be nil, is called again and again while no pod
// writes lines: with the newest pod, or nil if there is none.
func (r Run) Open(ctx context.Context, onWait func(*corev1.Pod)) *Conn {
	ctx, end := context.WithCancel(ctx)
	lines, w := io.Pipe()
	if onWait == nil {
		onWait = func(*corev1.Pod) {}
	}
	f := follower{run: r, out: w, onWait: onWait}
	go func() { w.CloseWithError(f.follow(ctx)) }()
	return &Conn{run: r, ctx: ctx, end: end, lines: lines}
}

// Read returns lines of the run.
func (c *Conn) Read(p []byte) (int, error) { return c.lines.Read(p) }

// Write sends an order, a whole line.
func (c *Conn) Write(line []byte) (int, error) {
	if err := send(c.ctx, c.run.kube, c.run.Namespace, c.run.Name, line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Close disconnects; the run continues.
func (c *Conn) Close() error {
	c.end()
	return c.lines.Close()
}

// follower writes the lines of a run's pods.
type follower struct {
	run    Run
	out    *io.PipeWriter
	onWait func(*corev1.Pod)

	pod     string // whose lines are written
	over    bool   // it has ended, and all its lines are written
	offset  uint64 // of its numbers
	last    uint64 // number written
	present bool   // an empty line was written after all that there was
	ended   bool   // the last line was the run's end
}

const (
	// quiet is how long no line comes when all that there were have been read.
	quiet = 100 * time.Millisecond
	again = 300 * time.Millisecond
)

func (f *follower) follow(ctx context.Context) error {
	for {
		pod, err := f.latest(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
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
			if !read {
				f.onWait(pod)
			}
			if over, err := f.runOver(ctx, pod); over {
				return err
			}
		}
		sleep(ctx, again)
	}
}

// latest is the newest pod of the run, nil if it has none.
func (f *follower) latest(ctx context.Context) (*corev1.Pod, error) {
	pods, err := f.run.kube.CoreV1().Pods(f.run.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + f.run.Name})
	if err != nil || len(pods.Items) == 0 {
		return nil, err
	}
	newest := slices.MaxFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &newest, nil
}

// Ended is the error of a Conn whose run ended without its last event: it was refused, or
// a pod that was killed had completed it.
type Ended struct {
	Job  string // namespace/name
	Text string // of the Job or its last pod, "" for none
	Code int    // exit code
}

func (e *Ended) Error() string {
	text := fmt.Sprintf("the run of Job %s has ended", e.Job)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// ExitCode is that of the run.
func (e *Ended) ExitCode() int { return e.Code }

// runOver reports whether the run can have no further line, and why that is an error.
func (f *follower) runOver(ctx context.Context, pod *corev1.Pod) (bool, error) {
	job, err := f.run.kube.BatchV1().Jobs(f.run.Namespace).Get(ctx, f.run.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, fmt.Errorf("the Job %s/%s is gone", f.run.Namespace, f.run.Name)
	}
	if err != nil || !runOf(f.run.kube, job).Over() {
		return false, nil
	}
	e := &Ended{Job: f.run.Namespace + "/" + f.run.Name}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			e.Text = c.Message
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
			e.Text, e.Code = cmp.Or(strings.TrimSpace(t.Message), e.Text), int(t.ExitCode)
		}
	}
	return true, e
}

// read writes the lines of a pod that were not written yet, until its log ends. It reports
// whether there could be any. The error is that of the reader of the lines.
func (f *follower) read(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod == nil || pod.Status.Phase == corev1.PodPending || f.over && f.pod == pod.Name {
		return false, nil
	}
	log, err := f.run.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: Container, Follow: true}).Stream(ctx)
	if err != nil {
		return false, nil // it is tried again
	}
	defer log.Close()
	if f.pod != pod.Name {
		f.pod, f.offset = pod.Name, f.last
	}
	stop := f.markPresent()
	defer func() { stop() }()
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			f.over = errors.Is(err, io.EOF) && pod.Status.Phase != corev1.PodRunning
			return true, nil
		}
		if line, ok := f.renumber(line); ok {
			if _, err := f.out.Write(line); err != nil || f.ended {
				return true, err
			}
		}
		stop()
		stop = f.markPresent()
	}
}

// markPresent writes the empty line after all past events, once no line has come for a
// moment.
func (f *follower) markPresent() (stop func()) {
	if f.present {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(quiet, func() {
		defer close(done)
		f.present = true
		_, _ = f.out.Write([]byte("\n"))
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-done
		}
	})
}

var seqPrefix = []byte(`{"seq":`)

// renumber gives an event the number that it has among those of all pods. ok is false for
// one that was written before, and for what is neither an event nor an answer.
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
	if err != nil || f.offset+seq <= f.last {
		return nil, false
	}
	f.last = f.offset + seq
	var end struct {
		Kind  string `json:"kind"`
		Scope string `json:"scope"`
		Exit  *int   `json:"exit"`
	}
	if bytes.Contains(rest, []byte(`"exit":`)) && json.Unmarshal(line, &end) == nil && end.Kind == "operation" && end.Scope == "" && end.Exit != nil {
		f.ended = true
	}
	return slices.Concat(seqPrefix, strconv.AppendUint(nil, f.last, 10), rest[digits:]), true
}
