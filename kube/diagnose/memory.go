package diagnose

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
)

// recollection keeps how a container of an object has failed, and what it had to say: a Job
// that gives up removes its pods, and a container that starts anew has no log yet. Its
// zero value is ready to use.
type recollection struct {
	mu      sync.Mutex
	crashes map[types.UID]crash // by the object's
	uids    map[plan.Object]types.UID
}

type crash struct {
	pod  Pod
	logs []string
}

// mostCrashes is how many objects are remembered with how they failed, mostSeen those
// of which it is only known which ones they were.
const (
	mostCrashes = 1000
	mostSeen    = 20000
)

// saw remembers which one an object is, for when it is gone.
func (m *recollection) saw(o plan.Object, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uids == nil || len(m.uids) >= mostSeen {
		m.uids = map[plan.Object]types.UID{}
	}
	m.uids[o] = uid
}

// uid is that of an object that was seen, empty where it was not.
func (m *recollection) uid(o plan.Object) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uids[o]
}

// keep remembers the crash that an inquiry has found. Where the log says nothing any
// more, that of the same container before it counts.
func (m *recollection) keep(q *inquiry) {
	if q.Pods[0].trouble != crashed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := q.live.GetUID()
	if old, ok := m.crashes[uid]; ok && len(q.Logs) == 0 && old.pod.culprit == q.Pods[0].culprit {
		q.Logs = old.logs
	}
	if m.crashes == nil || len(m.crashes) >= mostCrashes {
		m.crashes = map[types.UID]crash{}
	}
	m.crashes[uid] = crash{q.Pods[0], q.Logs}
}

// recall puts the pod that is remembered to have failed before those that are there,
// where none of them tells anything: of a Job whose pods are gone, or run again.
func (m *recollection) recall(q *inquiry) {
	if len(q.Pods) > 0 && (q.Pods[0].trouble > young || q.live.GetKind() != "Job") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.crashes[q.live.GetUID()]; ok && q.live.GetUID() != "" {
		q.Pods = append([]Pod{old.pod}, q.Pods...)
		q.Logs = old.logs
	}
}
