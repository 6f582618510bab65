package input

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/helmfile"
	"lockstep/kube/mask"
	"lockstep/kube/patches"
	"lockstep/ui/cli/command"
)

// StackLoader loads the charts of a helmfile. It loads each chart once.
type StackLoader struct {
	app      *command.App
	file     *helmfile.File
	settings *helmcli.EnvSettings
	options  StackLoaderOptions
	// Registry is the client for oci:// charts.
	Registry *registry.Client
	limits   charts.Limits

	mu     sync.Mutex
	charts map[string]func() (*charts.Chart, error)
}

// StackLoaderOptions are options for all releases of a helmfile.
type StackLoaderOptions struct {
	Set      []string // arguments of --set
	SkipDeps bool     // do not download missing dependencies of local charts
	// CRDs is --crds; skipCRDs of a release comes before it.
	CRDs string
	// Order is --order, inside each release.
	Order string
	// ForceConflicts takes over fields owned by other managers.
	ForceConflicts bool
}

// NewStackLoader returns a StackLoader for a helmfile.
func NewStackLoader(a *command.App, file *helmfile.File, s *helmcli.EnvSettings, o StackLoaderOptions) (*StackLoader, error) {
	limits, err := RenderLimits()
	if err != nil {
		return nil, err
	}
	if _, err := charts.Values(values.Options{Values: o.Set}, s); err != nil {
		return nil, err // the error about an invalid --set names no release
	}
	reg, err := (&ChartFlags{}).Registry(s)
	if err != nil {
		return nil, err
	}
	return &StackLoader{app: a, file: file, settings: s, options: o, Registry: reg, limits: limits, charts: map[string]func() (*charts.Chart, error){}}, nil
}

// Load loads the chart and the values of a release.
func (l *StackLoader) Load(ctx context.Context, rel helmfile.Release) (kube.ChartOptions, error) {
	chart, err := l.chart(ctx, rel)
	if err != nil {
		return kube.ChartOptions{}, err
	}
	read, err := command.Load(ctx, "the values of release "+rel.ID(), func(ctx context.Context) (releaseValues, error) {
		return l.read(ctx, rel)
	})
	if err != nil {
		return kube.ChartOptions{}, err
	}
	hideValues(l.app, chart, read.values, read.secret)
	renderer, err := PostFlags{rel.PostRenderer, rel.PostRenderArgs}.Renderer(l.settings)
	if err != nil {
		return kube.ChartOptions{}, fmt.Errorf("postRenderer: Helm 4 runs post-renderers as plugins: %w", err)
	}
	var labels map[string]string
	if rel.StoreLabels {
		labels = rel.Labels
	}
	crds := l.options.CRDs
	if rel.SkipCRDs {
		crds = kube.CRDsSkip
	}
	return kube.ChartOptions{
		Chart: chart, Values: read.values, SecretPaths: read.secret, Labels: labels, CRDs: crds, TakeOwnership: rel.TakeOwnership, DisableOpenAPIValidation: rel.DisableOpenAPIValidation,
		SkipSchemaValidation: rel.SkipSchemaValidation, EnableDNS: rel.EnableDNS, Description: rel.Description, PostRenderer: patches.Renderer(read.patches, renderer), Limits: l.limits,
		ForceConflicts: l.options.ForceConflicts, Order: l.options.Order,
	}, nil
}

// releaseValues are what a release adds to its chart.
type releaseValues struct {
	values  map[string]any
	secret  mask.Paths
	patches []patches.Patch
}

func (l *StackLoader) read(ctx context.Context, rel helmfile.Release) (out releaseValues, err error) {
	if out.values, out.secret, err = rel.Merge(ctx, l.options.Set, os.ReadFile); err != nil {
		return out, err
	}
	out.patches, err = rel.Patches(os.ReadFile)
	return out, err
}

// chart loads the chart of a release, once for all releases that use it.
func (l *StackLoader) chart(ctx context.Context, rel helmfile.Release) (*charts.Chart, error) {
	key := strings.Join([]string{rel.Chart, rel.Version, fmt.Sprint(rel.Devel, rel.Verify)}, "\n")
	l.mu.Lock()
	load := l.charts[key]
	if load == nil {
		load = sync.OnceValues(func() (*charts.Chart, error) {
			ref, flags := l.Source(rel)
			return flags.Load(ctx, ref, l.settings)
		})
		l.charts[key] = load
	}
	l.mu.Unlock()
	return load()
}

// Source returns the reference of a release's chart and the flags for loading it.
func (l *StackLoader) Source(rel helmfile.Release) (ref string, flags *ChartFlags) {
	flags = &ChartFlags{ChartPathOptions: action.ChartPathOptions{Version: rel.Version, Verify: rel.Verify}, Devel: rel.Devel}
	ref = l.resolve(rel.Chart, flags)
	flags.DependencyUpdate = !l.options.SkipDeps && !rel.SkipDeps && IsDir(ref)
	return ref, flags
}

// resolve replaces the name of a repository in the helmfile with its URL, and sets the flags for it.
func (l *StackLoader) resolve(chart string, flags *ChartFlags) string {
	name, path, found := strings.Cut(chart, "/")
	if !found {
		return chart
	}
	for _, r := range l.file.Repositories {
		if r.Name != name {
			continue
		}
		flags.Username, flags.Password, flags.CertFile, flags.KeyFile, flags.CaFile = r.Username, r.Password, r.CertFile, r.KeyFile, r.CAFile
		flags.PassCredentialsAll, flags.InsecureSkipTLSVerify, flags.PlainHTTP = r.PassCredentials, r.SkipTLSVerify, r.PlainHTTP
		url := strings.TrimSuffix(r.URL, "/") + "/" + path
		switch {
		case registry.IsOCI(r.URL):
			return url
		case r.OCI:
			return "oci://" + url
		}
		flags.RepoURL = r.URL
		return path
	}
	return chart
}
