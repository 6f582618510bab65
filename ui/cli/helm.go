package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/ui/report"
)

// Commands that are Helm's own: what they print and how is Helm's to say, so
// that scripts find what they know. Their flags are declared here, for help and
// completion, and handed on; a test compares them with Helm's.

// runHelm runs a command of Helm's with the flags that were given to cmd.
func runHelm(cmd *cobra.Command, out io.Writer, words ...string) error {
	args := append(words, givenFlags(cmd)...)
	root, err := helmcmd.NewRootCmd(out, args, func(bool) {}) // the logs are set up
	if err != nil {
		return err
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(report.Safe(cmd.ErrOrStderr()))
	_, err = during(cmd.Context(), func(ctx context.Context) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil { // Helm takes for granted what a damaged record does not have
				err = fmt.Errorf("helm fails to read a release record that is damaged (%v); lockstep watch RELEASE names it", p)
			}
		}()
		return nil, root.ExecuteContext(ctx)
	})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("%w; lockstep list -A shows which there are", err)
	}
	return err
}

// helms runs a command of Helm's and shows what it prints.
func (a *app) helms(cmd *cobra.Command, words ...string) error {
	return runHelm(cmd, a.display(cmd, helmsMode(cmd)).Text(), words...)
}

// helmsMode is how a command of Helm's shows things.
func helmsMode(cmd *cobra.Command) report.Mode {
	f := cmd.Flag("output")
	if f == nil || f.Value.String() == "table" {
		return report.ModeText
	}
	return report.Mode(f.Value.String())
}

// notHelms marks a flag that Helm's command of the name does not have.
const notHelms = "lockstep/own"

// givenFlags are the flags that were given to a command, as arguments.
func givenFlags(cmd *cobra.Command) []string {
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Annotations[notHelms] != nil {
			return
		}
		values := []string{f.Value.String()}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	return args
}

// addHelmOutput adds -o as Helm's commands have it.
func addHelmOutput(cmd *cobra.Command) {
	addChoice(cmd, &choice{allowed: []string{"table", "json", "yaml"}}, "output", "o", "format")
}

func (a *app) addRevision(cmd *cobra.Command) {
	cmd.Flags().Int("revision", 0, "revision to look at (default the latest)")
	_ = cmd.RegisterFlagCompletionFunc("revision", a.completeRevisions) // it is there
}

func (a *app) newHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "history NAME",
		Aliases:           []string{"hist"},
		GroupID:           "release",
		Short:             "list the revisions of a release",
		Long:              "Lists the revisions of a release, as \"helm history\" does.",
		Args:              args(1, 1),
		ValidArgsFunction: a.completeRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.helms(cmd, "history", args[0])
		},
	}
	f := cmd.Flags()
	f.Int("max", 256, "list at most so many revisions")
	f.Bool("show-rollback-revision", false, "show to which revision a rollback went, in a table")
	addHelmOutput(cmd)
	return cmd
}

func (a *app) newList() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		GroupID:           "release",
		Short:             "list releases",
		Long:              "Lists the releases of a namespace, as \"helm list\" does: those that were deployed with Helm, too.",
		Args:              args(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.helms(cmd, "list")
		},
	}
	f := cmd.Flags()
	f.BoolP("all-namespaces", "A", false, "list the releases of all namespaces")
	f.BoolP("short", "q", false, "print names only")
	f.Bool("no-headers", false, "leave the head of the table out")
	f.String("time-format", "", `format of times, as Go has it, "2006-01-02 15:04:05Z0700" for instance`)
	f.BoolP("date", "d", false, "sort by date")
	f.BoolP("reverse", "r", false, "sort backwards")
	for _, status := range []string{"deployed", "failed", "pending", "superseded", "uninstalled", "uninstalling"} {
		f.Bool(status, false, "list those that are "+status+" (these can be combined; default all)")
	}
	f.IntP("max", "m", 256, "list at most so many releases")
	f.Int("offset", 0, "leave so many out at the beginning")
	f.StringP("filter", "f", "", "list those whose name matches a regular expression")
	f.StringP("selector", "l", "", "list those whose labels match: key=value,…")
	addHelmOutput(cmd)
	return cmd
}

func (a *app) newGet() *cobra.Command {
	get := &cobra.Command{
		Use:     "get",
		GroupID: "release",
		Short:   "print what is recorded of a release",
		Long:    "Prints what is recorded of a release, as \"helm get\" does.",
		Args:    args(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, part := range []struct {
		name, about string
		output      bool
		data        bool // for other programs
	}{
		{"all", "print all of the following", false, false},
		{"hooks", "print the hooks", false, true},
		{"manifest", "print the manifest", false, true},
		{"metadata", "print what the release is called, where and of what it was made", true, false},
		{"notes", "print the notes", false, false},
		{"values", "print the values", true, true},
	} {
		cmd := &cobra.Command{
			Use:               part.name + " NAME",
			Short:             part.about,
			Args:              args(1, 1),
			ValidArgsFunction: a.completeRelease(nil),
			RunE: func(cmd *cobra.Command, args []string) error {
				if part.data && helmsMode(cmd) != report.ModeJSON {
					return runHelm(cmd, a.display(cmd, report.ModeText).Data(), "get", part.name, args[0])
				}
				return a.helms(cmd, "get", part.name, args[0])
			},
		}
		a.addRevision(cmd)
		if part.output {
			addHelmOutput(cmd)
		}
		switch part.name {
		case "all":
			cmd.Flags().String("template", "", "print what a Go template makes of it: {{.Release.Name}}")
		case "values":
			cmd.Flags().BoolP("all", "a", false, "print all values, the chart's own, too")
		}
		get.AddCommand(cmd)
	}
	return get
}

// ownFlag marks a flag of a command of Helm's as one that Helm does not have.
func ownFlag(cmd *cobra.Command, name string) {
	if err := cmd.Flags().SetAnnotation(name, notHelms, []string{"true"}); err != nil {
		panic(fmt.Sprintf("flag %s: %v", name, err)) // it is not there
	}
}
