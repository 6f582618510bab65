// Package command holds what commands share: App, the flags of charts and renderings,
// exit codes, signals, logs and streams. Only ui/cli and its other packages import it.
package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/ui/report"
)

// UsageError is an error of the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Args checks the number of arguments; a negative to means any number.
func Args(from, to int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= from && (to < 0 || len(args) <= to) {
			return nil
		}
		_, want, _ := strings.Cut(cmd.Use, " ")
		switch {
		case want == "" && cmd.HasSubCommands():
			return UsageError(fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath()))
		case want == "":
			return UsageError(fmt.Sprintf("%s takes no arguments (got %d)", cmd.Name(), len(args)))
		case len(args) > to && to >= 0:
			return UsageError(fmt.Sprintf("%s takes at most %s (got %d)", cmd.Name(), report.Count(to, "argument"), len(args)))
		}
		needed := slices.DeleteFunc(strings.Fields(want), func(s string) bool { return strings.HasPrefix(s, "[") })
		return UsageError(fmt.Sprintf("%s needs %s (got %s)", cmd.Name(), strings.Join(needed, " and "), report.Count(len(args), "argument")))
	}
}

// App is what all commands share.
type App struct {
	Settings *helmcli.EnvSettings
	Helm     *action.Configuration // ready after ConnectHelm
	Signals  *Signals
	Logs     Logs
	Image    string // of this version
}

// Display is how a command prints.
func (a *App) Display(cmd *cobra.Command, mode report.Mode) report.Display {
	return report.New(mode, StreamOf(cmd.OutOrStdout(), os.Stdout, a.Settings.ColorMode), StreamOf(cmd.ErrOrStderr(), os.Stderr, a.Settings.ColorMode))
}

// Style is how text looks on f.
func (a *App) Style(f *os.File) report.Style { return StyleOf(f, a.Settings.ColorMode) }

// SummaryOptions are the options of a summary that is printed after the screen closes.
func (a *App) SummaryOptions(o report.Options) report.Options {
	to := StreamOf(os.Stdout, os.Stdout, a.Settings.ColorMode)
	o.Style, o.Width = to.Style, to.Width
	return o
}

// NewApp returns an App with Helm's settings from the environment.
func NewApp(in *Signals) *App {
	return &App{Settings: helmcli.New(), Helm: action.NewConfiguration(), Signals: in}
}

// WarnIf prints an error that does not fail the command.
func WarnIf(say report.Notices, err error) {
	if err != nil {
		say.Warn(err.Error())
	}
}
