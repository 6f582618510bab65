package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/report"
)

// clusterFlags are the flags of a run in the cluster.
type clusterFlags struct {
	on             bool
	image, account string
	keepFor        time.Duration
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&c.on, "in-cluster", false, "run as a Job in the release's namespace; this terminal only watches and controls it")
	f.StringVar(&c.account, "service-account", "", "ServiceAccount of the Job, with --in-cluster")
	f.StringVar(&c.image, "image", "", "image of the Job, with --in-cluster (default: that of this version)")
	f.DurationVar(&c.keepFor, "keep-for", time.Hour, "how long the Job stays after its end, with --in-cluster")
}

// resolvedHere are flags that a run in the cluster does not get: what they say is in its
// files, belongs to this terminal, or leads to the cluster from outside.
var resolvedHere = []string{
	"in-cluster", "service-account", "image", "keep-for", "sandbox", "output", "no-tui", "report", "on-hangup", "create-namespace",
	"values", "set", "set-string", "set-json", "set-file", "set-literal",
	"version", "devel", "repo", "username", "password", "ca-file", "cert-file", "key-file", "insecure-skip-tls-verify", "plain-http",
	"pass-credentials", "verify", "keyring", "dependency-update", "generate-name", "name-template", "labels", "hold-on-failure",
	"namespace", "kubeconfig", "kube-context", "kube-token", "kube-as-user", "kube-as-group", "kube-apiserver", "kube-ca-file",
	"file", "environment", "selector", "state-values-file", "state-values-set", "skip-deps", "kube-tls-server-name", "kube-insecure-skip-tls-verify", "registry-config", "repository-config", "repository-cache", "color",
}

// suits reports why a command cannot run in the cluster.
func (c *clusterFlags) suits(cmd *cobra.Command, do execute) error {
	switch {
	case !c.on && !do.manifests:
		return nil
	case !do.writes && !do.manifests || dry(cmd):
		return errors.New("--in-cluster needs a run; this command only shows what would happen")
	case cmd.Flags().Changed("post-renderer"):
		return errors.New("--post-renderer does not work with --in-cluster: its plugin is on this machine")
	}
	return nil
}

// packed is what a command resolves here for its run in the cluster.
type packed struct {
	release         string
	args            []string // positional
	files           map[string][]byte
	labels          map[string]string
	createNamespace bool
	print           bool // instead of creating it
	stack           bool // of a helmfile
}

// inCluster runs a command as a Job, and shows it here like an attached run.
func (a *app) inCluster(cmd *cobra.Command, flags *runFlags, r running, p packed) error {
	c := flags.cluster
	if c.account == "" && !r.sandbox {
		return fmt.Errorf("--in-cluster needs --service-account NAME; create one with the rights of this release: lockstep rbac %s -n %s --in-cluster | kubectl apply -f -", cmp.Or(strings.Join(cmd.Flags().Args(), " "), "-f HELMFILE"), a.Settings.Namespace())
	}
	if driver := os.Getenv("HELM_DRIVER"); driver == "sql" || driver == "memory" {
		return fmt.Errorf("--in-cluster needs release records in Secrets or ConfigMaps, not in HELM_DRIVER=%s", driver)
	}
	if p.print {
		return kube.WriteTask(cmd.OutOrStdout(), p.task(a, cmd, c, a.Settings, r))
	}
	return a.inSandbox(cmd, job{running: r}, func(s *helmcli.EnvSettings) error {
		client, err := kube.Connect(s, slog.Default(), nil)
		if err != nil {
			return err
		}
		if p.createNamespace || r.sandbox {
			if err := client.EnsureNamespace(cmd.Context(), s.Namespace()); err != nil {
				return err
			}
		}
		task := p.task(a, cmd, c, s, r)
		task.By = client.User(cmd.Context())
		if r.sandbox && c.account == "" {
			if task.ServiceAccount, err = client.TrustAccount(cmd.Context(), s.Namespace()); err != nil {
				return err
			}
		}
		return a.runTask(cmd, client, r, task)
	})
}

// deployInCluster packs the chart and the values of install and upgrade, and runs the command
// in the cluster.
func (a *app) deployInCluster(cmd *cobra.Command, flags *runFlags, d *deployFlags, r running, name, ref string, do execute) error {
	steps := &progress{say: a.Display(cmd, r.mode.Report())}
	d.chart.Progress = steps.doing
	what, err := d.rendering(cmd.Context(), a, ref, a.Settings)
	steps.end()
	if err != nil {
		return err
	}
	archive, err := what.Chart.Archive()
	if err != nil {
		return err
	}
	p := packed{release: name, args: []string{name, chartInCluster}, files: map[string][]byte{chartInCluster: archive}, labels: d.labels, createNamespace: d.createNamespace, print: do.manifests}
	if len(what.Values) > 0 {
		values, err := kube.YAML(what.Values)
		if err != nil {
			return err
		}
		p.files[valuesInCluster] = []byte(values)
		p.args = append(p.args, "--values="+valuesInCluster)
	}
	return a.inCluster(cmd, flags, r, p)
}

// stackInCluster packs a helmfile with its charts and values, and runs up or down in the
// cluster.
func (a *app) stackInCluster(cmd *cobra.Command, flags *stackFlags, file *kube.Helmfile, r running, down bool) error {
	if flags.prune && len(file.Others) > 0 {
		return errors.New("--prune does not work with --in-cluster if -l or a condition excludes releases")
	}
	name := kube.StackName(file)
	p := packed{release: name, args: []string{"--file=" + name + "/helmfile.yaml"}, files: map[string][]byte{}, stack: true}
	text, err := file.Packed()
	if err != nil {
		return err
	}
	p.files[name+"/helmfile.yaml"] = text
	loader, err := command.NewStackLoader(a.App, file, a.Settings, flags.set, flags.skipDeps)
	if err != nil {
		return err
	}
	steps := &progress{say: a.Display(cmd, r.mode.Report())}
	defer steps.end()
	for _, rel := range file.Releases {
		if !rel.Installed {
			continue
		}
		if down {
			p.files[name+"/"+rel.ValuesFile()] = nil // named, and not used
			continue
		}
		steps.doing("packing release " + rel.ID())
		what, err := loader.Load(cmd.Context(), rel)
		if err != nil {
			return fmt.Errorf("%s: release %s: %w", rel.At, rel.ID(), err)
		}
		archive, err := what.Chart.Archive()
		if err != nil {
			return err
		}
		values, err := kube.YAML(what.Values)
		if err != nil {
			return err
		}
		p.files[name+"/"+rel.ChartFile()], p.files[name+"/"+rel.ValuesFile()] = archive, []byte(values)
	}
	steps.end()
	return a.inCluster(cmd, &flags.run, r, p)
}

// Files of a run in the cluster.
const (
	chartInCluster  = "chart.tgz"
	valuesInCluster = "values.yaml"
)

// task is the run in the cluster.
func (p *packed) task(a *app, cmd *cobra.Command, c clusterFlags, s *helmcli.EnvSettings, r running) kube.Task {
	return kube.Task{
		Namespace: s.Namespace(), Release: p.release, Command: p.name(cmd), Args: p.command(cmd, s, r), Files: p.files,
		Env: passedOn(), Image: cmp.Or(c.image, a.Image), ServiceAccount: c.account, KeepFor: c.keepFor,
	}
}

// passedOn are the environment variables that a run in the cluster gets.
func passedOn() map[string]string {
	env := map[string]string{}
	for _, name := range []string{"HELM_DRIVER", "HELM_MAX_HISTORY", "LOCKSTEP_RENDER_MEMORY"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return env
}

// name is the command that runs in the cluster.
func (p *packed) name(cmd *cobra.Command) string {
	if p.print {
		return "upgrade"
	}
	return cmd.Name()
}

const manifestsLong = `Print the Job, Secrets and Lease that "upgrade --install --in-cluster" would create, as YAML: to be committed to Git and
applied by Argo CD or Flux, or by kubectl. The Secrets hold the chart and all values: anyone who reads the
output can read them. The name of the Job changes with the chart, the values and the flags, so that a changed deployment is a new Job.

The namespace and the ServiceAccount must exist; lockstep rbac prints the account with its rights. Nothing is written,
and no cluster is needed.`

// newManifests makes the manifests command, which has the flags of upgrade.
func (a *app) newManifests() *cobra.Command {
	cmd := a.newUpgrade(execute{manifests: true})
	cmd.Use, cmd.GroupID, cmd.Short, cmd.Long = "manifests NAME CHART", "release", "print the Job that would deploy a release in the cluster", manifestsLong
	cmd.Example = `lockstep manifests shop ./shop -n shop --service-account lockstep > job.yaml
lockstep manifests shop ./shop -n shop --service-account lockstep -f prod.yaml | kubectl apply -f -`
	_ = cmd.Flags().Set("install", "true") // defined by newUpgrade
	for _, name := range []string{"install", "in-cluster", "output", "no-tui", "report", "dry-run", "on-hangup", "hide-secret", "show-secrets"} {
		cmd.Flags().Lookup(name).Hidden = true
	}
	return cmd
}

// command is the command line in the cluster.
func (p *packed) command(cmd *cobra.Command, s *helmcli.EnvSettings, r running) []string {
	args := append([]string{p.name(cmd)}, p.args...)
	if !p.stack { // its file has the namespaces
		args = append(args, "--namespace="+s.Namespace())
	}
	args = append(args, "--output=json")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(resolvedHere, f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		args = append(args, "--labels="+key+"="+p.labels[key])
	}
	if r.common.HoldOnFailure {
		args = append(args, "--hold-on-failure")
	}
	return args
}

// runTask starts a task and shows it until it ends or the user quits.
func (a *app) runTask(cmd *cobra.Command, client *kube.Client, r running, task kube.Task) error {
	d := a.Display(cmd, r.mode.Report())
	job, err := client.StartTask(cmd.Context(), task)
	if err != nil {
		return err
	}
	d.Note(fmt.Sprintf("Job %s/%s runs it; from any machine: lockstep attach %s -n %[1]s", job.Namespace, job.Name, job.Release))
	run, err := runs.Open(cmd.Context(), client, job, d.Note)
	if err != nil {
		if cmd.Context().Err() != nil { // it has not started: nothing stays
			gone, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 10*time.Second)
			defer cancel()
			err = errors.Join(command.ErrInterrupted, job.Delete(gone))
		}
		return err
	}
	defer run.Close()
	run.By = task.By
	record := newRecord(d)
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		report.Watch(context.Background(), run.Feed(), record)
	}()
	err = runs.Attach(a.App, cmd, run, r.mode)
	run.Close()
	<-recorded
	record.Close()
	if state := run.Now(context.Background()); !state.Ended.IsZero() {
		command.WarnIf(d, r.outcomes.End(report.NewOutcome(state, nil)))
	}
	return err
}
