package releases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/cli/output"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/ui/cli/command"
	"lockstep/ui/likehelm"
	"lockstep/ui/report"
)

// Commands that Helm has, too: what they print and how is Helm's to say, so that
// scripts find what they know. Tests compare their flags with Helm's, and what
// they print with what the program helm prints.

// likeHelm returns what show prints, which reads releases by actions of a.helm.
// With an error that is what had been printed until then.
func (a *app) likeHelm(cmd *cobra.Command, namespace string, show func(*bytes.Buffer) error) (*bytes.Buffer, error) {
	if err := likehelm.SetColour(a.Settings.ColorMode); err != nil {
		return nil, err
	}
	out, err := command.Cancelable(cmd.Context(), func(context.Context) (out *bytes.Buffer, err error) {
		out = new(bytes.Buffer)
		defer func() {
			if p := recover(); p != nil { // Helm takes for granted what a damaged record does not have
				err = fmt.Errorf("helm fails to read a release record that is damaged (%v); lockstep watch RELEASE names it", p)
			}
		}()
		if err := a.ConnectHelm(namespace); err != nil {
			return nil, err
		}
		return out, show(out)
	})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		err = fmt.Errorf("%w; lockstep list -A shows which there are", err)
	}
	return out, err
}

// printLikeHelm prints what likeHelm returns.
func (a *app) printLikeHelm(cmd *cobra.Command, namespace string, to io.Writer, show func(*bytes.Buffer) error) error {
	out, err := a.likeHelm(cmd, namespace, show)
	if out == nil {
		return err
	}
	_, writing := to.Write(out.Bytes())
	return errors.Join(err, writing)
}

// addHelmOutput adds -o as Helm's commands have it.
func addHelmOutput(cmd *cobra.Command) {
	command.AddChoice(cmd, &command.Choice{Allowed: output.Formats()}, "output", "o", "format")
}

// helmFormat is what -o says.
func helmFormat(cmd *cobra.Command) output.Format {
	if f := cmd.Flag("output"); f != nil {
		return output.Format(f.Value.String())
	}
	return output.Table
}

// helmDisplay is how a command that Helm has, too, shows things.
func (a *app) helmDisplay(cmd *cobra.Command) report.Display {
	if f := helmFormat(cmd); f != output.Table {
		return a.Display(cmd, report.Mode(f))
	}
	return a.Display(cmd, report.ModeText)
}

func (a *app) addRevision(cmd *cobra.Command) {
	cmd.Flags().Int("revision", 0, "revision to look at (default the latest)")
	_ = cmd.RegisterFlagCompletionFunc("revision", a.CompleteRevisions) // it is there
}

// revisionOf is what --revision says.
func revisionOf(cmd *cobra.Command) int {
	n, err := cmd.Flags().GetInt("revision")
	if err != nil {
		panic(err) // it is not there
	}
	return n
}
