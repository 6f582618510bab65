package lease

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestLocks: a lock is live until its Lease expires without a renewal; a repeated version is no renewal, and a Lease of something
// else is no lock.
func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		held := acquire(t, s, upgrade, Options{})
		defer release(t, held)
		first := s.lease("r")
		first.Namespace = "ns"
		var locks Locks
		expect := func(when string, n int, renewed bool) {
			t.Helper()
			live := locks.Live()
			if len(live) != n || n > 0 && (live[0].Renewed != renewed || live[0].Release != "r" || live[0].Namespace != "ns" || live[0].Holder != held.self) {
				t.Errorf("%s: %+v", when, live)
			}
		}
		other := first.DeepCopy()
		other.Name = "node-1"
		locks.Put(other, false)
		expect("a Lease of something else", 0, false)
		locks.Put(first, false)
		expect("at first", 1, false)
		time.Sleep(6 * time.Second)
		next := s.lease("r")
		next.Namespace = "ns"
		locks.Put(next, false)
		expect("after a renewal", 1, true)
		time.Sleep(14 * time.Second)
		locks.Put(next.DeepCopy(), false)
		expect("after the same version again", 1, true)
		time.Sleep(2 * time.Second)
		expect("without a renewal", 0, false)
		locks.Put(next, true)
		locks.Put(&coordinationv1.Lease{ObjectMeta: next.ObjectMeta}, false)
		expect("without a holder", 0, false)
	})
}
