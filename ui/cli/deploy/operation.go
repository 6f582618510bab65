// Package deploy implements the commands that change or test releases, and plan, rbac and manifests. For one
// release, a command turns its flags into an operationSpec, and an executor runs or previews it, on the
// screen or as lines. up and down run a kube.Stack instead. Only ui/cli imports it.
package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/kube/journal"
	"lockstep/kube/mask"
	"lockstep/kube/throwaway"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

type app struct{ *command.App }

// Commands returns the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	exec := executor{run: a.prepareAndRun, writes: true}
	return []*cobra.Command{
		a.newInstall(exec), a.newUpgrade(exec), a.newRollback(exec), a.newUninstall(exec), a.newTest(exec),
		a.newUp(), a.newDown(),
		a.newPlan(), a.newRBAC(), a.newRecover(), a.newManifests(),
	}
}

// operationSpec is an operation to prepare and run, as the flags of a command specify it.
type operationSpec struct {
	runOptions
	release  string
	registry *registry.Client // may be nil
	// prepare plans and checks. The operation is nil if there is nothing to do.
	prepare func(context.Context, *kube.Client, kube.Common) (*kube.Operation, error)
	dir     *chartDir    // nil if the chart is not a directory
	saved   *savedValues // nil if the operation cannot be edited
	// listGroups says how to list the groups, "" for "lockstep plan" with the same operation.
	listGroups string
	// unorderedNote is the note about a chart that declares no order, "" for none.
	unorderedNote string
	// reload loads the chart again and returns the operation with it and the given values, for
	// a restart on a new throwaway cluster. It is nil without --sandbox.
	reload func(ctx context.Context, values map[string]any) (operationSpec, error)
	// next suggests commands to run after the operation.
	next func(*event.State, *mask.Mask) []string
	// abortOutcome says what an abort without rollback does to the release; "" means that the
	// release will be marked failed.
	abortOutcome string
}

// executor runs an operation, or shows what it would do.
type executor struct {
	run    func(cmd *cobra.Command, spec operationSpec) error
	writes bool // run changes the cluster
	// printManifests is set for "manifests", which only prints the objects of a run in the cluster. Then
	// run is nil.
	printManifests bool
}

// prepareAndRun is the executor that runs an operation. With --sandbox it uses a throwaway
// cluster, and a new one each time the user restarts the run.
func (a *app) prepareAndRun(cmd *cobra.Command, spec operationSpec) error {
	for {
		var restart *operationSpec
		err := a.withCluster(cmd, spec.sandbox, func(s *helmcli.EnvSettings) error {
			spec.common.Lease = a.leaseOptions(cmd)
			client, op, err := a.prepareOperation(cmd, spec, s)
			if err != nil || op == nil {
				return err
			}
			restart, err = a.runOperation(cmd, client, op, spec)
			return err
		})
		if restart == nil {
			return err
		}
		spec = *restart
	}
}

// leaseOptions returns the options of the Lease that locks a release (R51). Lock files, in a directory
// beside the records, show which runs of this machine were killed.
func (a *app) leaseOptions(cmd *cobra.Command) kube.LeaseOptions {
	opts := kube.LeaseOptions{OnWait: a.Display(cmd).Note}
	if runs, err := report.RunDir(); err == nil {
		opts.LockDir = filepath.Join(filepath.Dir(runs), "locks")
	}
	return opts
}

// preview prepares an operation and calls do with it instead of running it.
func (a *app) preview(cmd *cobra.Command, spec operationSpec, do func(context.Context, *kube.Operation) error) error {
	spec.common.PlanOnly = true
	return a.withCluster(cmd, spec.sandbox, func(s *helmcli.EnvSettings) error {
		_, op, err := a.prepareOperation(cmd, spec, s)
		if err != nil || op == nil {
			return err
		}
		_, err = command.Cancelable(cmd.Context(), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, do(ctx, op)
		})
		return err
	})
}

// prepareOperation connects and prepares an operation. The operation is nil if there is nothing to do.
func (a *app) prepareOperation(cmd *cobra.Command, spec operationSpec, settings *helmcli.EnvSettings) (*kube.Client, *kube.Operation, error) {
	client, err := kube.Connect(settings, slog.Default(), spec.registry)
	if err != nil {
		return nil, nil, err
	}
	d := a.Display(cmd)
	defer reportUnreachable(client, d.Notices)()
	steps := &command.Progress{Notices: d.Notices}
	defer steps.End()
	common := spec.common
	common.OnStep, common.Job = steps.Start, incluster.JobID()
	common.Release, common.Namespace = spec.release, settings.Namespace()
	common.Mask = &mask.Mask{}
	a.Logs.Hide(common.Mask.Text) // of what the preparation reads
	if spec.savedPlan != nil {
		common.SavedPlan = spec.savedPlan.Release("")
	}
	journal, err := openJournal(cmd, client, spec.runOptions, d)
	if err != nil {
		return nil, nil, err
	}
	spec.follow.continues(journal.Begun())
	common.Journal = journal.Entry("")
	op, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (*kube.Operation, error) {
		return spec.prepare(ctx, client, common)
	})
	if refusal, ok := errors.AsType[*kube.Refusal](err); ok {
		d.Warnings(refusal.Warnings)
	}
	if errors.Is(err, kube.ErrCompleted) {
		d.Note(err.Error() + "; nothing to do")
		return client, nil, nil
	}
	err = exitIfBegun(journal, err)
	list := "list the groups with: " + command.ShellJoin([]string{text.Program, "plan", cmd.Name(), spec.release, "-n", common.Namespace})
	return client, op, plan.WithHint(err, cmp.Or(spec.listGroups, list))
}

// exitIfBegun gives the error of a run that cannot be prepared the exit code of a failure if an earlier pod has begun the run: that
// one may have written.
func exitIfBegun(j *journal.Journal, err error) error {
	if _, begun := j.Begun(); err == nil || !begun {
		return err
	}
	return command.Exit(command.ExitFailed, err)
}

// openJournal opens the journal of a run in the cluster (S13), nil elsewhere. Without permission the run has none. It refuses a run
// that would obey no command, unless an earlier pod has begun it.
func openJournal(cmd *cobra.Command, client *kube.Client, r runOptions, d report.Display) (*journal.Journal, error) {
	j, err := client.OpenJournal(cmd.Context(), r.timeout())
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		d.Warn(fmt.Sprintf("if this pod is replaced, the next one starts over: %v; "+text.Program+" rbac --in-cluster prints the permission", err))
		if j = nil; apierrors.IsNotFound(err) {
			j = journal.Lost(err)
		}
		err = nil
	}
	if _, earlier := j.Begun(); err != nil || earlier || r.common.SkipPreflight {
		return j, err
	}
	return j, client.CheckCommands(cmd.Context(), func(account string) string {
		return rbacCommandInPod(cmd) + " --service-account " + account
	})
}

// withCluster calls do with the settings of the cluster to use. With --sandbox that is a throwaway
// cluster, which is deleted afterwards.
func (a *app) withCluster(cmd *cobra.Command, sandbox bool, do func(*helmcli.EnvSettings) error) error {
	if !sandbox {
		return do(a.Settings)
	}
	d := a.Display(cmd)
	start := time.Now()
	ready := d.Start("starting a throwaway cluster")
	cluster, err := throwaway.Start(cmd.Context(), throwaway.Options{})
	if err != nil {
		ready("")
		return err
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			d.Warn(err.Error())
		}
	}()
	ready(fmt.Sprintf("ready after %.1fs", time.Since(start).Seconds()))
	settings := command.ContextSettings(a.Settings, cluster.Kubeconfig, "")
	settings.SetNamespace(a.Settings.Namespace())
	return do(settings)
}
