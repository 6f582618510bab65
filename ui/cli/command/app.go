// Package command has the code that all commands share: flags for charts and values, exit
// codes, signals, logs and streams. Its central types are App, Signals and RenderFlags. Only
// ui/cli and its packages import it.
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

// UsageError is an error in the arguments of a command.
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
		if many, ok := strings.CutSuffix(want, "…"); ok && len(args) == 0 {
			return UsageError(fmt.Sprintf("%s needs at least one %s", cmd.Name(), many))
		}
		needed := slices.DeleteFunc(strings.Fields(want), func(s string) bool { return strings.HasPrefix(s, "[") })
		return UsageError(fmt.Sprintf("%s needs %s (got %s)", cmd.Name(), strings.Join(needed, " and "), report.Count(len(args), "argument")))
	}
}

// App is the state that all commands share.
type App struct {
	Settings *helmcli.EnvSettings
	Helm     *action.Configuration // ready after ConnectHelm
	Signals  *Signals
	Logs     Logs
	Image    string // container image of this version
}

// Display returns the Display that a command prints to.
func (a *App) Display(cmd *cobra.Command, mode report.Mode) report.Display {
	return report.New(mode, NewStream(cmd.OutOrStdout(), os.Stdout, a.Settings.ColorMode), NewStream(cmd.ErrOrStderr(), os.Stderr, a.Settings.ColorMode))
}

// Style returns the style of text on f.
func (a *App) Style(f *os.File) report.Style { return NewStyle(f, a.Settings.ColorMode) }

// SummaryOptions sets in o the style and width of a summary printed after the screen closes.
func (a *App) SummaryOptions(o report.Options) report.Options {
	stdout := NewStream(os.Stdout, os.Stdout, a.Settings.ColorMode)
	o.Style, o.Width = stdout.Style, stdout.Width
	return o
}

// NewApp returns an App with Helm's settings read from the environment.
func NewApp(signals *Signals) *App {
	return &App{Settings: helmcli.New(), Helm: action.NewConfiguration(), Signals: signals}
}

// WarnIf prints a non-nil error as a warning.
func WarnIf(notices report.Notices, err error) {
	if err != nil {
		notices.Warn(err.Error())
	}
}
