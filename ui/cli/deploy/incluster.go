package deploy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/documents"
	"lockstep/kube/helmfile"
	"lockstep/kube/incluster"
	"lockstep/kube/mask"
	"lockstep/kube/stack"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/trace"
)

// packedRun is a command line with the files that it needs in the cluster.
type packedRun struct {
	release         string
	args            []string // positional arguments
	files           map[string][]byte
	credentials     map[string]charts.RegistryCredential // by chart reference
	labels          map[string]string
	createNamespace bool
	printOnly       bool // print the objects instead of creating them
	stack           bool // a helmfile
}

// runAsJob runs a command as a Job and attaches to it.
func (a *app) runAsJob(cmd *cobra.Command, c clusterFlags, r runOptions, p packedRun) error {
	if c.account == "" && !r.sandbox {
		needing := "this release needs"
		if p.stack {
			needing = "these releases need"
		}
		return fmt.Errorf("%s needs --service-account NAME; create one with the permissions %s: %s | kubectl apply -f -",
			c.requestedBy(cmd), needing, rbacCommand(cmd, a.Settings.Namespace(), "--in-cluster"))
	}
	if len(r.common.Approve) > 0 && !p.printOnly {
		return errors.New("--approve cannot be combined with --in-cluster, where somebody else approves: " + text.Program + " ctl " + p.release + " approve GROUP")
	}
	if driver := connect.StorageDriver(); driver == "sql" || driver == "memory" {
		return fmt.Errorf("%s does not work with HELM_DRIVER=%s; set HELM_DRIVER to secret or configmap", c.requestedBy(cmd), driver)
	}
	if err := p.packFiles(r); err != nil {
		return err
	}
	if p.printOnly {
		return kube.WriteTask(cmd.OutOrStdout(), p.task(a, cmd, c, r))
	}
	return a.withCluster(cmd, r.sandbox, func(s *helmcli.EnvSettings) error {
		client, err := kube.Connect(s, slog.Default(), nil)
		if err != nil {
			return err
		}
		if err := client.CheckReachable(cmd.Context()); err != nil {
			return err
		}
		if p.createNamespace || r.sandbox {
			if err := client.EnsureNamespace(cmd.Context(), s.Namespace()); err != nil {
				return err
			}
		}
		if r.sandbox && c.account == "" {
			if c.account, err = client.CreateAdmin(cmd.Context(), s.Namespace()); err != nil {
				return err
			}
		}
		return a.runTask(cmd, client, r, p.task(a, cmd, c, r))
	})
}

// packFiles adds the files that flags name to the run, with the flags for its command line.
func (p *packedRun) packFiles(r runOptions) error {
	if err := p.packReadiness(r.common.Readiness); err != nil {
		return err
	}
	if p.files == nil {
		p.files = map[string][]byte{}
	}
	if r.savedPlan != nil {
		text, err := r.savedPlan.Encode()
		if err != nil {
			return err
		}
		p.files[planInCluster] = text
		p.args = append(p.args, "--plan="+planInCluster)
	}
	if file := r.notifyKeyFile; file != "" {
		key, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--notify-key-file: %w", err)
		}
		p.files[keyInCluster] = key
		p.args = append(p.args, "--notify-key-file="+keyInCluster)
	}
	return nil
}

// deployInCluster packs the chart and values of an install or upgrade and runs it in the cluster.
func (a *app) deployInCluster(cmd *cobra.Command, c clusterFlags, d *deployFlags, r runOptions, name, ref string, exec executor) error {
	if err := charts.CheckReleaseName(name); err != nil { // it becomes part of the names of objects
		return err
	}
	rendering, err := d.loadWithProgress(cmd, a, ref)
	if err != nil {
		return err
	}
	archive, err := rendering.Chart.Archive()
	if err != nil {
		return err
	}
	p := packedRun{
		release: name, args: []string{name, chartInCluster}, files: map[string][]byte{chartInCluster: archive}, labels: rendering.Labels,
		createNamespace: d.options.CreateNamespace, printOnly: exec.printManifests,
	}
	if len(rendering.Values) > 0 {
		values, err := documents.EncodeExact(rendering.Values)
		if err != nil {
			return err
		}
		p.files[valuesInCluster] = []byte(values)
		p.args = append(p.args, "--values="+valuesInCluster)
	}
	if d.Base.Revision > 0 && d.options.ResetValues {
		p.args = append(p.args, "--reset-values")
	}
	if registry.IsOCI(ref) && p.task(a, cmd, c, r).TooLarge() {
		delete(p.files, chartInCluster)
		if p.args[1], err = p.pinForPod(cmd.Context(), &d.Chart, ref, rendering.Chart, a.Settings); err != nil {
			return err
		}
		if d.Chart.PlainHTTP {
			p.args = append(p.args, "--plain-http")
		}
		if d.Chart.InsecureSkipTLSVerify {
			p.args = append(p.args, "--insecure-skip-tls-verify")
		}
	}
	return a.runAsJob(cmd, c, r, p)
}

// pinForPod returns the reference, pinned to a digest, with which the pod downloads a chart from a
// registry. It packs the user's credentials for the registry.
func (p *packedRun) pinForPod(
	ctx context.Context, flags *input.ChartFlags, ref string, chart *charts.Chart, s *helmcli.EnvSettings,
) (string, error) {
	client, err := flags.Registry(s)
	if err != nil {
		return "", err
	}
	credential, err := flags.Credential(ctx, ref, s)
	if err != nil {
		return "", err
	}
	if credential != (charts.RegistryCredential{}) {
		if p.credentials == nil {
			p.credentials = map[string]charts.RegistryCredential{}
			p.args = append(p.args, "--registry-config="+registryInCluster)
		}
		p.credentials[ref] = credential
		if p.files[registryInCluster], err = charts.RegistryConfig(p.credentials); err != nil {
			return "", err
		}
	}
	return charts.Pin(ref, chart.Metadata().Version, client)
}

// stackInCluster packs a helmfile with its charts and values and runs up or down in the cluster.
func (a *app) stackInCluster(cmd *cobra.Command, flags *stackFlags, file *helmfile.File, r runOptions) error {
	if flags.prune && len(file.Others)+len(file.Unread) > 0 {
		return errors.New("--prune does not work with --in-cluster if -l, a condition or the environment excludes releases")
	}
	local := file.FindHook(func(h helmfile.Hook) bool { return h.Image == nil })
	if local != nil && !flags.skipHooks {
		return fmt.Errorf("%s: hook %s is a program on this machine, which a run in the cluster does not have: give it a %s, which runs it as a Job, "+
			"make it a Job with annotation helm.sh/hook in the chart, leave the hooks out with --skip-hooks, or run without --in-cluster", local.At, local.Name, helmfile.ImageKey)
	}
	if h := file.FindHook(func(helmfile.Hook) bool { return true }); h != nil && !flags.skipHooks && !flags.allowHooks {
		return fmt.Errorf("%s: hook %s runs image %s in the cluster; allow the hooks with --allow-hooks, or leave them out with --skip-hooks", h.At, h.Name, h.Image.Name)
	}
	file, err := a.inOneCluster(cmd.Context(), file, r.sandbox)
	if err != nil {
		return err
	}
	name := stack.Name(file)
	p := packedRun{release: name, args: []string{"--file=" + name + "/helmfile.yaml"}, files: map[string][]byte{}, stack: true}
	loader, err := input.NewStackLoader(a.App, file, a.Settings, flags.charts)
	if err != nil {
		return err
	}
	if flags.allowHooks {
		p.args = append(p.args, "--allow-hooks")
	}
	if flags.prune && r.screen {
		p.args = append(p.args, "--break-on="+breakOnPrune)
	}
	charts, secret := map[string]string{}, map[string]mask.Paths{}
	if flags.down {
		for _, rel := range file.Releases {
			if rel.Installed {
				p.files[name+"/"+rel.ValuesFile()] = nil // the helmfile names it, but down does not read it
			}
		}
	} else {
		steps := &command.Progress{Notices: a.Display(cmd).Notices}
		charts, err = p.pack(cmd.Context(), name, file, loader, secret, steps.Start)
		steps.End()
	}
	if err == nil && p.task(a, cmd, flags.run.cluster, r).TooLarge() {
		err = p.replaceWithReferences(cmd.Context(), name, file, loader, charts, a.Settings)
	}
	if err != nil {
		return err
	}
	if p.files[name+"/helmfile.yaml"], err = file.Packed(charts, secret, flags.down, flags.skipHooks); err != nil {
		return err
	}
	return a.runAsJob(cmd, flags.run.cluster, r, p)
}

// inOneCluster returns the file without its contexts, which the pod does not have.
func (a *app) inOneCluster(ctx context.Context, file *helmfile.File, sandbox bool) (*helmfile.File, error) {
	if sandbox { // it stands for all contexts
		return file.WithoutContexts(nil)
	}
	return command.Cancelable(ctx, func(ctx context.Context) (*helmfile.File, error) { return kube.InCluster(ctx, file, a.ConnectTo) })
}

// pack adds the charts and values of a helmfile to the files, below dir. It returns the paths of the
// charts, relative to dir, by release ID, and adds the places of decrypted values to secret.
func (p *packedRun) pack(
	ctx context.Context, dir string, file *helmfile.File, loader *input.StackLoader, secret map[string]mask.Paths, start func(string),
) (map[string]string, error) {
	packed := map[string]string{}
	for _, rel := range file.Releases {
		if !rel.Installed {
			continue
		}
		start("packing release " + rel.ID())
		rendering, err := loader.Load(ctx, rel)
		if err != nil {
			return nil, helmfile.Locate(rel.At, rel.ID(), err)
		}
		archive, err := rendering.Chart.Archive()
		if err != nil {
			return nil, err
		}
		values, err := documents.EncodeExact(rendering.Values)
		if err != nil {
			return nil, err
		}
		// Releases with the same chart share its file.
		chart := fmt.Sprintf("charts/%s-%.6x.tgz", rendering.Chart.Name(), sha256.Sum256(archive))
		p.files[dir+"/"+chart], p.files[dir+"/"+rel.ValuesFile()] = archive, []byte(values)
		packed[rel.ID()], secret[rel.ID()] = "./"+chart, rendering.SecretPaths
	}
	return packed, nil
}

// replaceWithReferences replaces packed charts from registries with references: it changes charts, the
// result of pack, and removes the files below dir that are no longer used.
func (p *packedRun) replaceWithReferences(
	ctx context.Context, dir string, file *helmfile.File, loader *input.StackLoader, packed map[string]string, s *helmcli.EnvSettings,
) error {
	for _, rel := range file.Releases {
		ref, source := loader.Source(rel)
		if packed[rel.ID()] == "" || !registry.IsOCI(ref) || source.PlainHTTP || source.InsecureSkipTLSVerify {
			continue
		}
		rendering, err := loader.Load(ctx, rel) // already loaded
		if err == nil {
			packed[rel.ID()], err = p.pinForPod(ctx, source, ref, rendering.Chart, s)
		}
		if err != nil {
			return helmfile.Locate(rel.At, rel.ID(), err)
		}
	}
	used := slices.Collect(maps.Values(packed))
	maps.DeleteFunc(p.files, func(path string, _ []byte) bool {
		chart, ok := strings.CutPrefix(path, dir+"/charts/")
		return ok && !slices.Contains(used, "./charts/"+chart)
	})
	return nil
}

// Files of a run in the cluster.
const (
	chartInCluster    = "chart.tgz"
	valuesInCluster   = "values" + documents.ExactSuffix
	registryInCluster = "registry.json"
	planInCluster     = "plan.json"
	keyInCluster      = "notify.key"
)

// task returns the task to start in the cluster.
func (p *packedRun) task(a *app, cmd *cobra.Command, c clusterFlags, r runOptions) incluster.Task {
	name := cmd.Name()
	if p.printOnly {
		name = "upgrade"
	}
	task := incluster.Task{
		Namespace: a.Settings.Namespace(), Release: p.release, Command: name, Files: p.files,
		Args: p.commandLine(cmd, name, a.Settings.Namespace(), r), Env: passedEnv(),
		Image: cmp.Or(c.image, a.Image), ServiceAccount: c.account, KeepFor: c.keepFor,
		Approvals: !p.printOnly,
	}
	if !p.printOnly { // the name of a printed Job depends on what it has
		task.SecretEnv = trace.Environment()
	}
	return task
}

// passedEnv returns the environment variables of this process that a run in the cluster gets too.
func passedEnv() map[string]string {
	env := map[string]string{}
	for _, name := range []string{"HELM_DRIVER", "HELM_MAX_HISTORY", input.RenderMemoryEnv} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return env
}

// commandLine returns the command line to run in the cluster.
func (p *packedRun) commandLine(cmd *cobra.Command, name, namespace string, r runOptions) []string {
	args := append([]string{name}, p.args...)
	if !p.stack { // a helmfile has the namespaces of its releases
		args = append(args, "--namespace="+namespace)
	}
	args = append(args, "--output=json")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(localFlags, f.Name) {
			return
		}
		for _, v := range command.Values(f) {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		args = append(args, "--labels="+key+"="+p.labels[key])
	}
	if r.common.HoldOnFailure {
		args = append(args, "--hold-on-failure")
	}
	return args
}
