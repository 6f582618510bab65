package diagnose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// LogLine is a line of a container's log, or with Note one about it.
type LogLine struct {
	Pod, Container string
	// Try is which instance of the container has written it, from 1.
	Try int
	// Time is when it was written, of one about the log where it belongs.
	Time time.Time
	// Text is raw.
	Text string
	// Note tells that Text is not from the log but about it, empty where that begins.
	Note bool
}

const (
	// followedPods is how many of an object's pods are followed, those with the most
	// trouble.
	followedPods = 20
	// lookAgain is how often new pods and restarts are looked for.
	lookAgain = 2 * time.Second
)

// ErrNoPods is why there is nothing to follow of an object that never has pods.
var ErrNoPods = errors.New("no pods")

// FollowLogs calls say with what all containers of an object's pods write until ctx
// ends: the last 500 lines of each and, where one was restarted, those of the instance
// before; then what comes, from new pods and from containers that are started anew as
// well. Say is called by several at a time. An object that is not there yet is waited
// for.
func (d *Diagnoser) FollowLogs(ctx context.Context, o plan.Object, say func(LogLine)) error {
	f := &follower{d: d, say: say, seen: map[container]*followed{}, woken: make(chan struct{}, 1)}
	defer f.streams.Wait()
	for first := true; ; first = false {
		pods, err := d.Pods(ctx, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrNoPods):
			return err
		case apierrors.IsNotFound(err):
			f.tell("not in the cluster yet; waiting for it")
		case err != nil && first:
			return err
		case err != nil: // it may pass
		case len(pods) == 0:
			f.tell("no pods yet; waiting for them")
		default:
			f.look(ctx, pods)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		case <-f.woken:
			if !pause(ctx, lookAgain/8) { // the pod's status says so a little later
				return ctx.Err()
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// follower follows the logs of an object.
type follower struct {
	d       *Diagnoser
	say     func(LogLine)
	seen    map[container]*followed
	told    string // what was said of the object itself
	streams sync.WaitGroup
	woken   chan struct{} // holds a token where a log has ended
}

// container is a container of a pod.
type container struct {
	pod  types.UID
	name string
}

// followed is what is known of a container's log.
type followed struct {
	mu     sync.Mutex
	try    int // the last instance whose log was read, 0 for none
	open   bool
	opened time.Time
	last   time.Time // of the last line
	ended  int       // the last instance whose end was told
	why    string    // why there is no log yet, as it was told
}

// tell says once what there is to know of the object itself.
func (f *follower) tell(text string) {
	if f.told != text {
		f.told = text
		f.say(LogLine{Text: text, Note: true})
	}
}

// look follows what can be followed of some pods.
func (f *follower) look(ctx context.Context, pods []Pod) {
	if over := len(pods) - followedPods; over > 0 {
		f.tell(fmt.Sprintf("following the %d least healthy pods, not the other %d", followedPods, over))
		pods = pods[:followedPods]
	}
	for _, p := range pods {
		for _, c := range p.Containers {
			key := container{p.uid, c.Name}
			if f.seen[key] == nil {
				f.seen[key] = &followed{}
				f.say(LogLine{Pod: p.Name, Container: c.Name, Try: 1 + c.Restarts, Note: true})
				f.before(ctx, p, c)
			}
			f.container(ctx, f.seen[key], p, c)
		}
	}
}

// before hands over the log of the instance before the present one.
func (f *follower) before(ctx context.Context, p Pod, c Container) {
	if c.Restarts == 0 {
		return
	}
	was := &followed{try: c.Restarts}
	f.streams.Go(func() {
		lines := int64(shownLines)
		_ = f.read(ctx, p, c.Name, was.try, was, &corev1.PodLogOptions{Previous: true, TailLines: &lines}) // it may be gone
		if c.State == "running" {                                                                          // else the present one has ended last
			was.end(was.try, c, f.noting(p, c))
		}
	})
}

// noting tells about a container's log.
func (f *follower) noting(p Pod, c Container) func(try int, at time.Time, text string) {
	return func(try int, at time.Time, text string) {
		f.say(LogLine{Pod: p.Name, Container: c.Name, Try: try, Time: at, Text: text, Note: true})
	}
}

// container follows a container where it has a log that is not followed, and tells of
// its end.
func (f *follower) container(ctx context.Context, s *followed, p Pod, c Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := f.noting(p, c)
	now := 1 + c.Restarts
	has := c.State == "running" || c.Ended
	switch {
	case s.open:
		return
	case !has:
		if why := colon(c.Reason, c.Message); why != s.why {
			s.why = why
			note(now, time.Now(), "has not started: "+why)
		}
		return
	}
	over := now
	if c.State == "running" {
		over--
	}
	s.end(over, c, note)
	if s.try == now && (c.State != "running" || time.Since(s.opened) < lookAgain) {
		return // all of it has been read
	}
	opts := &corev1.PodLogOptions{Follow: true}
	if s.try == now && !s.last.IsZero() {
		since := metav1.NewTime(s.last)
		opts.SinceTime = &since
	} else {
		lines := int64(shownLines)
		opts.TailLines = &lines
	}
	s.try, s.open, s.opened = now, true, time.Now()
	f.streams.Go(func() {
		err := f.read(ctx, p, c.Name, now, s, opts)
		s.mu.Lock()
		s.open = false
		if err != nil && ctx.Err() == nil && !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
			note(now, time.Now(), "cannot be read: "+err.Error())
		}
		s.mu.Unlock()
		select {
		case f.woken <- struct{}{}:
		default:
		}
	})
}

// end tells once how an instance has ended whose log was read.
func (s *followed) end(try int, c Container, note func(int, time.Time, string)) {
	if s.try != try || s.ended >= try || !c.Ended {
		return
	}
	s.ended = try
	text := fmt.Sprintf("exited with code %d", c.Exit)
	if c.EndReason != "" && c.EndReason != "Error" && c.EndReason != "Completed" {
		text += " (" + c.EndReason + ")"
	}
	note(try, s.last, text)
}

// read hands a log over, line by line, as far as it is newer than what s, which may be
// nil, has handed over before.
func (f *follower) read(ctx context.Context, p Pod, name string, try int, s *followed, opts *corev1.PodLogOptions) error {
	opts.Container, opts.Timestamps = name, true
	r, err := f.d.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, opts).Stream(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	from := s.reach(time.Time{})
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		at, text := stamped(scan.Text())
		if !from.IsZero() && !at.IsZero() && !at.After(from) {
			continue
		}
		s.reach(at)
		f.say(LogLine{Pod: p.Name, Container: name, Try: try, Time: at, Text: text})
	}
	return scan.Err()
}

// reach takes in when a line was written, and returns when the last one was.
func (s *followed) reach(at time.Time) time.Time {
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.last) {
		s.last = at
	}
	return s.last
}

// stamped is a line and when it was written, which stands before it.
func stamped(line string) (time.Time, string) {
	stamp, text, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, line
	}
	return at, text
}

// shownLines is how many past lines of a container FollowLogs starts with.
const shownLines = 500

// tail reads the last n lines of a container. If it has been restarted and runs,
// they are those of the previous run, which is the one that failed.
func (d *Diagnoser) tail(ctx context.Context, p Pod, container string, n int) ([]string, error) {
	previous := false
	for _, c := range p.Containers {
		if c.Name == container {
			previous = c.State == "running" && c.Restarts > 0
		}
	}
	lines, err := d.lastLines(ctx, p, container, n, previous)
	if previous && (len(lines) == 0 || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)) {
		return d.lastLines(ctx, p, container, n, false)
	}
	return lines, err
}

func (d *Diagnoser) lastLines(ctx context.Context, p Pod, container string, n int, previous bool) ([]string, error) {
	tail, limit := int64(n), int64(256<<10)
	r, err := d.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: container, TailLines: &tail, LimitBytes: &limit, Previous: previous,
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var lines []string
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, int(limit)+1)
	for scan.Scan() {
		if text := status.CleanText(scan.Text()); text != "" {
			lines = append(lines, text)
		}
	}
	return lines, scan.Err()
}
