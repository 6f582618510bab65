// Package charts turns the name of a chart into the input of plan.Build: it finds and loads
// charts, reads the ordering that Helm's loader drops, renders templates, and splits the
// manifest into objects, each with the path of its chart. It never writes to a cluster.
//
// Helm refuses lists in annotations. The package converts them to strings (R1): in Chart.yaml
// when the chart is loaded, and in rendered objects by wrapping the templates during a
// render (see WrapTemplates).
//
// The usual call sequences:
//
//	Load ─▶ Chart ─▶ Render ─▶ Rendered (tree, resources, warnings)   offline: dag, template, lint
//	          │
//	          ├─▶ Tree                       the chart tree of R4, R11, R12
//	          └─▶ Helm + WrapTemplates ─▶ a Helm action ─▶ ParseManifest ─▶ Resources
package charts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

	"lockstep/kube/documents"
)

// Ref is a reference to a chart, as in Helm: a directory, a packaged chart, repo/name, an
// absolute URL, an oci:// reference, or a name with RepoURL set.
type Ref struct {
	Chart string
	action.ChartPathOptions
}

// Chart is a loaded chart with its subcharts. It is immutable, but Archive reads the disk again.
type Chart struct {
	path string // for messages
	root *chartFiles
}

// Load finds and loads a chart, and downloads it if it is not local. The registry client is
// needed for oci:// only.
func Load(ref Ref, settings *cli.EnvSettings, registry *registry.Client) (*Chart, error) {
	path, err := locate(ref, settings, registry)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", ref.Chart, noSuchChart(ref.Chart, err))
	}
	return LoadPath(path)
}

// noSuchChart replaces an error about a repository if the user may have meant a path.
func noSuchChart(chart string, err error) error {
	repo, _, _ := strings.Cut(chart, "/")
	switch err.Error() {
	case fmt.Sprintf("path %q not found", chart):
		return errors.New("no such directory or archive")
	case "repo " + repo + " not found":
		return fmt.Errorf("no such directory or archive, and no repository named %s; add one with: helm repo add %[1]s URL", repo)
	case "non-absolute URLs should be in form of repo_name/path_to_chart, got: " + chart:
		return errors.New("no such directory or archive; charts in a repository are REPO/NAME, a URL, oci://…, or NAME with --repo")
	}
	return err
}

// locate returns the local path of a chart. It needs an action because Helm has no other way
// to set the registry client of ChartPathOptions.
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
	root, err := newChartFiles(files)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	return &Chart{path: path, root: root}, nil
}

// Name returns the chart's name, the first element of every chart path in it.
func (c *Chart) Name() string { return c.root.meta.Name }

// Path returns the directory or archive that the chart was loaded from, for example a
// downloaded archive.
func (c *Chart) Path() string { return c.path }

// Metadata returns the contents of Chart.yaml. The caller must not change it.
func (c *Chart) Metadata() *chart.Metadata { return c.root.meta }

// Helm returns a new copy of the chart for Helm's actions, normalised (R1, R34a). Actions
// change the chart: they rename subcharts to their aliases and drop disabled ones.
func (c *Chart) Helm() (*chart.Chart, error) {
	h, err := c.root.helm()
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.path, err)
	}
	return h, nil
}

// Check returns an error if the chart cannot be installed: because it is a library, or because
// charts/ lacks a dependency of Chart.yaml.
func (c *Chart) Check() error {
	if t := c.root.meta.Type; t == "library" {
		return fmt.Errorf("chart %s: library charts cannot be installed", c.path)
	}
	if missing := c.Missing(); len(missing) > 0 {
		return &MissingError{c.path, missing}
	}
	return nil
}

// MissingError is the error about dependencies that are not in charts/.
type MissingError struct {
	path  string
	names []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("chart %s: dependencies listed in Chart.yaml are missing from charts/: %s; download them with: helm dependency update %[1]s", e.path, strings.Join(e.names, ", "))
}

// Missing returns the names of dependencies that are not in charts/. As in Helm, that
// includes disabled ones.
func (c *Chart) Missing() []string {
	var missing []string
	for _, d := range c.root.meta.Dependencies {
		if c.root.byName(d.Name) == nil && !slices.Contains(missing, d.Name) {
			missing = append(missing, d.Name)
		}
	}
	return missing
}

// Values merges the values of -f and --set, as Helm does.
func Values(o values.Options, settings *cli.EnvSettings) (map[string]any, error) {
	v, err := o.MergeValues(getter.All(settings))
	var file *fs.PathError
	switch {
	case errors.As(err, &file) && file.Error() == err.Error():
		return nil, fmt.Errorf("cannot read values file %s: %s", file.Path, fileReason(file))
	case errors.As(err, &file):
		return nil, fmt.Errorf("--set-file: cannot read %s: %s", file.Path, fileReason(file))
	case err != nil && valuesFile.MatchString(err.Error()):
		return nil, documents.ValuesError(valuesFile.FindStringSubmatch(err.Error())[1], err)
	case err != nil:
		text := setFlag.ReplaceAllString(err.Error(), "invalid $1")
		text = notJSON.ReplaceAllString(text, "$1 $2: the value is not valid JSON; use key=JSON or {\"key\": JSON}")
		text = noValue.ReplaceAllString(text, "$0; use key=value")
		return nil, errors.New(notNumber.ReplaceAllString(text, "$1 is not a number"))
	}
	return v, nil
}

func fileReason(err *fs.PathError) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	return err.Err.Error()
}

// Patterns of Helm and Go errors that Values rewords.
var (
	// valuesFile starts an error about the content of a values file, setFlag one about --set and
	// similar flags.
	valuesFile = regexp.MustCompile(`^failed to parse (\S+): cannot unmarshal yaml document: `)
	setFlag    = regexp.MustCompile(`^failed parsing (--set\S*) data`)
	// notJSON is about --set-json, and has only the argument.
	notJSON   = regexp.MustCompile(`(?s)^(invalid --set-json) (?:JSON: )?(.*)$`)
	noValue   = regexp.MustCompile(`key "[^"]*" has no value$`)
	notNumber = regexp.MustCompile(`strconv\.\w+: parsing ("[^"]*"): invalid syntax`)
)

// CopyValues returns a deep copy of values, for Helm's actions, which change their values.
// Types, bytes of strings and nulls stay the same. A nil map becomes an empty one.
func CopyValues(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return copyValue(values).(map[string]any)
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key, e := range v {
			v[key] = copyValue(e)
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i, e := range v {
			v[i] = copyValue(e)
		}
		return v
	}
	return v
}

// YAML encodes values or an object as YAML.
func YAML(fields map[string]any) (string, error) {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(text), nil
}

// ApplyChanges sets the differences between two merged sets of values in overrides. A deleted
// value becomes null, which removes the default of the chart.
func ApplyChanges(overrides, before, after map[string]any) {
	for k, v := range after {
		old, exists := before[k]
		if exists && reflect.DeepEqual(old, v) {
			continue
		}
		oldMap, wasMap := old.(map[string]any)
		newMap, isMap := v.(map[string]any)
		if !wasMap || !isMap {
			overrides[k] = copyValue(v)
			continue
		}
		inner, ok := overrides[k].(map[string]any)
		if !ok {
			inner = map[string]any{}
			overrides[k] = inner
		}
		ApplyChanges(inner, oldMap, newMap)
	}
	for k, v := range before {
		if _, exists := after[k]; !exists && v != nil {
			overrides[k] = nil
		}
	}
}

// FromHelm loads the chart of a Helm chart from its raw files. It also works after an action
// has renamed subcharts; subcharts that an action has dropped may be missing. It returns an
// error for a chart without raw files.
func FromHelm(h *chart.Chart) (*Chart, error) { return fromFiles(h.Name(), rawFiles(h)) }

// rawFiles returns the files of a chart and its subcharts. Helm's loader stores all of them
// with the root chart, this package stores them with each chart.
func rawFiles(h *chart.Chart) []*archive.BufferedFile {
	var files []*archive.BufferedFile
	complete := false
	for _, f := range h.Raw {
		files = append(files, &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: f.Data})
		complete = complete || strings.HasPrefix(f.Name, "charts/")
	}
	if complete {
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
