package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/throwaway"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// job is an operation as a command asks for it.
type job struct {
	running
	release  string
	registry *registry.Client // may be nil
	// prepare checks and plans. The operation is nil if there is nothing to do.
	prepare func(context.Context, *kube.Client, kube.Common) (*kube.Operation, error)
	folder  *chartFolder // of the chart; nil if it is not a directory
	saved   *savedValues // of its edits; nil where nothing can be edited
	// reload loads the chart again for a restart with these values on a new throwaway
	// cluster; nil without --sandbox.
	reload func(context.Context, map[string]any) error
	// next proposes commands after the end.
	next func(*event.State, *kube.Mask) []string
	// outcome is what an abort without rollback does to the release; empty means "the
	// release will be marked failed".
	outcome string
}

// execute is what a command does with its job: run it, or show what it would do.
type execute struct {
	job    func(cmd *cobra.Command, j job) error
	writes bool
	// manifests prints what a run in the cluster would create.
	manifests bool
}

// Operate runs a job, with --sandbox on a throwaway cluster and again on a new one each
// time the user restarts it.
func (a *app) operate(cmd *cobra.Command, j job) error {
	for {
		restart := false
		err := a.inSandbox(cmd, j, func(s *helmcli.EnvSettings) error {
			j.common.Lease = a.leaseOptions(cmd, j)
			client, op, err := a.prepared(cmd, j, s, false)
			if err != nil || op == nil {
				return err
			}
			restart, err = a.show(cmd, client, op, j)
			return err
		})
		if !restart {
			return err
		}
	}
}

// leaseOptions are the options of the Lease that makes a run the only one on its release
// (R51). A lock file next to the records identifies killed runs of this machine.
func (a *app) leaseOptions(cmd *cobra.Command, j job) kube.LeaseOptions {
	opts := kube.LeaseOptions{OnWait: a.Display(cmd, j.mode.Report()).Note}
	if runs, err := report.RunDir(); err == nil {
		opts.LockDir = filepath.Join(filepath.Dir(runs), "locks")
	}
	return opts
}

// preview prepares a job without running it, and calls do with its operation.
func (a *app) preview(cmd *cobra.Command, j job, do func(context.Context, *kube.Operation) error) error {
	return a.inSandbox(cmd, j, func(s *helmcli.EnvSettings) error {
		_, op, err := a.prepared(cmd, j, s, true)
		if err != nil || op == nil {
			return err
		}
		_, err = command.Cancelable(cmd.Context(), func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx, op) })
		return err
	})
}

// prepared checks and plans. The operation is nil if there is nothing to do.
func (a *app) prepared(cmd *cobra.Command, j job, settings *helmcli.EnvSettings, planOnly bool) (*kube.Client, *kube.Operation, error) {
	client, err := kube.Connect(settings, slog.Default(), j.registry)
	if err != nil {
		return nil, nil, err
	}
	say := a.Display(cmd, j.mode.Report())
	defer reportUnreachable(client, say)()
	steps := &progress{say: say}
	defer steps.end()
	common := j.common
	common.Doing = steps.doing
	common.Release, common.Namespace, common.PlanOnly = j.release, settings.Namespace(), planOnly
	op, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (*kube.Operation, error) { return j.prepare(ctx, client, common) })
	if refusal := (*kube.Refusal)(nil); errors.As(err, &refusal) {
		a.Display(cmd, j.mode.Report()).Warnings(refusal.Warnings)
	}
	return client, op, err
}

// inSandbox calls do with the settings of the job's cluster. With --sandbox that is a
// throwaway cluster, deleted afterwards.
func (a *app) inSandbox(cmd *cobra.Command, j job, do func(*helmcli.EnvSettings) error) error {
	if !j.sandbox {
		return do(a.Settings)
	}
	say := a.Display(cmd, j.mode.Report())
	start, ready := time.Now(), say.Start("starting a throwaway cluster")
	cluster, err := throwaway.Start(cmd.Context(), throwaway.Options{})
	if err != nil {
		ready("")
		return err
	}
	defer func() {
		if closing := cluster.Close(); closing != nil {
			say.Warn(closing.Error())
		}
	}()
	ready(fmt.Sprintf("ready after %.1fs", time.Since(start).Seconds()))
	return do(settingsFor(a.Settings, cluster.Kubeconfig))
}

// settingsFor are the given settings for the cluster of another kubeconfig.
func settingsFor(s *helmcli.EnvSettings, kubeconfig string) *helmcli.EnvSettings {
	out := helmcli.New()
	out.SetNamespace(s.Namespace())
	out.KubeConfig, out.KubeContext = kubeconfig, ""
	out.KubeToken, out.KubeAsUser, out.KubeAsGroups, out.KubeAPIServer = "", "", nil, ""
	out.KubeCaFile, out.KubeTLSServerName, out.KubeInsecureSkipTLSVerify = "", "", false
	out.Debug, out.MaxHistory, out.BurstLimit, out.QPS, out.ColorMode = s.Debug, s.MaxHistory, s.BurstLimit, s.QPS, s.ColorMode
	out.RegistryConfig, out.RepositoryConfig, out.RepositoryCache = s.RegistryConfig, s.RepositoryConfig, s.RepositoryCache
	out.PluginsDirectory, out.ContentCache = s.PluginsDirectory, s.ContentCache
	return out
}
