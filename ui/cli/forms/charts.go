package forms

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/helmpath"
	repo "helm.sh/helm/v4/pkg/repo/v1"
	"sigs.k8s.io/yaml"

	"lockstep/engine/text"
	"lockstep/ui/cli/input"
	"lockstep/ui/home/form"
	"lockstep/ui/report"
)

// charts suggests where a run of this user found the release's chart last, the charts in folders here, those of Helm's
// repositories, and the registries that Helm is logged in to. Those with the name of the release's chart come first.
func (s source) charts(ctx context.Context, in form.Input) ([]form.Suggestion, error) {
	found := slices.Concat(localCharts(ctx, typedFolder(in.Chart)), s.repositoryCharts(), s.registries())
	if name, version := s.installed(ctx, in); name != "" {
		slices.SortStableFunc(found, func(a, b chart) int { return cmp.Compare(rank(a.name == name), rank(b.name == name)) })
		for n := range found {
			found[n].compare(name, version)
		}
	}
	if in.Operation == form.Install && in.Name != "" { // a release is often called as its chart
		slices.SortStableFunc(found, func(a, b chart) int { return cmp.Compare(rank(a.name == in.Name), rank(b.name == in.Name)) })
	}
	var list []form.Suggestion
	last := s.lastSource(in)
	if last != "" {
		list = append(list, form.Suggestion{Value: last, About: "used last", Best: true})
	}
	for _, c := range found {
		if c.Value != last {
			list = append(list, c.Suggestion)
		}
	}
	return list, nil
}

// lastSource returns where the last recorded run that deployed the release found its chart, "" if that is unknown.
func (s source) lastSource(in form.Input) string {
	dir, err := report.RunDir()
	if err != nil || in.Operation != form.Upgrade || in.Name == "" {
		return ""
	}
	client, err := s.Connect()
	if err != nil {
		return "" // the plan will say it
	}
	runs := report.RecordedRuns(dir)
	at := slices.IndexFunc(runs, func(r report.Run) bool {
		return r.Release == in.Name && r.Namespace == in.Namespace && r.Context == client.ContextName() && r.Source != ""
	})
	if at < 0 {
		return ""
	}
	return runs[at].Source
}

// chart is a suggested chart; its name is "" if only the chart itself tells it.
type chart struct {
	form.Suggestion
	name string
}

// compare says in About how the chart differs from that of the release to upgrade. A registry has no name of a chart.
func (c *chart) compare(name, version string) {
	switch c.name {
	case name:
		c.About += " (the release has " + version + ")"
	case "":
	default:
		c.About = "another chart: " + c.About
	}
}

// installed returns the chart of the release to upgrade, "" if it is not known yet.
func (s source) installed(ctx context.Context, in form.Input) (name, version string) {
	if in.Operation != form.Upgrade || in.Name == "" {
		return "", ""
	}
	releases, err := s.Releases(ctx, in.Namespace)
	if err != nil {
		return "", "" // the plan will say it
	}
	at := slices.IndexFunc(releases, func(r release) bool { return r.Name == in.Name })
	if at < 0 {
		return "", ""
	}
	return chartOf(releases[at])
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// Limits of a search for files.
const (
	maxDepth   = 3
	maxEntries = 5000
)

// skipped are folders without charts and values to deploy; partsOfChart are skipped in a chart.
var (
	skipped      = []string{"node_modules", "vendor", "target", "dist"}
	partsOfChart = []string{"templates", "charts", "crds"}
)

// holdsNothing reports whether a folder has no charts and values to deploy.
func holdsNothing(path string) bool {
	dir, name := filepath.Split(path)
	if !slices.Contains(partsOfChart, name) {
		return strings.HasPrefix(name, ".") || slices.Contains(skipped, name)
	}
	_, err := os.Stat(filepath.Join(dir, "Chart.yaml"))
	return err == nil
}

// typedFolder returns the folder in which to search for the completions of a path: the typed one, or this one.
func typedFolder(typed string) string {
	dir, _ := filepath.Split(typed)
	return cmp.Or(dir, ".")
}

// walk calls visit with the files below a folder, in a depth and number that a person can wait for.
func walk(ctx context.Context, root string, visit func(path string, d fs.DirEntry)) {
	n := 0
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what cannot be read is not suggested
		n++
		if ctx.Err() != nil || n > maxEntries {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		if d.IsDir() && path != root {
			rel, _ := filepath.Rel(root, path) // both are below root
			if holdsNothing(path) || strings.Count(rel, string(filepath.Separator)) >= maxDepth {
				return fs.SkipDir
			}
		}
		if !d.IsDir() {
			visit(path, d)
		}
		return nil
	})
}

// spelled returns a path as a chart: with ./ in front, so that it is not taken for a repository.
func spelled(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, "..") || path == "." {
		return path
	}
	return "." + string(filepath.Separator) + path
}

// localCharts returns the folders and packages of charts below a folder.
func localCharts(ctx context.Context, root string) (list []chart) {
	walk(ctx, root, func(path string, d fs.DirEntry) {
		switch {
		case d.Name() == "Chart.yaml":
			if m := chartMetadata(path); m.Type != "library" {
				list = append(list, chart{form.Suggestion{Value: spelled(filepath.Dir(path)), About: m.title()}, m.Name})
			}
		case strings.HasSuffix(path, ".tgz"):
			list = append(list, chart{form.Suggestion{Value: spelled(path), About: "package"}, ""})
		}
	})
	return list
}

type metadata struct{ Name, Version, Type, Description string }

// title returns the name, version and description of a chart.
func (m metadata) title() string {
	return text.Join(", ", text.Join(" ", m.Name, m.Version), m.Description)
}

func chartMetadata(path string) (m metadata) {
	if data, err := os.ReadFile(path); err == nil {
		_ = yaml.Unmarshal(data, &m) // an invalid file has no title
	}
	return m
}

// repositoryCharts returns the charts of the repositories in Helm's configuration, from the lists that "helm repo update"
// stores.
func (s source) repositoryCharts() (list []chart) {
	file, err := repo.LoadFile(s.Settings.RepositoryConfig)
	if err != nil {
		return nil // there are no repositories
	}
	for _, r := range file.Repositories {
		for _, name := range s.chartNames(r.Name) {
			list = append(list, chart{form.Suggestion{Value: r.Name + "/" + name, About: "repository " + r.Name}, name})
		}
	}
	return list
}

// chartNames returns the names of the charts of a repository.
func (s source) chartNames(name string) (charts []string) {
	f, err := os.Open(filepath.Join(s.Settings.RepositoryCache, helmpath.CacheChartsFile(name)))
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			charts = append(charts, lines.Text())
		}
		return charts
	}
	index, err := s.index(name)
	if err != nil {
		return nil // it has never been updated
	}
	return slices.Sorted(maps.Keys(index.Entries))
}

func (s source) index(name string) (*repo.IndexFile, error) {
	return repo.LoadIndexFile(filepath.Join(s.Settings.RepositoryCache, helmpath.CacheIndexFile(name)))
}

// registries returns the registries in Helm's configuration, as the start of a reference.
func (s source) registries() (list []chart) {
	data, err := os.ReadFile(s.Settings.RegistryConfig)
	if err != nil {
		return nil // there are no logins
	}
	var config struct{ Auths map[string]json.RawMessage }
	if json.Unmarshal(data, &config) != nil {
		return nil // Helm reports it when it needs the file
	}
	for _, host := range slices.Sorted(maps.Keys(config.Auths)) {
		list = append(list, chart{form.Suggestion{Value: "oci://" + strings.TrimSuffix(host, "/") + "/", About: "registry"}, ""})
	}
	return list
}

// chartFlags returns the flags of a command about its chart, such as --plain-http.
func chartFlags(in form.Input) *input.ChartFlags {
	flags := &input.ChartFlags{Quiet: true}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	flags.Add(f)
	_ = f.Parse(in.Flags) // the command reports what is invalid
	flags.Version = in.Version
	return flags
}

// versions suggests the versions of a chart, the newest first.
func (s source) versions(in form.Input) (list []form.Suggestion, err error) {
	ref := in.Chart
	if ref == "" {
		return nil, nil
	}
	if file := filepath.Join(ref, "Chart.yaml"); input.Exists(file) {
		return []form.Suggestion{{Value: chartMetadata(file).Version, About: "the version of the folder"}}, nil
	}
	if strings.HasPrefix(ref, "oci://") {
		client, err := chartFlags(in).Registry(s.Settings)
		if err != nil {
			return nil, err
		}
		tags, err := client.Tags(strings.TrimPrefix(ref, "oci://"))
		for _, tag := range tags {
			list = append(list, form.Suggestion{Value: tag})
		}
		return list, err
	}
	name, chart, ok := strings.Cut(ref, "/") // of a repository
	if !ok || strings.HasPrefix(ref, ".") {
		return nil, nil
	}
	index, err := s.index(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // not a repository
	}
	if err != nil {
		return nil, err
	}
	index.SortEntries()
	for _, v := range index.Entries[chart] {
		about := v.Created.Local().Format("2 Jan 2006")
		if v.AppVersion != "" {
			about += ", app " + v.AppVersion
		}
		list = append(list, form.Suggestion{Value: v.Version, About: about})
	}
	return list, nil
}
