// Package command has the code that all commands share: arguments, exit codes, signals, logs and streams. Its central types
// are App and Signals. Only ui/cli and its packages import it.
package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/ui/report"
)

// UsageError is an error in the arguments or flags of a command.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Args checks the number of arguments. A negative max means any number.
func Args(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= min && (max < 0 || len(args) <= max) {
			return nil
		}
		want := usageArgs(cmd)
		name := Path(cmd)
		switch {
		case want == "" && cmd.HasSubCommands():
			return UsageError(fmt.Sprintf("unknown command %q for %q; use one of %s", args[0], cmd.CommandPath(), strings.Join(subcommands(cmd), ", ")))
		case want == "":
			return UsageError(fmt.Sprintf("%s takes no arguments (got %d)", name, len(args)) + asFile(cmd, args[0]))
		case max >= 0 && len(args) > max:
			return UsageError(fmt.Sprintf("%s takes at most %s (got %d)", name, text.Count(max, "argument"), len(args)) + separateValue(cmd, args[max]))
		}
		if many, ok := strings.CutSuffix(want, "…"); ok && len(args) == 0 {
			return UsageError(fmt.Sprintf("%s needs at least one %s", name, many))
		}
		needed := NeededArgs(cmd)
		for _, flag := range []string{"generate-name", "name-template"} { // replace the argument NAME
			if f := cmd.Flag(flag); f != nil && f.Changed {
				needed = slices.DeleteFunc(needed, func(arg string) bool { return arg == "NAME" })
			}
		}
		return UsageError(fmt.Sprintf("%s needs %s (got %s)", name, strings.Join(needed, " and "), text.Count(len(args), "argument")))
	}
}

// asFile says how to name the file that a command reads: "up helmfile.yaml".
func asFile(cmd *cobra.Command, arg string) (hint string) {
	if cmd.Flag("file") == nil {
		return ""
	}
	return fmt.Sprintf("; to name the file, use -f %s", ShellJoin([]string{arg}))
}

// separateValue says how to write a flag whose value the user may have given as a separate argument: "--wait hookOnly".
func separateValue(cmd *cobra.Command, arg string) (hint string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if hint == "" && f.NoOptDefVal != "" && f.Value.Type() != "bool" {
			hint = fmt.Sprintf("; to give --%s a value, write --%[1]s=%[2]s", f.Name, arg)
		}
	})
	return hint
}

// Path returns the names of a command and of its parents, without the program: "get all".
func Path(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	if above := Path(cmd.Parent()); above != "" {
		return above + " " + cmd.Name()
	}
	return cmd.Name()
}

// usageArgs returns the arguments in the usage of a command: "{CHART | NAME CHART}".
func usageArgs(cmd *cobra.Command) string { return strings.Join(strings.Fields(cmd.Use)[1:], " ") }

// NeededArgs lists the required arguments of a command, in the first of its forms: NAME, CHART.
func NeededArgs(cmd *cobra.Command) (needed []string) {
	for word := range strings.FieldsSeq(usageArgs(cmd)) {
		switch word[0] {
		case '|':
			return needed
		case '[':
		case '{':
			needed = append(needed, word[1:])
		default:
			needed = append(needed, word)
		}
	}
	return needed
}

// subcommands returns the names of a command's subcommands, sorted.
func subcommands(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// App is the state that commands share.
type App struct {
	Settings *helmcli.EnvSettings
	Helm     *action.Configuration // ready after ConnectHelm
	Signals  *Signals
	Logs     *Logs
	Quiet    bool // a screen is open, so that nothing may be printed
	Version  string
	Image    string // container image of this version
	FromHome string // where home returns to after the command, which it started: "home", "the history"; else ""
}

// Display returns the Display that a command prints to, in the format that its -o selects.
func (a *App) Display(cmd *cobra.Command) report.Display {
	return a.DisplayAs(cmd, OutputFormat(cmd))
}

// DisplayAs returns the Display of a command in a format.
func (a *App) DisplayAs(cmd *cobra.Command, format report.Mode) report.Display {
	return report.New(format, a.stream(cmd.OutOrStdout(), os.Stdout), a.Stderr(cmd))
}

// Stderr returns the stream for the stderr of a command.
func (a *App) Stderr(cmd *cobra.Command) report.Stream { return a.stream(cmd.ErrOrStderr(), os.Stderr) }

func (a *App) stream(w io.Writer, f *os.File) report.Stream {
	return NewStream(w, f, a.Settings.ColorMode)
}

// Style returns the style of text on f.
func (a *App) Style(f *os.File) report.Style { return NewStyle(f, a.Settings.ColorMode) }

// Summary prints the summary of a run after its screen has closed, and on stderr its warnings, which only the screen showed.
func (a *App) Summary(cmd *cobra.Command, s *event.State, o report.Options) {
	stdout := a.stream(os.Stdout, os.Stdout)
	o.Style, o.Width = stdout.Style, stdout.Width
	stderr := a.Stderr(cmd)
	report.Warnings(stderr, s, stderr.Style)
	report.Summary(cmd.OutOrStdout(), s, o)
}

// Connect connects to the cluster that the flags select.
func (a *App) Connect() (*kube.Client, error) { return kube.Connect(a.Settings, slog.Default(), nil) }

// ConnectTo connects to a context; "" is the current one.
func (a *App) ConnectTo(context string) (*kube.Client, error) {
	return kube.Connect(a.SettingsOf(context), slog.Default(), nil)
}

// SettingsOf returns the settings for a context; "" is the current one.
func (a *App) SettingsOf(context string) *helmcli.EnvSettings {
	if context == "" {
		return a.Settings
	}
	return ContextSettings(a.Settings, a.Settings.KubeConfig, context)
}

// NewApp returns an App with Helm's settings read from the environment.
func NewApp(signals *Signals) *App {
	return &App{Settings: helmcli.New(), Helm: action.NewConfiguration(), Signals: signals, Logs: &Logs{}, FromHome: startedByHome}
}

// WarnIf prints a non-nil error as a warning.
func WarnIf(notices report.Notices, err error) {
	if err != nil {
		notices.Warn(err.Error())
	}
}

// ContextSettings returns s with another kubeconfig and context. The namespace is HELM_NAMESPACE, or else
// that of the context. It drops flags that select a cluster or user: they belong to the context of s.
func ContextSettings(s *helmcli.EnvSettings, kubeconfig, context string) *helmcli.EnvSettings {
	out := helmcli.New()
	out.KubeConfig, out.KubeContext = kubeconfig, context
	out.KubeToken, out.KubeAsUser, out.KubeAsGroups, out.KubeAPIServer = "", "", nil, ""
	out.KubeCaFile, out.KubeTLSServerName, out.KubeInsecureSkipTLSVerify = "", "", false
	out.Debug, out.MaxHistory, out.BurstLimit, out.QPS, out.ColorMode = s.Debug, s.MaxHistory, s.BurstLimit, s.QPS, s.ColorMode
	out.RegistryConfig, out.RepositoryConfig, out.RepositoryCache = s.RegistryConfig, s.RepositoryConfig, s.RepositoryCache
	out.PluginsDirectory, out.ContentCache = s.PluginsDirectory, s.ContentCache
	return out
}

// InNamespace returns s with another namespace. A plain copy of s would not do: its client keeps using the namespace of s.
func InNamespace(s *helmcli.EnvSettings, namespace string) *helmcli.EnvSettings {
	out := ContextSettings(s, s.KubeConfig, s.KubeContext)
	out.KubeToken, out.KubeAsUser, out.KubeAsGroups, out.KubeAPIServer = s.KubeToken, s.KubeAsUser, s.KubeAsGroups, s.KubeAPIServer
	out.KubeCaFile, out.KubeTLSServerName, out.KubeInsecureSkipTLSVerify = s.KubeCaFile, s.KubeTLSServerName, s.KubeInsecureSkipTLSVerify
	out.SetNamespace(namespace)
	return out
}
