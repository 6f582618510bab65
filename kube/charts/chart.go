package charts

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/registry"
)

// Ref says where a chart comes from, in the ways Helm knows: a directory, a
// packaged chart, repo/name, an absolute URL, an oci:// reference, or a name
// with RepoURL set.
type Ref struct {
	Chart string
	action.ChartPathOptions
}

// Chart is a loaded chart with all that lies below it. It does not change.
type Chart struct {
	// path is where it was found, for messages.
	path string
	src  *source
}

// Load finds the chart that ref names, downloading it where it is not local,
// and loads it. The registry client is needed for oci:// only.
func Load(ref Ref, settings *cli.EnvSettings, registry *registry.Client) (*Chart, error) {
	path, err := locate(ref, settings, registry)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", ref.Chart, err)
	}
	return LoadPath(path)
}

// locate returns the local path of a chart. The registry client can only be
// given to Helm's options through an action that embeds them.
func locate(ref Ref, settings *cli.EnvSettings, registry *registry.Client) (string, error) {
	install := action.NewInstall(&action.Configuration{})
	install.ChartPathOptions = ref.ChartPathOptions
	install.SetRegistryClient(registry)
	return install.LocateChart(ref.Chart, settings)
}

// LoadPath loads the chart at path, a directory or an archive.
func LoadPath(path string) (*Chart, error) {
	files, err := readPath(path)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	return fromFiles(path, files)
}

// LoadArchive loads a packaged chart from r; name is for messages.
func LoadArchive(name string, r io.Reader) (*Chart, error) {
	packed, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", name, err)
	}
	files, err := readArchive(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", name, err)
	}
	return fromFiles(name, files)
}

func fromFiles(path string, files []*archive.BufferedFile) (*Chart, error) {
	src, err := newSource(files)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	return &Chart{path: path, src: src}, nil
}

// Name is the chart's name, the first element of every chart path in it.
func (c *Chart) Name() string { return c.src.meta.Name }

// Path is where the chart was found: a directory, or an archive, which may be one
// that was downloaded.
func (c *Chart) Path() string { return c.path }

// Metadata is what Chart.yaml says. It must not be changed.
func (c *Chart) Metadata() *chart.Metadata { return c.src.meta }

// Helm returns the chart for Helm's actions, normalised (R1, R34a). It is a
// new one each time, since actions change the chart that they are given:
// subcharts are renamed to their aliases, and disabled ones are dropped.
func (c *Chart) Helm() (*chart.Chart, error) {
	h, err := c.src.helm()
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.path, err)
	}
	return h, nil
}

// Check tells why the chart cannot be installed, if so: it is a library, or
// lacks a chart in charts/ that Chart.yaml depends on.
func (c *Chart) Check() error {
	if t := c.src.meta.Type; t == "library" {
		return fmt.Errorf("chart %s: library charts cannot be installed", c.path)
	}
	if missing := c.Missing(); len(missing) > 0 {
		return fmt.Errorf("chart %s: found in Chart.yaml, but missing in charts/ directory: %s; fetch them with --dependency-update or 'helm dependency update'", c.path, join(missing))
	}
	return nil
}

// Missing returns the names of dependencies that are not in charts/, those
// that are disabled too, as Helm counts.
func (c *Chart) Missing() []string {
	var missing []string
	for _, d := range c.src.meta.Dependencies {
		if c.src.named(d.Name) == nil && !slices.Contains(missing, d.Name) {
			missing = append(missing, d.Name)
		}
	}
	return missing
}

// Values merges the values that a user gave with -f and --set, as Helm does.
func Values(o values.Options, settings *cli.EnvSettings) (map[string]any, error) {
	v, err := o.MergeValues(getter.All(settings))
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return v, nil
}
