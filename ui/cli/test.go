package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/kube"
)

// testFlags are those of test.
type testFlags struct {
	run    runFlags
	filter []string
	dryRun bool
}

func (a *app) newTest() *cobra.Command {
	var flags testFlags
	cmd := &cobra.Command{
		Use:     "test NAME",
		GroupID: "deploy",
		Short:   "run the tests of a release",
		Long:    "Runs the test hooks of a release, one after the other. The release stays as it is, whatever they say.",
		Example: `lockstep test shop -n shop
lockstep test shop --filter name=shop-smoke`,
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.test(cmd, &flags, args[0]) },
	}
	flags.run.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&flags.filter, "filter", nil, "run only the tests of these names, or all but these: name=NAME, !name=NAME")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing and say what would be done")
	return cmd
}

func (a *app) test(cmd *cobra.Command, flags *testFlags, name string) error {
	m, err := flags.run.check(cmd)
	if err != nil {
		return err
	}
	var include, exclude []string
	for _, f := range flags.filter {
		switch key, value, ok := strings.Cut(f, "="); {
		case ok && key == "name":
			include = append(include, value)
		case ok && key == "!name":
			exclude = append(exclude, value)
		default:
			return fmt.Errorf("--filter %s: use name=NAME or !name=NAME", f)
		}
	}
	j := job{flags: &flags.run, mode: m,
		prepare: func(ctx context.Context, c *kube.Client, namespace string) (*kube.Operation, error) {
			return c.PrepareTest(ctx, kube.ReleaseTest{Common: flags.run.common(name, namespace, m), Include: include, Exclude: exclude})
		},
		next: func(*engine.State) []string { return nil }}
	if flags.dryRun {
		return a.dryRunPhases(cmd, j)
	}
	return a.operate(cmd, j)
}
