package input

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube/helmfile"
	"lockstep/ui/cli/command"
)

// NamespaceUsage is the key of a command's annotation with the help for --namespace, if that means
// something else than in other commands.
const NamespaceUsage = "namespace-usage"

// HelmfileFlags select a helmfile and releases in it. They have the names of helmfile's flags.
type HelmfileFlags struct{ helmfile.Options }

// Add adds -f and the flags of AddSelection.
func (h *HelmfileFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&h.Path, "file", "f", "", "helmfile, directory, or - for standard input")
	h.AddSelection(cmd)
}

// AddSelection adds the flags that select releases and values. It skips shorthands that the
// command already uses. If the command has --values, that flag also names the helmfile.
func (h *HelmfileFlags) AddSelection(cmd *cobra.Command) {
	f := cmd.Flags()
	short := func(s string) string {
		if f.ShorthandLookup(s) != nil {
			return ""
		}
		return s
	}
	if values := f.Lookup("values"); values != nil {
		values.Usage += "; without a chart: the helmfile"
	}
	f.StringVarP(&h.Environment, "environment", short("e"), "", "environment of the helmfile")
	f.StringArrayVarP(&h.Selectors, "selector", short("l"), nil, "only releases with these labels: key=value,key!=value (repeatable)")
	f.StringArrayVar(&h.StateValuesFiles, "state-values-file", nil, "values of the environment from a YAML file (repeatable)")
	f.BoolVar(&h.Lenient, "lenient", false, "ignore unsupported keys of the helmfile that cannot change what is deployed")
	f.StringArrayVar(&h.StateValuesSet, "state-values-set", nil, "values of the environment: key=value,… (repeatable)")
}

// Read reads the helmfile, by default the one in the working directory. -n and --kube-context
// apply to all its releases. If -f is short for --values, that flag names the helmfile.
func (h *HelmfileFlags) Read(a *command.App, cmd *cobra.Command) (*helmfile.File, error) {
	o := h.Options
	o.Stdin, o.Context = cmd.InOrStdin(), a.Settings.KubeContext
	if cmd.Flags().Changed("namespace") {
		o.Namespace = a.Settings.Namespace()
	}
	files, _ := cmd.Flags().GetStringSlice("values") // nil if the command has no --values
	if len(files) > 1 {
		return nil, fmt.Errorf("-f names %d files, but there can be only one helmfile; to use them as values files, pass a chart", len(files))
	}
	o.Path = cmp.Or(o.Path, strings.Join(files, ""), ".")
	file, err := command.Load(cmd.Context(), "helmfile "+o.Path, func(ctx context.Context) (*helmfile.File, error) { return helmfile.Read(ctx, o) })
	if err != nil {
		return nil, err
	}
	for _, w := range file.Warnings {
		a.Display(cmd).Warn(w)
	}
	return file, nil
}

// OrHelmfile accepts no arguments if -f is set or the working directory has a helmfile. It checks
// arguments with otherwise.
func OrHelmfile(otherwise cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		changed := cmd.Flags().Changed
		switch {
		case len(args) > 0:
			return otherwise(cmd, args)
		case !changed("file") && !changed("values") && !helmfile.Exists("."):
			return command.UsageError(fmt.Sprintf("no helmfile in the current directory; pass %s, or name a helmfile with -f", strings.Join(command.NeededArgs(cmd), " and ")))
		case changed("tui"):
			return command.UsageError("--tui does not work with a helmfile")
		}
		return nil
	}
}
