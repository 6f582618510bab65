// Package charts turns the name of a chart into the input of plan.Build: it finds and loads
// charts, reads the ordering that Helm's loader drops, renders templates, and splits the
// manifest into objects, each with the path of its chart. It never writes to a cluster.
//
// Helm refuses lists in annotations. The package converts them to strings (R1): in Chart.yaml
// when the chart is loaded, and in the output of templates (see Rendering).
//
// The usual call sequences:
//
//	Load ─▶ Chart ─▶ Render ─▶ Rendered (tree, resources, warnings)   offline: dag, template, lint
//	          │
//	          ├─▶ Tree                       the chart tree of R4, R11, R12
//	          └─▶ Helm + Rendering ─▶ a Helm action ─▶ ParseManifest ─▶ Resources
package charts

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/engine/plan"
)

// Ref is a reference to a chart, as in Helm: a directory, a packaged chart, repo/name, an
// absolute URL, an oci:// reference, or a name with RepoURL set.
type Ref struct {
	Chart string
	action.ChartPathOptions
}

// Chart is a loaded chart with its subcharts. It is immutable; only Archive reads the disk again.
type Chart struct {
	path string // for messages
	root *chartFiles
}

// Load finds and loads a chart, and downloads it if it is not local. Only oci:// references
// need the registry client.
func Load(ref Ref, settings *cli.EnvSettings, registry *registry.Client) (*Chart, error) {
	path, err := locate(ref, settings, registry)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", ref.Chart, noSuchChart(ref.Chart, err))
	}
	return LoadPath(path)
}

// noSuchChart rewords Helm's errors about a chart that it cannot find: they blame a repository
// even if the user meant a path.
func noSuchChart(name string, err error) error {
	repo, _, _ := strings.Cut(name, "/")
	if similar := similarPath(name); similar != "" {
		return fmt.Errorf("no such directory or archive; did you mean %s?", similar)
	}
	switch err.Error() {
	case fmt.Sprintf("path %q not found", name):
		return errors.New("no such directory or archive; check the path")
	case "repo " + repo + " not found":
		return fmt.Errorf("no such directory or archive, and no repository named %s; add it with: helm repo add %[1]s URL", repo)
	case "non-absolute URLs should be in form of repo_name/path_to_chart, got: " + name:
		return errors.New("no such directory or archive; for a chart in a repository, pass REPO/NAME, a URL, oci://…, or NAME with --repo")
	case "invalid reference: missing registry or repository":
		return errors.New("write oci://REGISTRY/REPOSITORY")
	}
	return err
}

// similarPath returns the path most similar to name in the same directory, "" if there is none.
func similarPath(name string) string {
	dir, base := filepath.Split(name)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".tgz") {
			names = append(names, e.Name())
		}
	}
	const maxTypos = 2
	if similar := plan.Nearest(base, names, min(maxTypos, len(base)/2)); similar != "" && similar != base {
		return dir + similar
	}
	return ""
}

// locate returns the local path of a chart. It needs an action because Helm has no other way
// to set the registry client of ChartPathOptions.
func locate(ref Ref, settings *cli.EnvSettings, registry *registry.Client) (string, error) {
	install := action.NewInstall(&action.Configuration{})
	install.ChartPathOptions = ref.ChartPathOptions
	install.SetRegistryClient(registry)
	path, err := install.LocateChart(ref.Chart, settings)
	return path, explainDownload(ref, err)
}

// invalidRepository matches the start of Helm's error about a repository whose index it cannot load.
var invalidRepository = regexp.MustCompile(`^looks like "(.*?)" is not a valid chart repository or cannot be reached: `)

// explainDownload rewords Helm's errors about downloads and signatures, and adds what to do.
func explainDownload(ref Ref, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	text := err.Error()
	var request *url.Error
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w; pass the CA that signed it with --ca-file", err)
	case errors.As(err, &request):
		server := request.URL
		if u, e := url.Parse(server); e == nil && u.Host != "" {
			server = u.Scheme + "://" + u.Host
		}
		return fmt.Errorf("cannot reach %s: %w; check the URL and the network", server, request.Err)
	case strings.Contains(text, "401 Unauthorized"):
		return fmt.Errorf("%w; pass --username and --password", err)
	case invalidRepository.MatchString(text):
		return errors.New(invalidRepository.ReplaceAllString(text, "$1 is not a chart repository: ") + "; check the URL")
	case text == "unpacked charts cannot be verified":
		return fmt.Errorf("%w; package it first (helm package --sign), or omit --verify", err)
	case strings.HasPrefix(text, "could not load provenance file"):
		return fmt.Errorf("%w; sign it with: helm package --sign, or omit --verify", err)
	case strings.HasPrefix(text, "failed to load keyring"):
		return fmt.Errorf("%w; pass the file with the public keys with --keyring, or omit --verify", err)
	case ref.Verify && text == "signature block not found":
		return fmt.Errorf("%s.prov: %w; sign the chart again with: helm package --sign", ref.Chart, err)
	}
	return err
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
	if err != nil && err.Error() == "Chart.yaml file is missing" {
		return nil, fmt.Errorf("chart %s: no Chart.yaml found; check the path", path)
	}
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

// processed is like Helm, after Helm has renamed subcharts to their aliases and dropped the disabled ones.
func (c *Chart) processed(values map[string]any) (*chart.Chart, error) {
	h, err := c.Helm()
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(h, CopyValues(values)); err != nil {
		return nil, fmt.Errorf("chart %s: dependencies: %w", c.path, err)
	}
	return h, nil
}

// Check returns an error if the chart cannot be installed: it is a library, or charts/ lacks a
// dependency that Chart.yaml lists.
func (c *Chart) Check() error {
	if c.root.meta.Type == "library" {
		return fmt.Errorf("chart %s: library charts cannot be installed; install a chart that depends on it", c.path)
	}
	if missing := c.Missing(); len(missing) > 0 {
		return &MissingError{path: c.path, names: missing}
	}
	return nil
}

// MissingError reports dependencies that are not in charts/.
type MissingError struct {
	path  string
	names []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("chart %s: dependencies are missing from charts/: %s; download them with: helm dependency update %[1]s", e.path, strings.Join(e.names, ", "))
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

// FromHelm converts a Helm chart to a Chart, using its raw files. It also works after an action
// has renamed subcharts; subcharts that an action has dropped may be missing. It returns an
// error for a chart without raw files.
func FromHelm(h *chart.Chart) (*Chart, error) { return fromFiles(h.Name(), rawFiles(h)) }

// FilesOf returns the names and contents of all files of a chart and its subcharts as one text, for a digest. A directory and
// its archive have the same text. It is empty for the chart of a stored release, which has no files.
func FilesOf(h *chart.Chart) ([]byte, error) {
	files := map[string][]byte{}
	for _, f := range rawFiles(h) {
		files[f.Name] = f.Data
	}
	return json.Marshal(files)
}

// rawFiles returns the files of a chart and its subcharts. Helm's loader stores all of them
// with the root chart; this package stores each chart's files with that chart.
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
