package releases

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/cli/output"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/ui/cli/command"
	"lockstep/ui/likehelm"
)

// Scripts rely on Helm's output, so history, list and get print exactly what Helm prints, and status adds only the groups.
// Tests compare their flags and output with Helm's.

// likeHelm returns the output of show, which uses Helm's actions. If show fails, it returns the
// output so far.
func (a *app) likeHelm(cmd *cobra.Command, namespace string, show func(*bytes.Buffer) error) (*bytes.Buffer, error) {
	likehelm.SetColour(a.Settings.ColorMode)
	out, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (out *bytes.Buffer, err error) {
		out = new(bytes.Buffer)
		defer func() {
			if p := recover(); p != nil { // Helm panics on a damaged record
				err = fmt.Errorf("a release record is damaged, so Helm cannot read it (%v); find it with: "+text.Program+" watch RELEASE", p)
			}
		}()
		if err := a.ConnectHelm(ctx, namespace); err != nil {
			return nil, err
		}
		return out, show(out)
	})
	return out, a.explainError(cmd, namespace, err)
}

// explainError adds to Helm's errors what was not found or is not permitted, and where.
func (a *app) explainError(cmd *cobra.Command, namespace string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrReleaseNotFound):
		name := cmd.Flags().Arg(0)
		if f := cmd.Flag("revision"); f != nil && f.Changed {
			return fmt.Errorf("revision %s of release %s not found in namespace %s; list revisions with: "+text.Program+" history %s -n %s", f.Value, name, namespace, name, namespace)
		}
		return fmt.Errorf("release %s not found in namespace %s; list releases with: "+text.Program+" list -A", name, namespace)
	case cmd.Flags().NArg() > 0 && charts.CheckReleaseName(cmd.Flags().Arg(0)) != nil:
		return charts.CheckReleaseName(cmd.Flags().Arg(0))
	}
	client, connectErr := a.Connect()
	switch {
	case connectErr != nil:
		return connectErr
	case strings.HasPrefix(err.Error(), "no revision for release"): // Helm skips a record that it cannot decode
		_, why := OpenView(cmd.Context(), client, cmd.Flags().Arg(0), namespace, 0)
		return cmp.Or(why, err)
	case strings.Contains(err.Error(), "cluster unreachable"): // Helm has no type for it
		if why := client.CheckReachable(cmd.Context()); why != nil {
			return why
		}
	}
	return client.ExplainDenied(err)
}

func (a *app) printLikeHelm(cmd *cobra.Command, namespace string, to io.Writer, show func(*bytes.Buffer) error) error {
	out, err := a.likeHelm(cmd, namespace, show)
	if out == nil {
		return err
	}
	_, writeErr := to.Write(out.Bytes())
	return errors.Join(err, writeErr)
}

func helmFormat(cmd *cobra.Command) output.Format {
	if f := cmd.Flag("output"); f != nil {
		return output.Format(f.Value.String())
	}
	return output.Table
}

func (a *app) addRevision(cmd *cobra.Command) {
	cmd.Flags().Int("revision", 0, "revision to show (default latest)")
	_ = cmd.RegisterFlagCompletionFunc("revision", a.CompleteRevisions) // fails only if the flag is not defined
}

func revisionFlag(cmd *cobra.Command) int {
	n, err := cmd.Flags().GetInt("revision")
	if err != nil {
		panic(err) // not defined
	}
	return n
}
