package diagnose

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
)

// crashMemory remembers how a container of an object failed, and its log: a Job that gives up removes its pods, and a
// restarted container has no log yet. The zero value is ready to use.
type crashMemory struct {
	mu      sync.Mutex
	crashes map[types.UID]crash // by the object's UID
	uids    map[plan.Object]types.UID
}

type crash struct {
	pod  Pod
	logs []string
}

// Limits of a crashMemory.
const (
	maxCrashes = 1000
	maxUIDs    = 20000
)

// rememberUID stores the UID of an object, so that it is still known after its deletion.
func (m *crashMemory) rememberUID(o plan.Object, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uids == nil || len(m.uids) >= maxUIDs {
		m.uids = map[plan.Object]types.UID{}
	}
	m.uids[o] = uid
}

// uid returns the UID of an object that was read before, or "".
func (m *crashMemory) uid(o plan.Object) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uids[o]
}

// keep remembers the crash that an inquiry found. An empty log is replaced by the
// remembered one of the same container.
func (m *crashMemory) keep(q *inquiry) {
	if q.Pods[0].severity != crashed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := q.live.GetUID()
	if old, ok := m.crashes[uid]; ok && len(q.Logs) == 0 && old.pod.culprit == q.Pods[0].culprit {
		q.Logs = old.logs
	}
	if m.crashes == nil || len(m.crashes) >= maxCrashes {
		m.crashes = map[types.UID]crash{}
	}
	m.crashes[uid] = crash{q.Pods[0], q.Logs}
}

// restoreCrash puts the remembered failed pod first if no existing pod shows a failure:
// a Job's pods may be gone or running again.
func (m *crashMemory) restoreCrash(q *inquiry) {
	if len(q.Pods) > 0 && (q.Pods[0].severity > starting || q.live.GetKind() != "Job") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.crashes[q.live.GetUID()]; ok && q.live.GetUID() != "" {
		q.Pods = append([]Pod{old.pod}, q.Pods...)
		q.Logs = old.logs
	}
}
