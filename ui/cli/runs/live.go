package runs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// LiveDir is where the sockets of live runs are, beside the records.
func LiveDir() (string, error) {
	runs, err := report.RunDir()
	return filepath.Join(filepath.Dir(runs), "live"), err
}

// Live are the live runs of this machine that fit; all others are left again.
func Live(fits func(event.Operation) bool) ([]*remote.Run, error) {
	dir, err := LiveDir()
	if err != nil {
		return nil, err
	}
	runs, err := remote.Runs(dir)
	return leave(runs, func(r *remote.Run) bool { return fits(r.Operation) }), err
}

// leave closes the runs that are not to be kept, and returns the others.
func leave(runs []*remote.Run, keep func(*remote.Run) bool) []*remote.Run {
	return slices.DeleteFunc(runs, func(r *remote.Run) bool {
		kept := keep(r)
		if !kept {
			r.Close()
		}
		return !kept
	})
}

// joinRun joins the live run of a release, or the only one where the name is
// empty. Namespace and context need to be given only where there are several.
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
		runs = leave(runs, here)
	}
	switch {
	case len(runs) == 1:
		return runs[0], nil
	case len(runs) == 0 && name == "":
		return nil, errors.New("there is no live run on this machine")
	case len(runs) == 0:
		return nil, fmt.Errorf("there is no live run of %s on this machine", name)
	}
	var names []string
	for _, r := range runs {
		names = append(names, r.String())
		r.Close()
	}
	return nil, fmt.Errorf("there are several live runs; name one, with -n and --kube-context where needed: %s", strings.Join(names, "; "))
}

// completeLive completes the release of a live run.
func completeLive(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		runs, _ := Live(func(event.Operation) bool { return true }) // then there is nothing to complete
		for _, r := range runs {
			names = append(names, r.Operation.Release)
			r.Close()
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
