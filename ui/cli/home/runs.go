package home

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/ui/cli/runs"
	"lockstep/ui/home"
	"lockstep/ui/remote"
)

// liveRuns follows the live runs of this machine and of the cluster. It stays connected to each, so that a run costs requests
// only once.
type liveRuns struct {
	client    *kube.Client
	namespace string // the one that is shown, "" for all
	changed   func()

	mu   sync.Mutex
	runs map[string]*liveRun // by socket or Job
	jobs []incluster.Run

	locks  kube.Locks // of the runs here and elsewhere
	locked int        // how many were shown
}

// liveRun is a run that home is connected to.
type liveRun struct {
	row   home.LiveRun
	alone time.Time // since when nobody has done anything to it, as far as its events tell
	ended bool      // its events have ended
	over  bool      // the run has ended, perhaps before its Job
}

// jobID returns the key of a run in the cluster.
func jobID(job incluster.Run) string { return "job " + job.Namespace + "/" + job.Name }

// scanEvery is the time between two looks at the sockets of this machine.
const scanEvery = time.Second

// follow follows the runs until ctx is done. Runs of this machine are shown whatever their namespace is.
func (l *liveRuns) follow(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		l.client.FollowClusterRuns(ctx, l.namespace, func(jobs []incluster.Run) {
			l.mu.Lock()
			l.jobs = jobs
			l.mu.Unlock()
			l.connectJobs(ctx, &running)
			l.changed()
		})
	})
	running.Go(func() { l.client.FollowLocks(ctx, l.namespace, &l.locks, l.changed) })
	for ctx.Err() == nil {
		l.connectLocal(ctx, &running)
		l.expire()
		select {
		case <-ctx.Done():
		case <-time.After(scanEvery):
		}
	}
}

// expire shows the runs again once the lock of one has expired.
func (l *liveRuns) expire() {
	if n := len(l.locks.Live()); n != l.locked {
		l.locked = n
		l.changed()
	}
}

// known reports whether home is connected to a run.
func (l *liveRuns) known(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[id] != nil
}

// connectLocal connects to the new runs of this machine. A run in another cluster is remembered and not shown.
func (l *liveRuns) connectLocal(ctx context.Context, running *sync.WaitGroup) {
	dir, err := runs.LiveDir()
	if err != nil {
		return
	}
	l.forgetEnded(dir)
	found, _ := remote.NewRuns(dir, l.known) // the runs of somebody else's directory are not shown
	for socket, r := range found {
		same, known := runs.SameCluster(ctx, l.client, r)
		if !known { // for example while the API server is away
			same = r.Operation.Context == l.client.ContextName()
		}
		if !same {
			r.Close()
			l.put(socket, &liveRun{ended: true})
			continue
		}
		run := &liveRun{row: home.LiveRun{Key: home.Key{Namespace: r.Operation.Namespace, Name: r.Operation.Release}, Operation: r.Operation.Name, By: kube.Self()}} // others cannot open its socket
		l.put(socket, run)
		running.Go(func() { l.read(ctx, run, r) })
	}
}

// forgetEnded forgets runs whose sockets are gone.
func (l *liveRuns) forgetEnded(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for socket, r := range l.runs {
		if _, err := os.Lstat(dir + string(os.PathSeparator) + socket); r.ended && os.IsNotExist(err) {
			delete(l.runs, socket)
		}
	}
}

func (l *liveRuns) put(id string, r *liveRun) {
	l.mu.Lock()
	l.runs[id] = r
	l.mu.Unlock()
}

// connectJobs connects to the new runs in the cluster that have a pod.
func (l *liveRuns) connectJobs(ctx context.Context, running *sync.WaitGroup) {
	for _, job := range l.jobs {
		id := jobID(job)
		if job.State != "running" || l.known(id) {
			continue
		}
		run := &liveRun{row: home.LiveRun{Key: home.Key{Namespace: job.Namespace, Name: job.Release}, Operation: job.Command, By: job.By, Cluster: job.Name}}
		l.put(id, run)
		running.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			r, err := remote.Connect(job.Open(ctx, incluster.Wait{Why: func(*corev1.Pod) string { return "" }}))
			if err != nil {
				l.end(run)
				return
			}
			l.read(ctx, run, r)
		})
	}
}

// read follows the events of a run until it ends or ctx is done.
func (l *liveRuns) read(ctx context.Context, run *liveRun, r *remote.Run) {
	defer r.Close()
	defer l.end(run)
	var state event.State
	reader := r.Feed().Reader()
	for {
		events, more := reader.Next(ctx)
		l.mu.Lock()
		for _, e := range events {
			state.Apply(e)
			run.follow(e)
		}
		run.over = !state.Ended.IsZero()
		describe(&run.row, &state)
		run.row.Ends = run.ends(&state)
		l.mu.Unlock()
		if !more || run.over {
			return
		}
		l.changed()
	}
}

// follow notes events after which an unattended run waits for its whole timeout again (R47).
func (r *liveRun) follow(e event.Event) {
	switch e.Kind {
	case event.KindOperation, event.KindRun, event.KindCommand, event.KindScreens:
		r.alone = e.Time
	}
}

// ends returns when a paused or held run of this machine ends unless somebody attaches, zero if it does not (R47).
func (r *liveRun) ends(s *event.State) time.Time {
	paused := r.row.Status == event.Paused || r.row.Status == event.Held
	if !paused || r.row.Cluster != "" || s.Screens > 0 || s.AwaitsApproval() != nil || s.Operation.Timeout == 0 {
		return time.Time{}
	}
	return r.alone.Add(s.Operation.Timeout)
}

func (l *liveRuns) end(run *liveRun) {
	l.mu.Lock()
	run.ended = true
	l.mu.Unlock()
	l.changed()
}

// rows returns the live runs, those that wait for a person first, then the newest.
func (l *liveRuns) rows() (rows []home.LiveRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	connected := map[string]bool{}
	for _, r := range l.runs {
		if !r.ended && r.row.Status != "" {
			rows = append(rows, r.row)
			connected[r.row.Cluster] = true
		}
	}
	for _, job := range l.jobs {
		if run := l.runs[jobID(job)]; !job.Ended() && !connected[job.Name] && (run == nil || !run.over) {
			rows = append(rows, home.LiveRun{Key: home.Key{Namespace: job.Namespace, Name: job.Release}, Operation: job.Command,
				Status: event.Waiting, Why: "its pod is not running yet", By: job.By, Since: job.Started, Cluster: job.Name})
		}
	}
	for _, lock := range l.locks.Live() {
		if !l.shows(lock) {
			rows = append(rows, lockedRow(lock))
		}
	}
	slices.SortFunc(rows, func(a, b home.LiveRun) int {
		return cmp.Or(l.elsewhere(a)-l.elsewhere(b), urgency(b)-urgency(a), b.Since.Compare(a.Since), text.CompareNatural(a.Name, b.Name))
	})
	return rows
}

// shows reports whether the run that holds a lock has a row of its own, had one until it ended, or has one soon. The caller holds
// the lock.
func (l *liveRuns) shows(lock kube.LiveLock) bool {
	for _, job := range l.jobs {
		if strings.HasPrefix(lock.Holder.Job, job.Namespace+"/"+job.Name+"/") {
			return true
		}
	}
	for _, r := range l.runs {
		of := home.Key{Namespace: lock.Namespace, Name: lock.Release}
		if lock.Holder.Stack != "" {
			of = home.Key{Namespace: r.row.Namespace, Name: lock.Holder.Stack}
		}
		if lock.Holder.Job == "" && r.row.Cluster == "" && r.row.Key == of {
			return true
		}
	}
	return false
}

// lockedRow returns the row of a run that home is not connected to. Only the lock of its release is known.
func lockedRow(lock kube.LiveLock) home.LiveRun {
	h := lock.Holder
	row := home.LiveRun{Key: home.Key{Namespace: lock.Namespace, Name: lock.Release}, Operation: text.Join(" of stack ", h.Operation, h.Stack), Status: home.Locked,
		By: h.Author().String(), Since: h.Since}
	args, here := lock.Follow()
	namespace, rest, inCluster := strings.Cut(h.Job, "/")
	switch {
	case inCluster && args != nil: // in a namespace that is not shown
		row.Namespace, row.Name = namespace, args[1]
		row.Cluster, _, _ = strings.Cut(rest, "/")
	case args == nil && h.Host == "":
		row.Elsewhere = "another program holds the lock of the release"
	case args == nil:
		row.Elsewhere = "a recovery cannot be attached to"
	case here:
		row.Elsewhere = "attach with its own state folder (XDG_STATE_HOME)"
	default:
		row.Elsewhere = fmt.Sprintf("attach as %s on %s", h.User, h.Host)
	}
	if row.Elsewhere != "" {
		row.Why = "not controlled from here: " + row.Elsewhere
	}
	switch {
	case lock.Renewed:
	case here && !inCluster && hasEnded(h.Process):
		row.Status, row.Elsewhere = home.Killed, fmt.Sprintf("process %d has ended without releasing its lock", h.Process)
		row.Why = row.Elsewhere
	default:
		row.Why = "checking whether it is still running"
	}
	return row
}

// hasEnded reports whether a process of this machine certainly does not run any more.
func hasEnded(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer p.Release()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// elsewhere is 1 for a run in another namespace than the one that is shown.
func (l *liveRuns) elsewhere(r home.LiveRun) int {
	if l.namespace == "" || r.Namespace == "" || r.Namespace == l.namespace {
		return 0
	}
	return 1
}

func urgency(r home.LiveRun) int {
	return slices.Index([]event.Status{event.Waiting, event.Running, event.Degraded, event.Paused, event.Held}, r.Status)
}
