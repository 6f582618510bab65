package runs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// LiveDir is the directory of the sockets of live runs, next to the records.
func LiveDir() (string, error) {
	runs, err := report.RunDir()
	return filepath.Join(filepath.Dir(runs), "live"), err
}

// Live returns the live runs of this machine that fit; the caller closes them.
func Live(fits func(event.Operation) bool) ([]*remote.Run, error) {
	dir, err := LiveDir()
	if err != nil {
		return nil, err
	}
	runs, err := remote.Runs(dir)
	return closeUnless(runs, func(r *remote.Run) bool { return fits(r.Operation) }), err
}

// closeUnless closes the runs that keep rejects, and returns the others.
func closeUnless(runs []*remote.Run, keep func(*remote.Run) bool) []*remote.Run {
	return slices.DeleteFunc(runs, func(r *remote.Run) bool {
		kept := keep(r)
		if !kept {
			r.Close()
		}
		return !kept
	})
}

// joinRun attaches to the live run of a release, or to the only run if name is empty.
// Namespace and context matter only if there are several.
func (a *app) joinRun(cmd *cobra.Command, name string) (*remote.Run, error) {
	given := cmd.Flags().Changed
	runs, err := Live(func(op event.Operation) bool {
		return (name == "" || op.Release == name) &&
			(!given("namespace") || op.Namespace == a.Settings.Namespace()) &&
			(!given("kube-context") || op.Context == a.Settings.KubeContext)
	})
	if err != nil {
		return nil, err
	}
	here := func(r *remote.Run) bool { return r.Operation.Namespace == a.Settings.Namespace() }
	if name != "" && len(runs) > 1 && slices.ContainsFunc(runs, here) {
		runs = closeUnless(runs, here)
	}
	switch {
	case len(runs) == 1:
		return runs[0], nil
	case len(runs) == 0:
		return a.joinClusterRun(cmd, name)
	}
	var names []string
	for _, r := range runs {
		names = append(names, r.String())
		r.Close()
	}
	return nil, fmt.Errorf("several live runs; name one, with -n and --kube-context if needed: %s", strings.Join(names, "; "))
}

// completeLive completes the release of a live run.
func completeLive(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		runs, _ := Live(func(event.Operation) bool { return true }) // on an error nothing is completed
		for _, r := range runs {
			names = append(names, r.Operation.Release)
			r.Close()
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
