package runs

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
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

// joinClusterRun attaches to the run of a release in the cluster, or to the only live one of
// the namespace if name is empty. One that has ended is shown as long as its Job is kept.
func (a *app) joinClusterRun(cmd *cobra.Command, name string) (*remote.Run, error) {
	none := errors.New("no live run on this machine")
	if name != "" {
		none = fmt.Errorf("no live run of %s on this machine", name)
	}
	client, err := kube.Connect(a.Settings, slog.Default(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster was not asked: %w", none, err)
	}
	found, err := client.ClusterRuns(cmd.Context(), a.Settings.Namespace())
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster was not asked: %w", none, err)
	}
	found = slices.DeleteFunc(found, func(r kube.ClusterRun) bool { return name != "" && r.Release != name || name == "" && r.Over() })
	switch live := slices.IndexFunc(found, func(r kube.ClusterRun) bool { return !r.Over() }); {
	case len(found) == 0:
		return nil, fmt.Errorf("%w, and none in namespace %s of the cluster", none, a.Settings.Namespace())
	case name == "" && len(found) > 1:
		return nil, fmt.Errorf("several live runs in namespace %s; name the release", a.Settings.Namespace())
	case live >= 0:
		found = found[live:]
	}
	run, err := remote.Connect(found[0].Open(cmd.Context(), nil))
	if err != nil {
		return nil, fmt.Errorf("attach to Job %s/%s: %w", found[0].Namespace, found[0].Name, err)
	}
	run.By = client.User(cmd.Context())
	return run, nil
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
