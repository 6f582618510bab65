package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"lockstep/kube"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// clusterRuns lists the runs in the cluster.
func (a *app) clusterRuns(cmd *cobra.Command, everywhere bool, mode report.Mode) error {
	client, err := kube.Connect(a.Settings, slog.Default(), nil)
	if err != nil {
		return err
	}
	namespace := a.Settings.Namespace()
	if everywhere {
		namespace = ""
	}
	found, err := client.ClusterRuns(cmd.Context(), namespace)
	if err != nil {
		return err
	}
	list := report.ClusterRuns{}
	for _, r := range found {
		list = append(list, report.ClusterRun{Release: r.Release, Namespace: r.Namespace, Operation: r.Command, StartedBy: r.By, Started: r.Started, State: r.State, Job: r.Name})
	}
	return a.Display(cmd, mode).Show(list)
}

// joinClusterRun attaches to the run of a release in the cluster, or to the only live one of
// the namespace if name is empty. One that has ended is shown as long as its Job is kept.
func (a *app) joinClusterRun(cmd *cobra.Command, name string) (*remote.Run, error) {
	none := errors.New("no live run on this machine")
	if name != "" {
		none = fmt.Errorf("no live run of %s on this machine", name)
	}
	client, err := kube.Connect(a.Settings, slog.Default(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster was not asked: %w", none, err)
	}
	found, err := client.ClusterRuns(cmd.Context(), a.Settings.Namespace())
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster was not asked: %w", none, err)
	}
	found = slices.DeleteFunc(found, func(r kube.ClusterRun) bool { return name != "" && r.Release != name || name == "" && r.Over() })
	switch live := slices.IndexFunc(found, func(r kube.ClusterRun) bool { return !r.Over() }); {
	case len(found) == 0:
		return nil, fmt.Errorf("%w, and none in namespace %s of the cluster", none, a.Settings.Namespace())
	case name == "" && len(found) > 1:
		return nil, fmt.Errorf("several live runs in namespace %s; name the release", a.Settings.Namespace())
	case live >= 0:
		found = found[live:]
	}
	run, err := Open(cmd.Context(), client, &found[0], a.Display(cmd, report.ModeText).Note)
	if err != nil {
		return nil, fmt.Errorf("attach to Job %s/%s: %w", found[0].Namespace, found[0].Name, err)
	}
	run.By = client.User(cmd.Context())
	return run, nil
}

const (
	// lasting is how long a cause lasts before it is worth a line.
	lasting = 2 * time.Second
	// pause is how long no wait is seen before the next one is another.
	pause = 5 * time.Second
)

// waitingPod reports why a run in the cluster has no running pod.
type waitingPod struct {
	why, reported string
	since, last   time.Time
}

// next returns a cause to report, "" for none.
func (w *waitingPod) next(why string, now time.Time) string {
	if now.Sub(w.last) > pause {
		*w = waitingPod{}
	}
	if w.last = now; why != w.why {
		w.why, w.since = why, now
	}
	if why == w.reported || why == "" || why == "ready" || now.Sub(w.since) < lasting {
		return ""
	}
	w.reported = why
	return "waiting for the Job's pod: " + why
}

// Open connects to a run in the cluster once it has started. Meanwhile note gets the causes
// of waiting. Later ones, such as a drained node, become warnings of the run.
func Open(ctx context.Context, client *kube.Client, job *kube.ClusterRun, note func(string)) (*remote.Run, error) {
	var started atomic.Pointer[remote.Run]
	var waits waitingPod
	run, err := remote.Connect(job.Open(ctx, func(pod *corev1.Pod) { // one call at a time
		why := ""
		if pod != nil {
			why = client.WhyPodWaits(ctx, pod)
		} else {
			why = client.WhyJobWaits(ctx, job)
		}
		message := waits.next(why, time.Now())
		switch run := started.Load(); {
		case message == "" || ctx.Err() != nil:
		case run != nil:
			run.Warn(message)
		default:
			note(message)
		}
	}))
	started.Store(run)
	return run, err
}

// clusterRecord makes a record of a run in the cluster, which is named by its Job or its
// release, from its log up to now. missing is why there is none on this machine.
func (a *app) clusterRecord(ctx context.Context, name string, missing error) (*report.Record, error) {
	client, err := kube.Connect(a.Settings, slog.Default(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster was not asked: %w", missing, err)
	}
	found, err := client.ClusterRuns(ctx, a.Settings.Namespace())
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster was not asked: %w", missing, err)
	}
	at := slices.IndexFunc(found, func(r kube.ClusterRun) bool { return r.Name == name || r.Release == name })
	if at < 0 {
		return nil, fmt.Errorf("%w, and no run of that name in namespace %s of the cluster", missing, a.Settings.Namespace())
	}
	job := found[at]
	if job.State == "waiting" || job.State == "suspended" {
		return nil, fmt.Errorf("no pod of Job %s/%s is running, so there is no log to read; to wait for one: lockstep attach %s -n %s", job.Namespace, job.Name, job.Release, job.Namespace)
	}
	run, err := remote.Connect(job.Open(ctx, nil))
	if err != nil {
		return nil, fmt.Errorf("read the log of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	defer run.Close()
	run.Now(ctx) // waits until all past events have come
	return report.NewRecord(job.Name, run.Feed().Events())
}
