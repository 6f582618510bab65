package release

import (
	"context"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/lease"
)

// countedStore counts its lists.
type countedStore struct {
	*secretStore
	lists int
}

func (c *countedStore) List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	c.lists++
	return c.secretStore.List(ctx, opts)
}

// TestSharedRead: the records are read once for several reads, and again where somebody else may have had time to write, or the run
// has written.
func TestSharedRead(t *testing.T) {
	for name, tt := range map[string]struct {
		between func(l *Ledger, s *storage.Storage)
		sent    int // lists after the first one
	}{
		"at once":         {func(*Ledger, *storage.Storage) {}, 0},
		"read again":      {func(l *Ledger, _ *storage.Storage) { l.ReadAgain() }, 1},
		"after the lock":  {func(l *Ledger, _ *storage.Storage) { l.ReadOnce() }, 1},
		"after a wait":    {func(l *Ledger, _ *storage.Storage) { l.Waited() }, 1},
		"later, planning": {func(l *Ledger, _ *storage.Storage) { l.last.now = later }, 0},
		"later, running":  {func(l *Ledger, _ *storage.Storage) { l.Seal(time.Time{}); l.last.now = later }, 1},
		"after a write":   {func(_ *Ledger, s *storage.Storage) { _ = s.Update(record(1, rcommon.StatusSuperseded)) }, 1},
		"after a delete":  {func(_ *Ledger, s *storage.Storage) { _, _ = s.Driver.Delete(keyOf(2)) }, 1},
		"lost":            {func(l *Ledger, _ *storage.Storage) { l.lost = &lease.LostError{} }, 1},
		"one status":      {func(_ *Ledger, s *storage.Storage) { mustBeFirst(t, s) }, 0},
		"all releases":    {func(_ *Ledger, s *storage.Storage) { _, _ = s.ListReleases() }, 1},
	} {
		store, l := &countedStore{secretStore: newSecretStore()}, NewLedger("ns", "r")
		other := driver.NewSecrets(store.secretStore)
		_ = other.Create(keyOf(1), record(1, rcommon.StatusDeployed))
		_ = other.Create(keyOf(2), record(2, rcommon.StatusFailed))
		s := storage.Init(newDecodedDriver(func(listed func(string)) driver.Driver { return driver.NewSecrets(newSecrets(store, l, listed)) }))
		l.ReadOnce()
		read := func() []*rel1.Release {
			revs, found, err := Read(s, "r")
			if err != nil || !found {
				t.Fatalf("%s: %v, %v", name, found, err)
			}
			return revs.All
		}
		first := read()[0]
		first.Info.Status, first.Labels["status"] = rcommon.StatusUnknown, "changed" // as marks and Helm do
		tt.between(l, s)
		again := read()[0]
		if store.lists != 1+tt.sent {
			t.Errorf("%s: %d lists", name, store.lists)
		}
		if again.Info.Status == rcommon.StatusUnknown || again.Labels["status"] == "changed" {
			t.Errorf("%s: a read shows what a reader of an earlier one has changed", name)
		}
	}
}

// mustBeFirst checks that revision 1 is the one that is deployed.
func mustBeFirst(t *testing.T, s *storage.Storage) {
	t.Helper()
	rel, err := s.Deployed("r")
	if v1, _ := rel.(*rel1.Release); err != nil || v1 == nil || v1.Version != 1 {
		t.Errorf("deployed: %v, %v", rel, err)
	}
}

func later() time.Time { return time.Now().Add(2 * maxLookAge) }

// TestSharedReadWithoutRecords: that a release does not exist is known from one read, too.
func TestSharedReadWithoutRecords(t *testing.T) {
	store, l := &countedStore{secretStore: newSecretStore()}, NewLedger("ns", "r")
	s := storage.Init(driver.NewSecrets(newSecrets(store, l, func(string) {})))
	l.ReadOnce()
	for range 3 {
		if _, found, err := Read(s, "r"); found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
	}
	if store.lists != 1 {
		t.Errorf("%d lists", store.lists)
	}
}
