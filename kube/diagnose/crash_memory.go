package diagnose

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"lockstep/engine/plan"
)

// crashMemory remembers how a container of an object failed, and its log: a Job that gives up removes its pods, and a
// restarted container has no log yet. It also remembers UIDs, so that they are known after the deletion of an object.
type crashMemory struct {
	crashes *lru.Cache // crash by the object's types.UID
	uids    *lru.Cache // types.UID by plan.Object
}

type crash struct {
	pod  Pod
	logs []string
}

// uid returns the UID of an object that was read before, or "".
func (m crashMemory) uid(o plan.Object) types.UID {
	v, _ := m.uids.Get(o)
	uid, _ := v.(types.UID)
	return uid
}

func (m crashMemory) crash(uid types.UID) (c crash, ok bool) {
	v, _ := m.crashes.Get(uid)
	c, ok = v.(crash)
	return c, ok
}

// keep remembers the crash that an inquiry found. An empty log is replaced by the remembered one of the same container.
func (m crashMemory) keep(q *inquiry) {
	if q.Pods[0].severity != crashed {
		return
	}
	uid := q.live.GetUID()
	if old, ok := m.crash(uid); ok && len(q.Logs) == 0 && old.pod.culprit == q.Pods[0].culprit {
		q.Logs = old.logs
	}
	m.crashes.Add(uid, crash{q.Pods[0], q.Logs})
}

// restoreCrash puts the remembered failed pod first if no existing pod shows a failure: a Job's pods may be gone or
// running again.
func (m crashMemory) restoreCrash(q *inquiry) {
	if len(q.Pods) > 0 && (q.Pods[0].severity > starting || q.live.GetKind() != "Job") {
		return
	}
	if old, ok := m.crash(q.live.GetUID()); ok && q.live.GetUID() != "" {
		q.Pods = append([]Pod{old.pod}, q.Pods...)
		q.Logs = old.logs
	}
}
