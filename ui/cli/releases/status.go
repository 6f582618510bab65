package releases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/likehelm"
	"lockstep/ui/report"
)

const statusLong = `Print the status of a release as "helm status" does. For a release deployed in order, also print its groups, how long
each took, and the current state of its objects.

Without NAME, print a line for each release of a helmfile: the one given with -f, or the one in the current directory.

-o json and -o yaml add the field "groups": id, chart, name, layer, after, status, message, objects, and ran (status,
started, seconds).`

// readTimeout limits the time for reading every object once.
const readTimeout = 30 * time.Second

// diagnoseTimeout limits the time for diagnosing objects that are not ready.
const diagnoseTimeout = 5 * time.Second

func (a *app) newStatus() *cobra.Command {
	var stack input.HelmfileFlags
	cmd := &cobra.Command{
		Use: "status {NAME | -f HELMFILE}", GroupID: "release", Short: "show the status of a release and its groups", Long: statusLong,
		Example: `lockstep status shop -n shop
lockstep status shop -n shop -o json | jq '.groups[] | {id, status}'
lockstep status -f helmfile.yaml`,
		Args: input.OrHelmfile(command.Args(1, 1)), ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.stackStatus(cmd, &stack)
			}
			if cmd.Flags().Changed("file") {
				return command.UsageError("--file cannot be combined with NAME")
			}
			return a.status(cmd, args[0])
		},
	}
	stack.Add(cmd)
	a.addRevision(cmd)
	command.AddOutput(cmd, output.Formats()...)
	f := cmd.Flags()
	f.Bool("show-resources", false, "no effect: objects are always shown")
	_ = f.MarkHidden("show-resources") // fails only if the flag is not defined
	return cmd
}

func (a *app) status(cmd *cobra.Command, name string) error {
	var mask mask.Mask
	var shown *rel1.Release
	text, err := a.likeHelm(cmd, a.Settings.Namespace(), func(out *bytes.Buffer) (err error) {
		shown, err = a.helmStatus(cmd, out, name, &mask)
		return err
	})
	a.warnOfEnd(cmd, a.Settings.Namespace(), shown)
	if err != nil {
		return err
	}
	d := a.Display(cmd)
	live, secrets, err := a.liveStatus(cmd, name)
	switch {
	case cmd.Context().Err() != nil:
		return context.Cause(cmd.Context())
	case err != nil:
		d.Warn("cannot show the groups: " + err.Error())
	}
	return d.Status([]byte(mask.Text(secrets.Text(text.String()))), live)
}

// warnOfEnd says that the namespace of a release is being deleted, or that the run of one that is pending is over, if that is known.
// rel is nil if there is no such release.
func (a *app) warnOfEnd(cmd *cobra.Command, namespace string, rel *rel1.Release) {
	client, err := a.Connect()
	if err != nil {
		return
	}
	if text := client.DeletionOf(cmd.Context(), namespace); text != "" {
		a.Display(cmd).Warn(text)
	}
	if rel == nil || !rel.Info.Status.IsPending() && rel.Info.Status != rcommon.StatusUninstalling {
		return
	}
	if job := client.LostJob(cmd.Context(), rel.Namespace, rel.Name); job != "" {
		a.Display(cmd).Warn(phrase.RunOver(event.Operation{Release: rel.Name, Namespace: rel.Namespace}, "Job "+job+" was deleted"))
	}
}

// addLive adds the secrets in the live objects of a release, which somebody else may have changed, to a mask.
func addLive(live *mask.Mask, rel *rel1.Release) {
	for _, objects := range rel.Info.Resources {
		for _, o := range objects {
			if fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o); err == nil {
				live.AddObject(fields)
			}
		}
	}
}

// helmStatus prints a release as Helm does and returns it. It adds the secrets in its live objects to a mask.
func (a *app) helmStatus(cmd *cobra.Command, out *bytes.Buffer, name string, live *mask.Mask) (*rel1.Release, error) {
	format := helmFormat(cmd)
	status := action.NewStatus(a.Helm)
	status.Version = revisionFlag(cmd)
	status.ShowResourcesTable = format == output.Table
	rel, err := a.withResources(cmd, status, name)
	if err != nil {
		return nil, err
	}
	addLive(live, rel)
	return rel, likehelm.Status(out, format, rel)
}

// withResources returns a release with its live objects. It has none, with a warning, if Helm cannot build them from the manifest: the
// cluster no longer serves an API version, or a list contains another one. Helm then shows nothing.
func (a *app) withResources(cmd *cobra.Command, status *action.Status, name string) (*rel1.Release, error) {
	found, err := status.Run(name)
	if err == nil {
		return command.V1Release(found)
	}
	rel, readErr := a.getRelease(cmd, name)
	if refused := apierrors.APIStatus(nil); readErr != nil || errors.As(err, &refused) {
		return nil, err
	}
	a.Display(cmd).Warn("cannot show the resources: " + err.Error())
	return rel, nil
}

// liveStatus returns the current state of a release's groups and who approved the revision. The mask hides the release's secret
// values.
func (a *app) liveStatus(cmd *cobra.Command, name string) (live report.LiveStatus, _ *mask.Mask, _ error) {
	_, view, err := a.openView(cmd, name)
	if err != nil {
		return live, nil, err
	}
	course := view.Course()
	live.Approvals = course.Approvals
	if why := view.UnreadOrder(); why != "" {
		a.Display(cmd).Warn("cannot show the groups: the order of the revision cannot be read: " + why)
	}
	if !view.Sequenced() {
		return live, view.Mask(), nil
	}
	state, err := ReadOnce(cmd.Context(), view)
	if err != nil {
		return live, view.Mask(), err
	}
	live.Groups = report.Groups(state, timings(course))
	return live, view.Mask(), nil
}

// openView opens a view of a release at --revision.
func (a *app) openView(cmd *cobra.Command, name string) (*kube.Client, *kube.View, error) {
	client, err := a.Connect()
	if err != nil {
		return nil, nil, err
	}
	view, err := OpenView(cmd.Context(), client, name, a.Settings.Namespace(), revisionFlag(cmd))
	return client, view, err
}

// OpenView opens a view of a revision of a release, 0 for the latest.
func OpenView(ctx context.Context, client *kube.Client, name, namespace string, revision int) (*kube.View, error) {
	return command.Cancelable(ctx, func(ctx context.Context) (*kube.View, error) {
		return client.PrepareView(ctx, name, namespace, revision)
	})
}

// timings returns how long each group of a release took when it was deployed.
func timings(course kube.Course) []report.Timing {
	var out []report.Timing
	for _, t := range course.Groups {
		out = append(out, report.Timing{Phase: t.Phase, Group: t.Group, Status: t.Status, Started: t.Started, Took: t.Took})
	}
	return out
}

// ReadOnce reads each object of a view once and diagnoses those that are not ready. Consumers
// receive the events. It fails if reading takes longer than readTimeout.
func ReadOnce(ctx context.Context, view *kube.View, consumers ...report.Consumer) (*event.State, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	go func() {
		select {
		case <-view.Seen():
			diagnoseCtx, stop := context.WithTimeout(ctx, diagnoseTimeout)
			view.Explain(diagnoseCtx)
			stop()
			cancel()
		case <-ctx.Done():
		}
	}()
	state, err := follow(ctx, view, consumers...)
	if err != nil {
		return nil, err
	}
	select {
	case <-view.Seen():
		return state, nil
	default:
		return nil, fmt.Errorf("could not read all objects within %s; try again, or use "+text.Program+" watch, which has no time limit", readTimeout)
	}
}

// follow runs a view until ctx or the release ends. Consumers receive the events.
func follow(ctx context.Context, view *kube.View, consumers ...report.Consumer) (*event.State, error) {
	result := make(chan error, 1)
	go func() { result <- view.Run(ctx) }()
	return report.Follow(view.Feed(), consumers...), <-result
}
