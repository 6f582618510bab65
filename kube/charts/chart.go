// Package charts is everything between a chart's name and what plan.Build
// needs: it finds and loads charts, reads the ordering that Helm's own loader
// drops, renders templates, and cuts a rendered manifest into objects that know
// the chart they came from. It never writes to a cluster.
//
// Two things that Helm refuses are put into a form that it takes, before it
// sees them (R1): lists in the annotations of Chart.yaml, when the chart is
// loaded, and lists in the annotations of rendered objects, by wrapping the
// templates for the time of a render (see WrapTemplates).
//
// The usual ways through the package:
//
//	Load ─▶ Chart ─▶ Render ─▶ Rendered (tree, resources, warnings)   offline: dag, template, lint
//	          │
//	          ├─▶ Tree                       the chart tree of R4, R11, R12
//	          └─▶ Helm + WrapTemplates ─▶ an action of Helm's ─▶ Parse ─▶ Resources
package charts

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/registry"
	"sigs.k8s.io/yaml"
)

// Ref says where a chart comes from, in the ways Helm knows: a directory, a
// packaged chart, repo/name, an absolute URL, an oci:// reference, or a name
// with RepoURL set.
type Ref struct {
	Chart string
	action.ChartPathOptions
}

// Chart is a loaded chart with all that is below it. It does not change.
type Chart struct {
	// path is where it was found, for messages.
	path string
	src  *source
}

// Load finds the chart that ref names, downloading it if it is not local,
// and loads it. The registry client is needed for oci:// only.
func Load(ref Ref, settings *cli.EnvSettings, registry *registry.Client) (*Chart, error) {
	path, err := locate(ref, settings, registry)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", ref.Chart, noSuchChart(ref.Chart, err))
	}
	return LoadPath(path)
}

// noSuchChart explains an error about the repository when the chart may well have been
// meant as a path.
func noSuchChart(chart string, err error) error {
	repo, _, _ := strings.Cut(chart, "/")
	switch err.Error() {
	case "repo " + repo + " not found":
		return fmt.Errorf("no such directory or archive, and no repository named %s; add one with: helm repo add %[1]s URL", repo)
	case "non-absolute URLs should be in form of repo_name/path_to_chart, got: " + chart:
		return errors.New("no such directory or archive; charts in a repository are REPO/NAME, a URL, oci://…, or NAME with --repo")
	}
	return err
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

func fromFiles(path string, files []*archive.BufferedFile) (*Chart, error) {
	src, err := newSource(files)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	return &Chart{path: path, src: src}, nil
}

// Name returns the chart's name, the first element of every chart path in it.
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
		return fmt.Errorf("chart %s: dependencies listed in Chart.yaml are missing from charts/: %s; download them with --dependency-update or 'helm dependency update'", c.path, join(missing))
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
		return nil, fmt.Errorf("values: %s", notNumber.ReplaceAllString(err.Error(), "$1 is not a number"))
	}
	return v, nil
}

// notNumber is how Go says that.
var notNumber = regexp.MustCompile(`strconv\.\w+: parsing ("[^"]*"): invalid syntax`)

// CopyValues returns a deep copy of values, each value of the type that it has:
// an integer stays one, a string keeps its bytes, null stays null. Helm's actions
// change the values that they are given. A nil map becomes an empty one.
func CopyValues(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for k, v := range values {
		out[k] = copyValue(v)
	}
	return out
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		return CopyValues(v)
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = copyValue(v[i])
		}
		return out
	}
	return v
}

// YAML is what values or an object are in a file.
func YAML(fields map[string]any) (string, error) {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(text), nil
}

// Give adds to given values what has been changed in all values, from what they were
// to what they are: what is another one is given, what was taken away is given as
// null, which takes a chart's own value away.
func Give(given, was, is map[string]any) {
	for k, v := range is {
		old, there := was[k]
		if there && reflect.DeepEqual(old, v) {
			continue
		}
		wasMap, isMap := old.(map[string]any)
		now, nowMap := v.(map[string]any)
		if !isMap || !nowMap {
			given[k] = copyValue(v)
			continue
		}
		inner, ok := given[k].(map[string]any)
		if !ok {
			inner = map[string]any{}
			given[k] = inner
		}
		Give(inner, wasMap, now)
	}
	for k, v := range was {
		if _, there := is[k]; !there && v != nil {
			given[k] = nil
		}
	}
}

// FromHelm returns the chart that a chart of Helm's was made of, whether Helm's
// loader or this package has loaded it, also after an action has renamed its
// subcharts. Of subcharts that an action has dropped it may know nothing. A
// chart that was never in files gives an error.
func FromHelm(h *chart.Chart) (*Chart, error) { return fromFiles(h.Name(), rawFiles(h)) }

// rawFiles returns the files of a chart and of those below it. Helm's loader keeps
// them all with the chart at the top, this package each with its own.
func rawFiles(h *chart.Chart) []*archive.BufferedFile {
	var files []*archive.BufferedFile
	whole := false
	for _, f := range h.Raw {
		files = append(files, &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: f.Data})
		whole = whole || strings.HasPrefix(f.Name, "charts/")
	}
	if whole {
		return files
	}
	for _, d := range h.Dependencies() {
		for _, f := range rawFiles(d) {
			f.Name = "charts/" + d.Name() + "/" + f.Name
			files = append(files, f)
		}
	}
	return files
}
