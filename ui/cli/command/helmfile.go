package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

// HelmfileFlags select a helmfile and releases in it. They have the names of helmfile's flags.
type HelmfileFlags struct {
	File                 string
	environment          string
	selectors            []string
	stateFiles, stateSet []string
}

// Add adds -f and the flags of AddSelection.
func (h *HelmfileFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&h.File, "file", "f", "", "helmfile, directory, or - for standard input")
	h.AddSelection(cmd)
}

// AddSelection adds the flags that select releases and values. It skips shorthands that the
// command already uses.
func (h *HelmfileFlags) AddSelection(cmd *cobra.Command) {
	f := cmd.Flags()
	short := func(s string) string {
		if f.ShorthandLookup(s) != nil {
			return ""
		}
		return s
	}
	f.StringVarP(&h.environment, "environment", short("e"), "", "environment of the helmfile")
	f.StringArrayVarP(&h.selectors, "selector", short("l"), nil, "only releases with these labels: key=value,key!=value (repeatable)")
	f.StringArrayVar(&h.stateFiles, "state-values-file", nil, "values of the environment from a YAML file (repeatable)")
	f.StringArrayVar(&h.stateSet, "state-values-set", nil, "values of the environment: key=value,… (repeatable)")
}

// Read reads the helmfile, by default the one in the working directory. -n and --kube-context
// apply to all its releases.
func (h *HelmfileFlags) Read(a *App, cmd *cobra.Command) (*kube.Helmfile, error) {
	o := kube.HelmfileOptions{
		Path: h.File, Stdin: cmd.InOrStdin(), Environment: h.environment, Selectors: h.selectors,
		StateValuesFiles: h.stateFiles, StateValuesSet: h.stateSet, Context: a.Settings.KubeContext,
	}
	if cmd.Flags().Changed("namespace") {
		o.Namespace = a.Settings.Namespace()
	}
	if o.Path == "" {
		o.Path = "."
	}
	return Cancelable(cmd.Context(), func(ctx context.Context) (*kube.Helmfile, error) { return kube.ReadHelmfile(ctx, o) })
}

// HelmfileArgument returns the helmfile given with -f, which means --values if the command has
// a chart argument. It is "" if there is no -f.
func HelmfileArgument(cmd *cobra.Command) (string, error) {
	files, err := cmd.Flags().GetStringSlice("values")
	switch {
	case err != nil:
		return "", err
	case len(files) > 1:
		return "", fmt.Errorf("-f names %d files, but there can be only one helmfile; for values files, pass a release and a chart", len(files))
	case len(files) == 0:
		return "", nil
	}
	return files[0], nil
}

// OrHelmfile accepts no arguments if there is a helmfile in -f or in the working directory.
func OrHelmfile(otherwise cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		changed := cmd.Flags().Changed
		if len(args) == 0 && (changed("file") || changed("values") || kube.HasHelmfile(".")) {
			return nil
		}
		return otherwise(cmd, args)
	}
}
