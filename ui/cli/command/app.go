// Package command holds what commands share: App, the flags of charts and renderings,
// exit codes, signals, logs and streams. Only ui/cli and its other packages import it.
package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/ui/report"
)

// Args checks the number of arguments.
func Args(from, to int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < from || to >= 0 && len(args) > to {
			return fmt.Errorf("accepts %s, not %d arguments", cmd.Use, len(args))
		}
		return nil
	}
}

// App is what the commands share.
type App struct {
	Settings *helmcli.EnvSettings
	Helm     *action.Configuration // ready after readyHelm
	Signals  *Signals
	Logs     Logs
}

// Display is how a command shows what it has to say.
func (a *App) Display(cmd *cobra.Command, mode report.Mode) report.Display {
	return report.New(mode, StreamOf(cmd.OutOrStdout(), os.Stdout, a.Settings.ColorMode), StreamOf(cmd.ErrOrStderr(), os.Stderr, a.Settings.ColorMode))
}

func (a *App) Style(f *os.File) report.Style { return StyleOf(f, a.Settings.ColorMode) }

// SummaryOptions are the options of a summary that is printed when the screen is gone.
func (a *App) SummaryOptions(o report.Options) report.Options {
	to := StreamOf(os.Stdout, os.Stdout, a.Settings.ColorMode)
	o.Style, o.Width = to.Style, to.Width
	return o
}

func NewApp(in *Signals) *App {
	return &App{Settings: helmcli.New(), Helm: action.NewConfiguration(), Signals: in}
}

// WarnIf tells of something that went wrong and does not matter much.
func WarnIf(say report.Notices, err error) {
	if err != nil {
		say.Warn(err.Error())
	}
}
