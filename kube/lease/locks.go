package lease

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Selector matches the Leases of lockstep.
const Selector = managedBy + "=lockstep"

const (
	managedBy  = "app.kubernetes.io/managed-by"
	namePrefix = "lockstep.v1."
)

// Locks are the locks of many releases, as a watch of their Leases shows them. The zero value is ready to use.
type Locks struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]seenLease
}

// seenLease is the latest version of a Lease that has arrived here, and when.
type seenLease struct {
	*coordinationv1.Lease
	at      time.Time
	renewed bool // a version before it has arrived, too: its holder was alive
}

// Put takes the latest version of a Lease, or its deletion. A watch that is opened again may repeat a version.
func (l *Locks) Put(object *coordinationv1.Lease, deleted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[types.NamespacedName]seenLease{}
	}
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	before, known := l.seen[key]
	switch {
	case deleted:
		delete(l.seen, key)
	case !known || before.ResourceVersion != object.ResourceVersion:
		l.seen[key] = seenLease{object, time.Now(), known && before.UID == object.UID}
	}
}

// LiveLock is a lock whose Lease has not expired, by the clock of this machine.
type LiveLock struct {
	Lock
	// Renewed is set once its Lease has changed while it was followed: its run is alive. Before, that is unknown.
	Renewed bool
}

// Live returns the locks whose Leases have not expired since they last changed, sorted by namespace and release.
func (l *Locks) Live() (live []LiveLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, s := range l.seen {
		release, ours := strings.CutPrefix(key.Name, namePrefix)
		if ours && ptr.Deref(s.Spec.HolderIdentity, "") != "" && time.Since(s.at) < durationOf(s.Lease) {
			live = append(live, LiveLock{Lock{release, key.Namespace, HolderOf(s.Lease)}, s.renewed})
		}
	}
	slices.SortFunc(live, func(a, b LiveLock) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Release, b.Release))
	})
	return live
}
