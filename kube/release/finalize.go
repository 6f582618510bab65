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

// Rule R34: whatever ends an operation, its revision ends in a final state.
//
// Finalize marks the revision that an operation has made, or was about to
// uninstall, as failed where Helm left it in between. It returns what the record
// says then, event.NoRelease if there is none. Revisions of others are left
// alone: somebody may be at work on them.
//
// Where the request that was to make the revision may still be on its way, the
// failed revision is made here, so that the request finds its place taken.
func Finalize(s *storage.Storage, name string, w Written, cause error) (string, error) {
	description := fmt.Sprintf("Release %q failed: %v", name, cause)
	rel, found, err := Get(s, name, w.Made)
	switch {
	case err != nil:
		return "", err
	case !found && w.Unanswered == nil:
		return event.NoRelease, nil
	case !found:
		w.Unanswered.SetStatus(rcommon.StatusFailed, description)
		return rcommon.StatusFailed.String(), s.Create(w.Unanswered)
	}
	status := rel.Info.Status
	ours := w.Made == rel.Version && status.IsPending() || w.Uninstalling && status == rcommon.StatusUninstalling
	if !ours {
		return status.String(), nil
	}
	rel.SetStatus(rcommon.StatusFailed, description)
	return rel.Info.Status.String(), s.Update(rel)
}

// Unsure reports whether a change of the record may not have been stored although
// Helm has told of no error.
func (w Written) Unsure() bool {
	return w.Made > 0 && w.Err != nil || w.Uninstalling && w.Status != event.NoRelease && w.Status != rcommon.StatusUninstalled.String() || len(w.Others) > 0
}

// Complete makes sure that the record of an operation that succeeded says so,
// and returns what it says: that Helm could not write it is no error to Helm, but
// the release would stay pending or uninstalling (R34), or have two revisions
// that are deployed (R32a).
func Complete(s *storage.Storage, name, operation string, w Written) (string, error) {
	rel, found, err := Get(s, name, w.Made)
	switch {
	case err != nil:
		return "", err
	case !found && w.Uninstalling:
		return event.NoRelease, nil
	case !found:
		return "", driver.ErrReleaseNotFound
	}
	switch status := rel.Info.Status; {
	case status.IsPending() && w.Made == rel.Version:
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

// supersede marks a revision that another one has taken the place of.
func supersede(s *storage.Storage, name string, version int) error {
	rel, found, err := Get(s, name, version)
	if err != nil || !found || rel.Info.Status != rcommon.StatusDeployed { // one that is not found was pruned
		return err
	}
	rel.Info.Status = rcommon.StatusSuperseded
	return s.Update(rel)
}

// Insist does something until it comes to an end without an error, with one that
// does not pass (R53), or ctx ends.
func Insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
