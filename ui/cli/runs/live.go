package runs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// LiveDir returns the directory with the sockets of live runs, beside the records.
func LiveDir() (string, error) {
	runs, err := report.RunDir()
	return filepath.Join(filepath.Dir(runs), "live"), err
}

// LiveRuns connects to the live runs of this machine that match. The caller closes them.
func LiveRuns(match func(event.Operation) bool) ([]*remote.Run, error) {
	dir, err := LiveDir()
	if err != nil {
		return nil, err
	}
	runs, err := remote.Runs(dir)
	for _, r := range runs {
		r.By = kube.Process()
	}
	return closeUnless(runs, func(r *remote.Run) bool { return match(r.Operation) }), err
}

// closeUnless returns the runs that keep accepts and closes the others.
func closeUnless(runs []*remote.Run, keep func(*remote.Run) bool) []*remote.Run {
	return slices.DeleteFunc(runs, func(r *remote.Run) bool {
		if keep(r) {
			return false
		}
		r.Close()
		return true
	})
}

// InCluster returns the runs in the cluster that the kubeconfig selects and closes the others.
func InCluster(ctx context.Context, a *command.App, runs []*remote.Run) []*remote.Run {
	return closeUnless(runs, func(r *remote.Run) bool { return ClientFor(ctx, a, r) != nil })
}

// elsewhere reports whether a run on this machine is known to be in another cluster than the kubeconfig selects: one of the
// same name there may be meant (S10). While one of the clusters is away, that is unknown.
func elsewhere(ctx context.Context, a *command.App, r *remote.Run) bool {
	client, err := a.Connect()
	if err != nil {
		return false
	}
	same, certain := SameCluster(ctx, client, r)
	return certain && !same
}

// connectRun connects to the live run of a release or a stack on this machine, or to the only one if name is empty. name may also be
// the path of a stack's helmfile, or of its folder.
// --kube-context is needed only to choose between several, and so is the namespace, unless one was chosen for a
// release: by -n, Helm's environment or the kubeconfig's context. Without a match it
// searches the cluster, in that namespace, and waits for the pod of the run until the limit.
func (a *app) connectRun(cmd *cobra.Command, name string, limit time.Duration) (*remote.Run, error) {
	flagSet := cmd.Flags().Changed
	runs, err := LiveRuns(func(op event.Operation) bool { return name == "" || op.Release == name || isHelmfile(op, name) })
	if err != nil {
		return nil, err
	}
	var outside []string // what matches but for the namespace
	if flagSet("namespace") || a.Settings.Namespace() != metav1.NamespaceDefault {
		runs = closeUnless(runs, func(r *remote.Run) bool {
			in := namespaces(cmd.Context(), r)
			if slices.Contains(in, a.Settings.Namespace()) || !flagSet("namespace") && (name == "" || r.Operation.IsStack()) {
				return true
			}
			outside = append(outside, describe(cmd.Context(), r))
			return false
		})
	}
	all := len(runs)
	runs = closeUnless(runs, func(r *remote.Run) bool { return !elsewhere(cmd.Context(), a.App, r) })
	others := all - len(runs)
	if flagSet("kube-context") {
		named := func(r *remote.Run) bool { return r.Operation.Context == a.Settings.KubeContext }
		if len(runs) > 1 || !slices.ContainsFunc(runs, named) { // otherwise no cluster is needed to control the run
			runs = InCluster(cmd.Context(), a.App, runs)
		}
	}
	inNamespace := func(r *remote.Run) bool { return r.Operation.Namespace == a.Settings.Namespace() }
	if name != "" && len(runs) > 1 && slices.ContainsFunc(runs, inNamespace) {
		runs = closeUnless(runs, inNamespace)
	}
	switch {
	case len(runs) == 1:
		return runs[0], nil
	case len(runs) == 0:
		r, err := a.connectClusterRun(cmd, name, limit)
		if err != nil && others > 0 {
			err = fmt.Errorf("%w; a live run on this machine is in another cluster than the one that the kubeconfig selects", err)
		}
		if err != nil && len(outside) > 0 {
			err = fmt.Errorf("%w; live on this machine in another namespace, which -n selects: %s", err, strings.Join(outside, "; "))
		}
		return r, err
	}
	var names []string
	for _, r := range runs {
		names = append(names, describe(cmd.Context(), r))
		r.Close()
	}
	return nil, fmt.Errorf("several live runs match; choose one with RELEASE, the path of a stack's helmfile, -n or --kube-context: %s", strings.Join(names, "; "))
}

// isHelmfile reports whether a path is that of a stack's helmfile, or of its folder.
func isHelmfile(op event.Operation, path string) bool {
	abs, err := filepath.Abs(path)
	return err == nil && op.File != "" && (abs == op.File || abs == filepath.Dir(op.File))
}

// namespaces returns the namespaces of a run: those of a stack's releases.
func namespaces(ctx context.Context, r *remote.Run) (names []string) {
	if !r.Operation.IsStack() {
		return []string{r.Operation.Namespace}
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	for _, g := range r.Now(ctx).Groups() {
		if parts := strings.Split(g.ID, "/"); len(parts) > 1 { // [CONTEXT/]NAMESPACE/NAME
			names = append(names, parts[len(parts)-2])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// describe tells a run apart from others.
func describe(ctx context.Context, r *remote.Run) string {
	op := r.Operation
	if !op.IsStack() {
		return r.String()
	}
	what := fmt.Sprintf("%s %s in %s", op.Name, op.Release, text.Named("namespace", namespaces(ctx, r)))
	if op.File != "" {
		what += " of " + op.File
	}
	return what
}

// completeLive completes the names of releases with a live run.
func completeLive(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		runs, _ := LiveRuns(func(event.Operation) bool { return true }) // on an error there are no completions
		for _, r := range runs {
			names = append(names, r.Operation.Release)
			r.Close()
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
