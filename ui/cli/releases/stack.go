package releases

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/helmfile"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

// maxReads is how many releases of a stack are read concurrently.
const maxReads = 8

// stackStatus prints a line for each release of a helmfile. A release that cannot be read, such as one in a cluster that is away, hides no
// other one (S8).
func (a *app) stackStatus(cmd *cobra.Command, flags *input.HelmfileFlags) error {
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return err
	}
	clients, err := kube.Connections(cmd.Context(), file, a.ConnectTo)
	if err != nil {
		return err
	}
	rows := make([]report.ReleaseStatus, len(file.Releases))
	errs := make([]error, len(rows))
	var reads errgroup.Group
	reads.SetLimit(maxReads)
	for i, rel := range file.Releases {
		reads.Go(func() error {
			if rows[i], errs[i] = readStatus(cmd.Context(), clients[i], rel); errs[i] != nil {
				rows[i].Status, errs[i] = "unknown", helmfile.Locate(rel.At, rel.ID(), errs[i])
			}
			return nil
		})
	}
	_ = reads.Wait() // no function fails
	failed := errors.Join(errs...)
	if failed != nil && !slices.Contains(errs, nil) {
		return failed
	}
	return errors.Join(a.Display(cmd).Show(report.StackStatus(rows)), failed)
}

// readStatus reads the status of a release and its objects.
func readStatus(ctx context.Context, c *kube.Client, rel helmfile.Release) (report.ReleaseStatus, error) {
	row := report.ReleaseStatus{Release: rel.ID(), Status: "not installed"}
	view, err := c.PrepareView(ctx, rel.Name, cmp.Or(rel.Namespace, c.Namespace()), 0)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return row, nil
	}
	if err != nil {
		return row, err
	}
	state, err := ReadOnce(ctx, view)
	if err != nil {
		return row, err
	}
	row.Status, row.Revision, row.Chart = state.Message, state.Operation.Revision, state.Operation.Chart
	for g := range state.GroupStates() {
		row.Groups++
		// A group of a deployed release is gone if it has only Jobs that ttlSecondsAfterFinished deleted.
		if g.Status == event.Ready || g.Status == event.Gone && row.Status == string(rcommon.StatusDeployed) {
			row.Ready++
		} else if row.Problem == "" {
			row.Problem = g.ID + " " + string(g.Status)
			if g.Status == event.Running { // some objects are ready, none has failed
				row.Problem = g.ID + " in progress"
			}
		}
	}
	return row, nil
}
