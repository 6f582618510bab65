package release

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

var errChanged = errors.New("the records have changed")

// recheck returns the known records if the revision that this run works on is unchanged and still the newest, by two reads of
// single records. A list can take 100 ms: the API server answers it from its cache, which must first catch up with the last
// write. Two reads are enough while that revision is pending or being uninstalled: whoever takes the release then changes or
// deletes its record, or creates the one with the next number, which Helm removes only after this one.
func (l *Ledger) recheck(ctx context.Context, records metadata.ResourceInterface) (all Snapshots, unchanged bool) {
	all, latest := l.inProgress()
	if latest.revision == 0 {
		return nil, false
	}
	read := func(revision int) (*metav1.PartialObjectMetadata, error) {
		return records.Get(ctx, Keys(l.release, []int{revision})[0], metav1.GetOptions{})
	}
	var reads errgroup.Group
	reads.Go(func() error {
		o, err := read(latest.revision)
		if err != nil {
			return err
		}
		if s, ok := l.record(o); !ok || s != latest {
			return errChanged
		}
		return nil
	})
	reads.Go(func() error {
		_, err := read(latest.revision + 1)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errChanged
		}
		return err
	})
	return all, reads.Wait() == nil
}

// inProgress returns the known records and the newest of them, if the run works on that one and the state of each is certain;
// else latest is zero.
func (l *Ledger) inProgress() (all Snapshots, latest snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for revision, e := range l.entries {
		if e.uid == "" || e.status == "" || e.deleting || len(e.sent) > 0 {
			return nil, snapshot{}
		}
		s := snapshot{revision, e.status, e.uid, e.version, e.span}
		if all = append(all, s); revision > latest.revision {
			latest = s
		}
	}
	if !l.sealed || !latest.status.IsPending() && latest.status != rcommon.StatusUninstalling {
		return nil, snapshot{}
	}
	return all, latest
}
