package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// expiringJob is a Job that removes itself once it has finished
// (ttlSecondsAfterFinished). It may be gone before anybody has seen how it
// ended. What can be known then is, in this order:
//
//   - how it was seen last. A watch continues where it was cut, so that an API
//     server that was away hides nothing; what hides an end is a Job that may
//     not be watched, or a version that has expired meanwhile;
//   - the Job's Events, which say that it completed or why it failed, as long
//     as the cluster keeps them and where they may be read.
//
// With neither it counts as complete, with a warning: a Job that somebody has
// deleted looks the same then (R22).
type expiringJob struct {
	mu      sync.Mutex
	name    string
	uid     types.UID       // of the Job that was applied, "" before that
	version uint64          // that it had then
	end     run.Observation // how it ended, if that is known
	busy    bool            // Events are being read
}

// begin forgets an earlier attempt. It and applied do nothing for an object
// that does not remove itself.
func (j *expiringJob) begin() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.uid, j.version, j.end = "", 0, run.Observation{}
}

// applied tells which Job counts from now on.
func (j *expiringJob) applied(i *resource.Info) {
	m, err := meta.Accessor(i.Object)
	if j == nil || err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.name, j.uid, j.version = i.Name, m.GetUID(), manifest.Version(i.ResourceVersion)
	if j.end.Version != 0 && j.end.Version < j.version { // that of an earlier Job of the name
		j.end = run.Observation{}
	}
}

// report passes on what was seen of an object, and of a Job that has removed itself
// how it ended.
func (t *Target) report(ctx context.Context, ob run.Observation, to func(run.Observation)) {
	if h := t.hooks[ob.Object]; h != nil {
		h.SetStatus(ob.Status)
	}
	j := t.expiring[ob.Object]
	if j == nil || t.send == nil {
		to(ob)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case ob.Version != 0 && ob.Version < j.version: // older than its apply
	case ob.Status == event.Ready || ob.Status == event.Failed:
		j.end = ob
	case ob.Status != event.Gone || j.uid == "":
	case j.end.Status == "":
		if !j.busy {
			j.busy = true
			name, uid := j.name, j.uid
			t.s.RunWatcher.Watcher.Go(ctx, func(ctx context.Context) { t.readPast(ctx, j, name, uid, ob, to) })
		}
		return
	default:
		ob = removed(ob, j.end)
	}
	to(ob)
}

// removed is what is told of a Job that has ended and removed itself.
func removed(ob, end run.Observation) run.Observation {
	ob.Status, ob.Message = end.Status, end.Message
	if end.Status == event.Ready {
		ob.Message = "finished, and removed by ttlSecondsAfterFinished"
	}
	return ob
}

// readPast finds out how a Job ended that is gone.
func (t *Target) readPast(ctx context.Context, j *expiringJob, name string, uid types.UID, ob run.Observation, report func(run.Observation)) {
	end, known := endOf(ctx, t.s.Client, ob.Object.Namespace, name, uid)
	if ctx.Err() != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy = false
	if j.uid != uid || end.Status == event.InProgress { // tried again, or not gone
		return
	}
	if !known {
		o := ob.Object
		t.s.Warn(plan.Warning{Rule: "R22", Object: &o, Message: fmt.Sprintf(
			"%s: removed by ttlSecondsAfterFinished before its result was seen; counted as complete", o)})
	}
	j.end = end
	report(removed(ob, end))
}

// ends are the reasons of the Events that tell how a Job has ended.
var ends = []string{"Completed", batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded,
	batchv1.JobReasonPodFailurePolicy, batchv1.JobReasonFailedIndexes, batchv1.JobReasonMaxFailedIndexesExceeded}

// endOf tells how a Job that is gone has ended, or InProgress for one that is
// there after all. It is known where an Event says so.
func endOf(ctx context.Context, c *connect.Client, namespace, name string, job types.UID) (end run.Observation, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	end.Status = event.Ready
	if there, err := c.Clientset.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil && there.UID == job {
		end.Status = event.InProgress
		return end, true
	}
	list, err := c.Clientset.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(job)).String()})
	if err != nil {
		return end, false
	}
	for _, e := range list.Items {
		if !slices.Contains(ends, e.Reason) {
			continue
		}
		if e.Type == corev1.EventTypeWarning {
			end.Status, end.Message = event.Failed, "failed: "+e.Reason+": "+e.Message
		}
		return end, true
	}
	return end, false
}
