package release

import (
	"context"
	"fmt"
	"strings"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
)

// Finalize marks the revision of an operation as failed, if Helm left it pending or uninstalling, or if it is deployed and its tests
// have not passed (untested, 0 for none). It returns the resulting status in the record, event.NoRelease if there is none. It does
// not change revisions of other runs.
//
// If a request that creates the revision may still arrive, Finalize creates the revision as failed,
// so that the request is refused.
//
// Rule R34: whatever ends an operation, its revision ends in a final state.
func Finalize(s *storage.Storage, name string, w WriteResult, untested int, cause error) (string, error) {
	rel, found, err := Get(s, name, w.Created)
	switch {
	case err != nil:
		return "", err
	case !found && w.Unconfirmed == nil:
		return event.NoRelease, nil
	case !found:
		w.Unconfirmed.SetStatus(rcommon.StatusFailed, describeFailure(name, w.Unconfirmed.Info.Status, cause))
		return rcommon.StatusFailed.String(), s.Create(w.Unconfirmed)
	}
	status := rel.Info.Status
	ours := w.Created == rel.Version && status.IsPending() || w.Uninstalling && status == rcommon.StatusUninstalling ||
		untested == rel.Version && status == rcommon.StatusDeployed
	if !ours {
		return status.String(), nil
	}
	rel.SetStatus(rcommon.StatusFailed, describeFailure(name, status, cause))
	return rel.Info.Status.String(), s.Update(rel)
}

// describeFailure returns the description that Helm gives a revision that fails in a status; for an uninstallation, Helm has none.
func describeFailure(name string, was rcommon.Status, cause error) string {
	what := fmt.Sprintf("Release %q", name)
	switch was {
	case rcommon.StatusPendingUpgrade:
		what = fmt.Sprintf("Upgrade %q", name)
	case rcommon.StatusUninstalling:
		what = fmt.Sprintf("Uninstall of %q", name)
	}
	return fmt.Sprintf("%s failed: %v", what, cause)
}

// Unsure reports whether a write of a record may have been lost although Helm returned no error.
func (w WriteResult) Unsure() bool {
	createLost := w.Created > 0 && w.Err != nil
	uninstallLost := w.Uninstalling && w.Status != event.NoRelease && w.Status != rcommon.StatusUninstalled.String()
	return createLost || uninstallLost || len(w.Others) > 0
}

// Complete makes sure that the record of a successful operation has its final status, and returns
// that status. Helm ignores errors of these writes, so the release could stay pending or uninstalling
// (R34), or have two deployed revisions (R32a).
func Complete(s *storage.Storage, name, operation string, w WriteResult) (string, error) {
	rel, found, err := Get(s, name, w.Created)
	switch {
	case err != nil:
		return "", err
	case !found && w.Uninstalling:
		return event.NoRelease, nil
	case !found:
		return "", driver.ErrReleaseNotFound
	}
	switch status := rel.Info.Status; {
	case status.IsPending() && w.Created == rel.Version:
		rel.SetStatus(rcommon.StatusDeployed, strings.ToUpper(operation[:1])+operation[1:]+" complete")
		err = s.Update(rel)
	case status == rcommon.StatusUninstalling && w.Uninstalling:
		rel.SetStatus(rcommon.StatusUninstalled, "Uninstallation complete")
		err = s.Update(rel)
	}
	if err != nil {
		return "", err
	}
	for _, version := range w.Others {
		if err := supersede(s, name, version); err != nil {
			return "", err
		}
	}
	return rel.Info.Status.String(), nil
}

func supersede(s *storage.Storage, name string, version int) error {
	rel, found, err := Get(s, name, version)
	if err != nil || !found || rel.Info.Status != rcommon.StatusDeployed { // Helm deletes the oldest revisions
		return err
	}
	rel.Info.Status = rcommon.StatusSuperseded
	return s.Update(rel)
}

// Retry calls do until it succeeds, returns a permanent error (R53), or ctx ends.
func Retry(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || permanent(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
