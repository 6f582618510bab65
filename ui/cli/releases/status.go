package releases

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	"helm.sh/helm/v4/pkg/release"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/likehelm"
	"lockstep/ui/report"
)

const statusLong = `Print the status of a release as "helm status" does. For a release deployed in order, also print its groups, how long
each took, and the current state of its objects.

Without NAME, print a line for each release of a helmfile: the one of -f, or of the current directory.

-o json and -o yaml add the field "groups": id, chart, name, layer, after, status, message, objects, and ran (status,
started, seconds).`

// lookTime is how long status waits for a first look at every object.
const lookTime = 30 * time.Second

// explainTime is how long it then waits for the causes of objects that are not ready.
const explainTime = 5 * time.Second

func (a *app) newStatus() *cobra.Command {
	var stack command.HelmfileFlags
	cmd := &cobra.Command{
		Use:     "status NAME",
		GroupID: "release",
		Short:   "show the status of a release and its groups",
		Long:    statusLong,
		Example: `lockstep status shop -n shop
lockstep status shop -n shop -o json | jq '.groups[] | {id, status}'
lockstep status -f helmfile.yaml`,
		Args:              command.OrHelmfile(command.Args(1, 1)),
		ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.stackStatus(cmd, &stack)
			}
			return a.status(cmd, args[0])
		},
	}
	stack.Add(cmd)
	a.addRevision(cmd)
	addHelmOutput(cmd)
	f := cmd.Flags()
	f.Bool("show-resources", false, "no effect: resources are always shown")
	_ = f.MarkHidden("show-resources") // defined above
	return cmd
}

func (a *app) status(cmd *cobra.Command, name string) error {
	helms, err := a.likeHelm(cmd, a.Settings.Namespace(), func(out *bytes.Buffer) error { return a.helmStatus(cmd, out, name) })
	if err != nil {
		return err
	}
	d := a.helmDisplay(cmd)
	groups, secrets, err := a.groupsNow(cmd, name)
	switch {
	case cmd.Context().Err() != nil:
		return context.Cause(cmd.Context())
	case err != nil:
		d.Warn("cannot show the groups: " + err.Error())
	}
	return d.Status([]byte(secrets.Text(helms.String())), groups)
}

// helmStatus prints the output of "helm status".
func (a *app) helmStatus(cmd *cobra.Command, out *bytes.Buffer, name string) error {
	format := helmFormat(cmd)
	status := action.NewStatus(a.Helm)
	status.Version = revisionOf(cmd)
	status.ShowResourcesTable = format == output.Table
	found, err := status.Run(name)
	if err != nil {
		return err
	}
	all, err := command.V1Releases([]release.Releaser{found})
	if err != nil {
		return err
	}
	return likehelm.Status(out, format, all[0])
}

// groupsNow reads the objects of a release once. The mask hides its secret values. Groups
// are nil for a release that was not deployed in order.
func (a *app) groupsNow(cmd *cobra.Command, name string) ([]report.Group, *kube.Mask, error) {
	_, view, err := a.openView(cmd, name)
	if err != nil {
		return nil, nil, err
	}
	if !view.Sequenced() {
		return nil, view.Mask(), nil
	}
	state, err := LookOnce(cmd.Context(), view)
	if err != nil {
		return nil, view.Mask(), err
	}
	return report.Groups(state, timingsOf(view)), view.Mask(), nil
}

// openView reads a release at --revision.
func (a *app) openView(cmd *cobra.Command, name string) (*kube.Client, *kube.View, error) {
	client, err := kube.Connect(a.Settings, slog.Default(), nil)
	if err != nil {
		return nil, nil, err
	}
	view, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (*kube.View, error) {
		return client.PrepareView(ctx, name, a.Settings.Namespace(), revisionOf(cmd))
	})
	return client, view, err
}

// timingsOf are the durations of a release's groups when it was deployed.
func timingsOf(view *kube.View) []report.Timing {
	var out []report.Timing
	for _, t := range view.Timings() {
		out = append(out, report.Timing{Phase: t.Phase, Group: t.Group, Status: t.Status, Started: t.Started, Took: t.Took})
	}
	return out
}

// LookOnce reads each object of a view once and diagnoses those that are not ready;
// consumers get the events. It fails if reading takes longer than lookTime.
func LookOnce(ctx context.Context, view *kube.View, consumers ...report.Consumer) (*event.State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	go func() {
		select {
		case <-view.Seen():
			explained, done := context.WithTimeout(ctx, explainTime)
			view.Explain(explained)
			done()
			cancel()
		case <-ctx.Done():
		}
	}()
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	state := report.Follow(view.Feed(), consumers...)
	if err := <-failed; err != nil {
		return nil, err
	}
	select {
	case <-view.Seen():
		return state, nil
	default:
		return nil, fmt.Errorf("could not read all resources within %s; check that the cluster is reachable and the release still exists", lookTime)
	}
}
