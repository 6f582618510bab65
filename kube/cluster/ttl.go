package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/status"
)

// expiringJob is a Job with ttlSecondsAfterFinished: the cluster deletes it after it has finished, possibly before lockstep
// observes the result. The result then comes from, in this order:
//
//   - the last observation. After an outage a watch continues where it stopped, so it misses the result only if the user may
//     not watch the Job, or if the resourceVersion has expired;
//   - the Job's Events, which say that it completed or why it failed, if they still exist and the user may read them.
//
// Without either, the Job counts as complete, with a warning: it looks the same as a Job that somebody deleted (R22).
type expiringJob struct {
	mu      sync.Mutex
	name    string
	uid     types.UID       // of the applied Job, "" before the apply
	version uint64          // after the apply
	end     run.Observation // the result, if it is known
	reading bool            // its Events are being read
}

// Expires reports whether an object is a Job with ttlSecondsAfterFinished.
func Expires(i *resource.Info) bool {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok || u.GetKind() != "Job" {
		return false
	}
	_, ttl, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished")
	return ttl
}

// HasRun reports whether a Job with ttlSecondsAfterFinished that does not exist ran in a revision with this status, before the
// cluster deleted it: a deployed revision created all its objects.
//
// It is expected to be gone, and no reason to deploy the release again (R22, S4).
func HasRun(revision rcommon.Status) bool { return revision == rcommon.StatusDeployed }

// begin forgets an earlier attempt. begin and applied do nothing for a nil Job.
func (j *expiringJob) begin() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.uid, j.version, j.end = "", 0, run.Observation{}
}

// applied sets the Job whose result counts from now on.
func (j *expiringJob) applied(i *resource.Info) {
	m, err := meta.Accessor(i.Object)
	if j == nil || err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.name, j.uid, j.version = i.Name, m.GetUID(), status.ParseVersion(i.ResourceVersion)
	if j.end.Version != 0 && j.end.Version < j.version { // the result of an earlier Job with the same name
		j.end = run.Observation{}
	}
}

// finished reports whether the Job of the last attempt is or was ready, and its version after the apply.
func (j *expiringJob) finished() (version uint64, ok bool) {
	if j == nil {
		return 0, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.version, j.uid != "" && j.end.Status == event.Ready
}

// deleted reports whether an observation says that somebody has deleted an object that is being applied, or was. A watch that began
// before the apply of a new object says first that it does not exist.
func (t *Target) deleted(a *attempts, ob run.Observation) bool {
	if ob.Status != event.Gone {
		a.existed.Store(true)
		return false
	}
	return t.send != nil && t.session.Gone != nil && a.count.Load() > 0 && (a.existed.Load() || t.session.Applied.UID(ob.Object) != "")
}

// report forwards an observation, after telling the object's hook its status. For an expired Job it reports the result
// instead of Gone. An object that was refused is ready only if somebody has made it what it was to be.
func (t *Target) report(ctx context.Context, ob run.Observation, to func(run.Observation)) {
	a := t.attempts[ob.Object]
	if h := t.hooks[ob.Object]; h != nil {
		h.SetStatus(ob.Status)
	} else if a != nil && t.deleted(a, ob) {
		t.session.Gone()
	}
	if a != nil {
		if n := a.reported.Add(1); ob.Status == event.Ready && a.refused.Load() && t.session.Applied.UID(ob.Object) == "" {
			t.session.RunWatcher.Watcher.Go(ctx, func(ctx context.Context) {
				if ob := t.compared(ctx, ob); a.reported.Load() == n {
					to(ob)
				}
			})
			return
		}
	}
	j := t.expiring[ob.Object]
	if j == nil || t.send == nil {
		to(ob)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case ob.Version != 0 && ob.Version < j.version: // observed before the apply
	case ob.Status == event.Ready || ob.Status == event.Failed:
		j.end = ob
	case ob.Status == event.Deleting && j.end.Status != "":
		return // it is expected, and the result stays known
	case ob.Status != event.Gone || j.uid == "":
	case j.end.Status == "":
		if !j.reading {
			j.reading = true
			name, uid := j.name, j.uid
			t.session.RunWatcher.Watcher.Go(ctx, func(ctx context.Context) { t.readResult(ctx, j, name, uid, ob, to) })
		}
		return
	default:
		ob = withResult(ob, j.end)
	}
	to(ob)
}

// withResult turns the observation that a Job is gone into one of its result.
func withResult(ob, end run.Observation) run.Observation {
	ob.Status, ob.Message, ob.ReadyBy = end.Status, end.Message, event.ByBuiltIn
	if end.Status == event.Ready {
		ob.Message = "finished, and removed by ttlSecondsAfterFinished"
	}
	return ob
}

// readResult finds out how an expired Job ended.
func (t *Target) readResult(ctx context.Context, j *expiringJob, name string, uid types.UID, ob run.Observation, report func(run.Observation)) {
	end, known := resultOf(ctx, t.session.Client, ob.Object.Namespace, name, uid)
	if ctx.Err() != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reading = false
	if j.uid != uid || end.Status == event.InProgress { // the Job was applied again, or it may still exist
		return
	}
	if !known {
		o := ob.Object
		t.session.Warn(plan.Warning{Rule: "R22", Object: &o, Message: fmt.Sprintf(
			"%s is gone and its result is unknown, probably because ttlSecondsAfterFinished removed it; counted as complete; "+
				"set a longer ttlSecondsAfterFinished so that lockstep can see the result", o)})
	}
	j.end = end
	report(withResult(ob, end))
}

// endReasons are the reasons of the Events that tell how a Job ended.
var endReasons = []string{"Completed", batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded,
	batchv1.JobReasonPodFailurePolicy, batchv1.JobReasonFailedIndexes, batchv1.JobReasonMaxFailedIndexesExceeded}

// resultOf returns the result of a Job that is gone; known is false if no Event shows it. The status is InProgress if the Job
// still exists, or if the API server does not respond before ctx ends or the retries run out.
func resultOf(ctx context.Context, c *connect.Client, namespace, name string, job types.UID) (end run.Observation, known bool) {
	end.Status = event.Ready
	if live, err := c.Clientset.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil && live.UID == job {
		end.Status = event.InProgress
		return end, true
	}
	list, err := c.Clientset.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(job)).String()})
	if err != nil {
		if answered := apierrors.APIStatus(nil); !errors.As(err, &answered) {
			end.Status = event.InProgress // a Job that failed during an outage must not count as complete
		}
		return end, false
	}
	for _, e := range list.Items {
		if !slices.Contains(endReasons, e.Reason) {
			continue
		}
		if e.Type == corev1.EventTypeWarning {
			end.Status, end.Message = event.Failed, "failed: "+e.Reason+": "+e.Message
		}
		return end, true
	}
	return end, false
}
