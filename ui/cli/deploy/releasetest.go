package deploy

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
)

const testLong = `Run the tests of a release, one after another: its chart's hooks with the annotation helm.sh/hook: test. The result
does not change the release.`

type testFlags struct {
	run          runFlags
	dryRun, logs bool
	filter       []string
}

func (a *app) newTest(exec executor) *cobra.Command {
	var flags testFlags
	cmd := &cobra.Command{
		Use: "test NAME", GroupID: "deploy", Short: "run the tests of a release", Long: testLong,
		Example: `lockstep test shop -n shop --logs
lockstep test shop -n shop --filter name=shop-test-checkout`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReports(cmd, &flags.run, exec, args, func(r runOptions) error { return a.test(cmd, &flags, r, args[0], exec) })
		},
	}
	flags.run.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.dryRun, "dry-run", false, "print which tests would run, in order, without writing anything")
	f.BoolVar(&flags.logs, "logs", false, "print the test pods' logs at the end (-o json: to stderr)")
	f.StringSliceVar(&flags.filter, "filter", nil, "run only the test name=NAME, or all except '!name=NAME' (repeatable)")
	return cmd
}

var exclusion = regexp.MustCompile(`^!\s?name=`)

// parseFilter parses --filter as Helm does.
func parseFilter(filter []string) (include, exclude []string, err error) {
	for _, f := range filter {
		if name, ok := strings.CutPrefix(f, "name="); ok {
			include = append(include, name)
		} else if prefix := exclusion.FindString(f); prefix != "" {
			exclude = append(exclude, f[len(prefix):])
		} else {
			return nil, nil, fmt.Errorf("--filter %s: use name=NAME or '!name=NAME'", f)
		}
	}
	return include, exclude, nil
}

func (a *app) test(cmd *cobra.Command, flags *testFlags, r runOptions, name string, exec executor) error {
	include, exclude, err := parseFilter(flags.filter)
	if err != nil {
		return err
	}
	if flags.run.cluster.enabled {
		return a.runAsJob(cmd, flags.run.cluster, r, packedRun{release: name, args: []string{name}})
	}
	var logs bytes.Buffer // printed after everything else
	d := a.Display(cmd)
	if flags.dryRun {
		exec = a.dryRunLines()
	}
	runErr := exec.run(cmd, operationSpec{
		runOptions: r, release: name, abortOutcome: "the release does not change",
		listGroups: "list the groups with: " + command.ShellJoin([]string{text.Program, "test", name, "-n", a.Settings.Namespace(), "--dry-run"}),
		next:       func(s *event.State, m *mask.Mask) []string { return suggester{a, cmd, m}.afterTest(s) },
		prepare: func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
			test := kube.ReleaseTest{Common: common, Include: include, Exclude: exclude}
			if flags.logs {
				test.Logs = &logs
			}
			op, err := c.PrepareTest(ctx, test)
			if op == nil && err == nil {
				none := "release %s has no tests\n"
				if len(include)+len(exclude) > 0 {
					none = "release %s has no tests that match --filter\n"
				}
				d.Print(fmt.Sprintf(none, name))
			}
			return op, err
		},
	})
	if logs.Len() > 0 {
		d.Print("\n" + logs.String())
	}
	return runErr
}
