package diagnose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/status"
)

const (
	// maxFollowed limits the pods of an object that are followed to the first ones that Diagnoser.Pods returns.
	maxFollowed = 20
	// pollInterval is the time between checks for new pods and restarts.
	pollInterval = 2 * time.Second
	// maxPastLines is how many past lines of each instance of a container are read first.
	maxPastLines = 500
)

// ErrNoPods is returned for a kind that never has pods.
const ErrNoPods = inspect.Unavailable("no pods")

// FollowLogs calls emit with the log lines of all containers of an object's pods until ctx is done: the last 500 lines
// of each container and of its previous instance, then new lines, including those of new pods and restarted containers.
// It waits for an object that does not exist yet or was deleted. emit is called from several goroutines at once.
func (d *Diagnoser) FollowLogs(ctx context.Context, o plan.Object, emit func(inspect.LogLine)) error {
	f := &follower{d: d, emit: emit, logs: map[containerKey]*logState{}, wake: make(chan struct{}, 1)}
	defer f.streams.Wait()
	missing := "not in the cluster yet; waiting for it"
	for first := true; ; first = false {
		pods, err := d.Pods(ctx, o)
		if err == nil {
			missing = "deleted from the cluster; waiting in case it is created again"
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrNoPods):
			return err
		case apierrors.IsNotFound(err):
			f.noteOnce(missing)
		case err != nil && first:
			return err
		case err != nil: // may be temporary
		case len(pods) == 0:
			f.noteOnce("no pods yet; waiting for them")
		default:
			f.update(ctx, pods)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		case <-f.wake:
			select { // the pod's status is updated a little later
			case <-ctx.Done():
			case <-time.After(pollInterval / 8):
			}
		}
	}
}

// follower follows the logs of an object.
type follower struct {
	d        *Diagnoser
	emit     func(inspect.LogLine)
	logs     map[containerKey]*logState
	lastNote string // about the object as a whole
	streams  sync.WaitGroup
	wake     chan struct{} // has a token when a log has ended
}

// containerKey identifies a container of a pod.
type containerKey struct {
	pod  types.UID
	name string
}

// logState is the progress of reading a container's log.
type logState struct {
	mu       sync.Mutex
	instance int // the last instance whose log was read, 0 for none
	open     bool
	opened   time.Time
	last     time.Time // of the last line
	ended    int       // the last instance whose end was reported
	why      string    // the last reported reason why there is no log yet
}

// noteOnce emits a note about the object as a whole, unless it repeats the previous one.
func (f *follower) noteOnce(text string) {
	if f.lastNote != text {
		f.lastNote = text
		f.emit(inspect.LogLine{Text: text, Note: true})
	}
}

// update starts to follow the logs of new pods and containers.
func (f *follower) update(ctx context.Context, pods []Pod) {
	if over := len(pods) - maxFollowed; over > 0 {
		f.noteOnce(fmt.Sprintf("following the first %d pods, not the other %d", maxFollowed, over))
		pods = pods[:maxFollowed]
	}
	pods = slices.SortedStableFunc(slices.Values(pods), func(a, b Pod) int { return a.Created.Compare(b.Created) })
	for _, p := range pods {
		for _, c := range p.Containers {
			key := containerKey{p.uid(), c.Name}
			if f.logs[key] == nil {
				f.logs[key] = &logState{}
				f.emit(inspect.LogLine{Source: source(p, c.Name, 1+c.Restarts), Note: true})
				f.readPrevious(ctx, p, c)
			}
			f.followContainer(ctx, f.logs[key], p, c)
		}
	}
}

// readPrevious emits the log of a container's previous instance, if there was one.
func (f *follower) readPrevious(ctx context.Context, p Pod, c Container) {
	if c.Restarts == 0 {
		return
	}
	previous := &logState{instance: c.Restarts}
	f.streams.Go(func() {
		opts := &corev1.PodLogOptions{Previous: true, TailLines: new(int64(maxPastLines))}
		_ = f.read(ctx, p, c.Name, previous.instance, previous, opts) // the log may be gone
		if c.State == "running" {                                     // otherwise c describes the end of the current instance
			previous.reportEnd(previous.instance, c, f.noteFunc(p, c))
		}
	})
}

func source(p Pod, container string, instance int) event.Source {
	return event.Source{Pod: p.Name, Container: container, Instance: instance}
}

func (f *follower) noteFunc(p Pod, c Container) func(instance int, at time.Time, text string) {
	return func(instance int, at time.Time, text string) {
		f.emit(inspect.LogLine{Source: source(p, c.Name, instance), Time: at, Text: text, Note: true})
	}
}

// followContainer follows the log of a container, unless it is already followed, and reports how the container ended.
func (f *follower) followContainer(ctx context.Context, s *logState, p Pod, c Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := f.noteFunc(p, c)
	instance := 1 + c.Restarts
	hasLog := c.State == "running" || c.Ended
	switch {
	case s.open:
		return
	case !hasLog:
		if why := joinColon(c.Reason, c.Message); why != s.why {
			s.why = why
			note(instance, time.Now(), "has not started: "+why)
		}
		return
	}
	ended := instance
	if c.State == "running" {
		ended--
	}
	s.reportEnd(ended, c, note)
	if s.instance == instance && (c.State != "running" || time.Since(s.opened) < pollInterval) {
		return // the whole log has been read
	}
	opts := &corev1.PodLogOptions{Follow: true}
	if s.instance == instance && !s.last.IsZero() {
		opts.SinceTime = new(metav1.NewTime(s.last))
	} else {
		opts.TailLines = new(int64(maxPastLines))
	}
	s.instance, s.open, s.opened = instance, true, time.Now()
	f.streams.Go(func() {
		err := f.read(ctx, p, c.Name, instance, s, opts)
		s.mu.Lock()
		s.open = false
		if err != nil && ctx.Err() == nil && !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
			note(instance, time.Now(), "cannot be read: "+err.Error())
		}
		s.mu.Unlock()
		select {
		case f.wake <- struct{}{}:
		default:
		}
	})
}

// reportEnd reports, at most once, how the instance whose log was read has exited.
func (s *logState) reportEnd(instance int, c Container, note func(int, time.Time, string)) {
	if s.instance != instance || s.ended >= instance || !c.Ended {
		return
	}
	s.ended = instance
	note(instance, s.last, c.exitWithReason())
}

// read emits the lines of a log that are newer than those emitted before.
func (f *follower) read(ctx context.Context, p Pod, name string, instance int, s *logState, opts *corev1.PodLogOptions) error {
	opts.Container, opts.Timestamps = name, true
	r, err := f.d.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, opts).Stream(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	from := s.advance(time.Time{})
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		at, text := splitTimestamp(scan.Text())
		if !from.IsZero() && !at.IsZero() && !at.After(from) {
			continue
		}
		s.advance(at)
		f.emit(inspect.LogLine{Source: source(p, name, instance), Time: at, Text: text})
	}
	return scan.Err()
}

// advance records the time of a line and returns the time of the newest one.
func (s *logState) advance(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.last) {
		s.last = at
	}
	return s.last
}

func splitTimestamp(line string) (time.Time, string) {
	stamp, text, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, line
	}
	return at, text
}

// logTail reads the last lines of a pod's culprit. If that container was restarted and is running, it reads the log of
// the previous instance, because that one failed.
func (d *Diagnoser) logTail(ctx context.Context, p Pod) ([]string, error) {
	c := p.container(p.culprit)
	previous := c.State == "running" && c.Restarts > 0
	lines, err := d.lastLines(ctx, p, previous)
	if previous && (len(lines) == 0 || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)) {
		return d.lastLines(ctx, p, false)
	}
	return lines, err
}

func (d *Diagnoser) lastLines(ctx context.Context, p Pod, previous bool) ([]string, error) {
	const limit = 256 << 10
	r, err := d.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: p.culprit, TailLines: new(int64(maxLogs)), LimitBytes: new(int64(limit)), Previous: previous,
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var lines []string
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, limit+1)
	for scan.Scan() {
		if text := status.CleanText(d.hideOutput(scan.Text())); text != "" {
			lines = append(lines, text)
		}
	}
	return lines, scan.Err()
}
