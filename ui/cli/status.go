package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/report"
)

const statusLong = `Prints the status of a release: what "helm status" prints, and of a release that was deployed in order also its
groups, each with how long it took when the revision was deployed, and its objects as they are now. With -o json and yaml
these are the field "groups": id, chart, name, layer, after, status, message, objects, and ran (status, started, seconds).`

// lookTime is how long status waits for each object to be looked at once.
const lookTime = 30 * time.Second

func (a *app) newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status NAME",
		GroupID: "release",
		Short:   "show the status of a release and of its groups",
		Long:    statusLong,
		Example: `lockstep status shop -n shop
lockstep status shop -n shop -o json | jq '.groups[] | {id, status}'`,
		Args:              args(1, 1),
		ValidArgsFunction: a.completeRelease(nil),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.status(cmd, args[0]) },
	}
	a.addRevision(cmd)
	addHelmOutput(cmd)
	f := cmd.Flags()
	f.Bool("show-resources", false, "has no effect: resources are always shown")
	_ = f.MarkHidden("show-resources") // it is there
	ownFlag(cmd, "show-resources")
	return cmd
}

func (a *app) status(cmd *cobra.Command, name string) error {
	var helms bytes.Buffer
	if err := runHelm(cmd, &helms, "status", name); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	groups, err := a.groupsNow(cmd, name)
	if err != nil || groups == nil {
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: the groups cannot be shown:", err)
		}
		_, err = out.Write(helms.Bytes())
		return err
	}
	switch cmd.Flag("output").Value.String() {
	case "json":
		return withGroupsJSON(out, helms.Bytes(), groups)
	case "yaml":
		return withGroupsYAML(out, helms.Bytes(), groups)
	}
	if _, err := out.Write(helms.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nGROUPS:")
	printGroups(out, groups, streamStyle(os.Stdout, a.settings.ColorMode))
	return nil
}

// groupsNow looks at the objects of a release once. It returns nil for a
// release that was not deployed in order: there is nothing to add to Helm's
// words.
func (a *app) groupsNow(cmd *cobra.Command, name string) ([]liveGroup, error) {
	client, err := kube.Connect(a.settings, slog.Default(), nil)
	if err != nil {
		return nil, err
	}
	revision, err := cmd.Flags().GetInt("revision")
	if err != nil {
		return nil, err
	}
	view, err := client.PrepareView(cmd.Context(), name, a.settings.Namespace(), revision)
	if err != nil || !view.Sequenced() {
		return nil, err
	}
	state, err := lookOnce(cmd.Context(), view)
	if err != nil {
		return nil, err
	}
	return liveGroups(state, view.Timings()), nil
}

// lookOnce looks at each object of a view once; consumers get the events. It is
// an error where that takes longer than lookTime.
func lookOnce(ctx context.Context, view *kube.View, consumers ...report.Consumer) (*event.State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	go func() {
		select {
		case <-view.Seen():
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
		return nil, fmt.Errorf("not all resources could be looked at within %s; is the cluster up, and the release still there?", lookTime)
	}
}

// withGroupsJSON adds the groups to an object that Helm has printed, behind its
// own fields.
func withGroupsJSON(w io.Writer, object []byte, groups []liveGroup) error {
	more, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(object, '}')
	if end < 0 {
		return fmt.Errorf("helm's status is no JSON object: %.40q", object)
	}
	_, err = fmt.Fprintf(w, "%s,\"groups\":%s}\n", object[:end], more)
	return err
}

// withGroupsYAML adds the groups to a document that Helm has printed.
func withGroupsYAML(w io.Writer, document []byte, groups []liveGroup) error {
	more, err := yaml.Marshal(map[string]any{"groups": groups})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s", document, more)
	return err
}
