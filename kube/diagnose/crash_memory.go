package diagnose

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"lockstep/engine/plan"
)

// crashMemory remembers how a container of an object failed, and its log: a failed Job removes its pods, and a
// restarted container has no log yet. It also remembers UIDs, so that they are known after the object is deleted.
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

// storeCrash remembers the crash in a report. If the report has no log, it gets the remembered log of that container.
func (m crashMemory) storeCrash(b *reportBuilder) {
	if b.Pods[0].severity != crashed {
		return
	}
	uid := b.live.GetUID()
	if old, ok := m.crash(uid); ok && len(b.Logs) == 0 && old.pod.culprit == b.Pods[0].culprit {
		b.Logs = old.logs
	}
	m.crashes.Add(uid, crash{b.Pods[0], b.Logs})
}

// restoreCrash puts the remembered failed pod first if the object has no pods, or is a Job whose pods show no failure.
func (m crashMemory) restoreCrash(b *reportBuilder) {
	if len(b.Pods) > 0 && (b.Pods[0].severity > starting || b.live.GetKind() != "Job") {
		return
	}
	if old, ok := m.crash(b.live.GetUID()); ok && b.live.GetUID() != "" {
		b.Pods = append([]Pod{old.pod}, b.Pods...)
		b.Logs = old.logs
	}
}
