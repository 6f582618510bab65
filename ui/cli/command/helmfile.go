package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

// HelmfileFlags choose a helmfile and releases of it, named as helmfile's flags.
type HelmfileFlags struct {
	File                 string
	environment          string
	selectors            []string
	stateFiles, stateSet []string
}

// Add adds -f and the flags of AddChoice.
func (h *HelmfileFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&h.File, "file", "f", "", "helmfile, directory, or - for standard input")
	h.AddChoice(cmd)
}

// AddChoice adds the flags that choose releases and values. Shorthands that the command has
// already keep their meaning.
func (h *HelmfileFlags) AddChoice(cmd *cobra.Command) {
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

// Read reads the helmfile, by default that of the working directory. -n and --kube-context
// count for all of its releases.
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

// HelmfileArgument is the helmfile of a command for which -f means values where there is a
// chart.
func HelmfileArgument(cmd *cobra.Command) (string, error) {
	files, err := cmd.Flags().GetStringSlice("values")
	switch {
	case err != nil:
		return "", err
	case len(files) > 1:
		return "", fmt.Errorf("-f names several files, but a helmfile is one: name a release and a chart, or one helmfile")
	case len(files) == 0:
		return "", nil
	}
	return files[0], nil
}

// OrHelmfile are arguments that may be missing if -f or the working directory has a helmfile.
func OrHelmfile(otherwise cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Changed
		if len(args) == 0 && (given("file") || given("values") || kube.HasHelmfile(".")) {
			return nil
		}
		return otherwise(cmd, args)
	}
}
