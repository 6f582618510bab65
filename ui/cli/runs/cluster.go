package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/podutils"

	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/ui/cli/command"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// listClusterRuns prints the runs in the cluster.
func (a *app) listClusterRuns(cmd *cobra.Command, allNamespaces bool) error {
	namespace := a.Settings.Namespace()
	if allNamespaces {
		namespace = ""
	}
	_, found, err := a.clusterRuns(cmd.Context(), namespace)
	if err != nil {
		return err
	}
	list := report.ClusterRuns{Runs: make([]report.ClusterRun, len(found)), Namespace: namespace}
	var reading errgroup.Group
	reading.SetLimit(8)
	for i, r := range found {
		reading.Go(func() error {
			list.Runs[i] = report.ClusterRun{
				Release: r.Release, Namespace: r.Namespace, Operation: r.Command, StartedBy: r.By, Started: r.Started, State: r.State, Job: r.Name,
			}
			if state, why := clusterRunState(cmd.Context(), r); state != "" {
				list.Runs[i].State, list.Runs[i].Why = state, why
			}
			return nil
		})
	}
	_ = reading.Wait() // no function fails
	return a.Display(cmd).Show(list)
}

// clusterRunState returns from the log of a run whether it is paused or held, and why, or how it has ended: its Job ends later. It
// returns "" for a run that continues, or if its log cannot be read.
func clusterRunState(ctx context.Context, r incluster.Run) (state, why string) {
	if r.State != "running" {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	run, err := remote.Connect(r.Open(ctx, incluster.Wait{Why: func(*corev1.Pod) string { cancel(); return "" }}))
	if err != nil {
		return "", ""
	}
	defer run.Close()
	now := run.Now(ctx)
	switch {
	case now.Ended.IsZero():
		return standstill(now)
	case now.Exit == 0:
		return "succeeded", ""
	}
	return "failed", ""
}

// clusterRuns connects to the cluster and returns the runs in a namespace, or in all if it is
// empty.
func (a *app) clusterRuns(ctx context.Context, namespace string) (*kube.Client, []incluster.Run, error) {
	client, err := a.Connect()
	if err != nil {
		return nil, nil, err
	}
	found, err := client.ClusterRuns(ctx, namespace)
	if err != nil {
		if why := client.CheckReachable(ctx); why != nil {
			err = why
		}
	}
	return client, found, err
}

// connectClusterRun connects to the run of a release in the cluster, or to the only live one in
// the namespace if name is empty; name may also be that of its Job, because several stacks can have the same name. A run that has
// ended is available while its Job is kept. It waits for the run's pod until the limit.
func (a *app) connectClusterRun(cmd *cobra.Command, name string, limit time.Duration) (*remote.Run, error) {
	notFound := errors.New("no live run on this machine")
	if name != "" {
		notFound = fmt.Errorf("release %s has no live run on this machine", name)
	}
	client, found, err := a.clusterRuns(cmd.Context(), a.Settings.Namespace())
	if err != nil {
		return nil, fmt.Errorf("%w, and the cluster could not be searched: %w", notFound, err)
	}
	found = slices.DeleteFunc(found, func(r incluster.Run) bool {
		return name == "" && r.Ended() || name != "" && r.Release != name && r.Name != name
	})
	var live []string
	for _, r := range found {
		if !r.Ended() {
			live = append(live, fmt.Sprintf("%s (%s %s, started by %s)", r.Name, r.Command, r.Release, r.By))
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%w or in namespace %s of the cluster; list earlier runs with: "+text.Program+" runs", notFound, a.Settings.Namespace())
	case len(live) > 1:
		return nil, fmt.Errorf("%s in namespace %s; choose one by its Job: %s", text.Count(len(live), "live run"), a.Settings.Namespace(), strings.Join(live, ", "))
	case len(live) == 1:
		found = slices.DeleteFunc(found, incluster.Run.Ended)
	}
	run, err := ConnectJob(cmd.Context(), client, &found[0], limit, a.Display(cmd).Note)
	if err != nil {
		return nil, fmt.Errorf("attach to Job %s/%s: %w", found[0].Namespace, found[0].Name, err)
	}
	run.By = client.User(cmd.Context())
	return run, nil
}

const (
	// causeDelay is how long a pod must have waited for the same cause before it is reported.
	causeDelay = 2 * time.Second
	// waitGap is the time without a waiting pod after which the same cause is reported again.
	waitGap = 5 * time.Second
)

// podWait decides when to report why the pod of a run is not running.
type podWait struct {
	cause, reported string
	since, last     time.Time
}

// message returns a message to report, or "". cause is "" if the pod has started, or if the cause is unknown.
func (w *podWait) message(cause string, now time.Time) string {
	if now.Sub(w.last) > waitGap {
		*w = podWait{}
	}
	if w.last = now; cause != w.cause {
		w.cause, w.since = cause, now
	}
	if cause == w.reported || cause == "" || now.Sub(w.since) < causeDelay {
		return ""
	}
	w.reported = cause
	return "waiting for the Job's pod: " + cause
}

// ConnectJob connects to a run in the cluster as soon as its pod runs. Until then it calls note with the
// causes of the delay. Later causes, such as a drained node, become warnings of the run. It waits for the pod until the
// limit.
func ConnectJob(ctx context.Context, client *kube.Client, job *incluster.Run, limit time.Duration, note func(string)) (*remote.Run, error) {
	var started atomic.Pointer[remote.Run]
	var lastCause atomic.Value
	var wait podWait
	run, err := remote.Connect(job.Open(ctx, incluster.Wait{Limit: limit, Why: func(pod *corev1.Pod) string { // never called concurrently
		cause, unreadable := "", pod != nil && podutils.IsPodReady(pod)
		switch {
		case pod == nil:
			cause = client.WhyJobWaits(ctx, job)
		case !unreadable:
			cause = client.WhyPodWaits(ctx, pod)
		}
		message := wait.message(cause, time.Now())
		if run := started.Load(); cause != "" && run != nil {
			run.SetWaiting(cause)
		} else if cause != "" {
			lastCause.Store(cause)
		}
		switch run := started.Load(); {
		case message == "" || ctx.Err() != nil:
		case run != nil:
			run.Warn(message)
		default:
			note(message)
		}
		if unreadable {
			return "its log cannot be read"
		}
		return cause
	}}))
	started.Store(run)
	cause, _ := lastCause.Load().(string)
	return run, waitedForPod(err, cause)
}

// waitedForPod returns the error of a command that has reached its limit with what it waited for: a pod, which the run lacks because of
// cause. It returns other errors, and any if cause is "", unchanged.
func waitedForPod(err error, cause string) error {
	if limit, ok := errors.AsType[*command.BoundError](err); ok && cause != "" {
		return &command.BoundError{Limit: limit.Limit, Flag: limit.Flag, Why: "a pod that executes the run: " + cause}
	}
	return err
}

// clusterRecord reads the record of a run in the cluster from its log, up to the last event. name is
// the name of its Job or its release.
func (a *app) clusterRecord(ctx context.Context, name string) (*report.Record, error) {
	_, found, err := a.clusterRuns(ctx, a.Settings.Namespace())
	if err != nil {
		return nil, fmt.Errorf("no run named %s on this machine, and the cluster could not be searched: %w; list the runs with: "+text.Program+" runs", name, err)
	}
	i := slices.IndexFunc(found, func(r incluster.Run) bool { return r.Name == name || r.Release == name })
	if i < 0 {
		return nil, fmt.Errorf("no run named %s on this machine or in namespace %s of the cluster; list the runs with: "+text.Program+" runs, or "+text.Program+" runs -A for the whole cluster", name, a.Settings.Namespace())
	}
	job := found[i]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run, err := remote.Connect(job.Open(ctx, incluster.Wait{Why: func(*corev1.Pod) string {
		cancel(fmt.Errorf("no pod of the Job has a log; to wait for one: "+text.Program+" attach %s -n %s", text.ShellWord(job.Release), job.Namespace))
		return ""
	}}))
	if err != nil {
		return nil, fmt.Errorf("read the log of Job %s/%s: %w", job.Namespace, job.Name, cmp.Or(context.Cause(ctx), err))
	}
	defer run.Close()
	run.Now(ctx) // waits for all past events
	r, err := report.NewRecord(job.Name, run.Feed().Events())
	if err == nil && r.Outcome == report.Killed && !job.Ended() {
		r.Outcome = report.StillRunning
	}
	return r, err
}
