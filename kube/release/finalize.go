package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
)

// Rule R34: whatever ends an operation, its revision ends in a final state.
//
// Finalize marks the revision that an operation has made, or was about to
// uninstall, as failed where Helm left it in between. It returns what the record
// says then, event.NoRelease where there is none. Revisions of others are left
// alone: somebody may be at work on them.
func Finalize(s *storage.Storage, name string, w Written, cause error) (string, error) {
	rel, err := Get(s, name, w.Made)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return event.NoRelease, nil
	}
	if err != nil {
		return "", err
	}
	status := rel.Info.Status
	ours := w.Made == rel.Version && status.IsPending() || w.Uninstalling && status == rcommon.StatusUninstalling
	if !ours {
		return status.String(), nil
	}
	rel.SetStatus(rcommon.StatusFailed, fmt.Sprintf("Release %q failed: %v", rel.Name, cause))
	return rel.Info.Status.String(), s.Update(rel)
}

// Complete makes sure that the record of an operation that succeeded says so:
// that Helm could not write it is no error to Helm, but the release would stay
// pending (R34). It returns what the record says then.
func Complete(s *storage.Storage, name, operation string, w Written) (string, error) {
	rel, err := Get(s, name, w.Made)
	if err != nil {
		return "", err
	}
	if rel.Info.Status.IsPending() {
		rel.SetStatus(rcommon.StatusDeployed, strings.ToUpper(operation[:1])+operation[1:]+" complete")
		if err := s.Update(rel); err != nil {
			return "", err
		}
	}
	return rel.Info.Status.String(), nil
}

// Insist does something until it comes to an end without an error, or ctx ends.
func Insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
