package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/provenance"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/repo/v1"
	"sigs.k8s.io/yaml"
)

// FetchDependencies downloads the dependencies in Chart.yaml of the chart in dir into its
// charts/ and writes Chart.lock, like "helm dependency update". Helm's own command cannot
// read YAML lists (R1) and loses depends-on when it packs a chart from file:// (R4). If a
// download fails, charts/ and Chart.lock do not change. The options control the verification of
// signatures and certificates. Credentials come from the configured repositories.
func FetchDependencies(dir string, o action.ChartPathOptions, settings *cli.EnvSettings, client *registry.Client) error {
	c, err := LoadPath(dir)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, ".charts-") // in dir, so that files can be renamed into charts/
	if err != nil {
		return fmt.Errorf("chart %s: fetch dependencies: %w", dir, err)
	}
	defer os.RemoveAll(temp)
	f := fetcher{dir: dir, temp: temp, options: o, settings: settings, client: client}
	lock := &chart.Lock{Generated: time.Now()}
	for _, d := range c.Metadata().Dependencies {
		version, err := f.fetch(d, c.root)
		if err != nil {
			return fmt.Errorf("chart %s: dependency %s: %w", dir, d.Name, err)
		}
		lock.Dependencies = append(lock.Dependencies, &chart.Dependency{Name: d.Name, Repository: d.Repository, Version: version})
	}
	if err := f.moveToCharts(); err != nil {
		return fmt.Errorf("chart %s: fetch dependencies: %w", dir, err)
	}
	return writeLock(dir, c.Metadata(), lock)
}

// fetcher fetches the dependencies of the chart in dir into temp.
type fetcher struct {
	dir, temp string
	options   action.ChartPathOptions
	settings  *cli.EnvSettings
	client    *registry.Client
	fetched   []string // names of charts
}

// fetch fetches one dependency and returns its version.
func (f *fetcher) fetch(d *chart.Dependency, cf *chartFiles) (string, error) {
	path, local := strings.CutPrefix(d.Repository, "file://")
	switch {
	case d.Repository == "": // it must be in charts/ already
		sub := cf.find(d)
		if sub == nil {
			file := chartFile
			if cf.originals[requirementsFile] != nil {
				file = requirementsFile
			}
			return "", fmt.Errorf("no repository in %s, and charts/ has no version that matches %q; add a repository, or put the chart into charts/", file, d.Version)
		}
		return sub.meta.Version, nil
	case local:
		if !filepath.IsAbs(path) {
			path = filepath.Join(f.dir, path)
		}
		return f.pack(d, path)
	}
	ref, err := f.ref(d)
	if err != nil {
		return "", err
	}
	if path, err = locate(ref, f.settings, f.client); err != nil {
		return "", err
	}
	return f.pack(d, path)
}

// ref returns the reference to a dependency. If its repository, a URL, "@name" or "alias:name",
// is configured, ref adds the credentials.
func (f *fetcher) ref(d *chart.Dependency) (Ref, error) {
	o := f.options
	o.Version = d.Version
	url := strings.TrimSuffix(d.Repository, "/")
	if registry.IsOCI(d.Repository) {
		return Ref{url + "/" + d.Name, o}, nil
	}
	name := strings.TrimPrefix(strings.TrimPrefix(d.Repository, "@"), "alias:")
	named := name != d.Repository
	o.RepoURL = d.Repository
	configured, err := repo.LoadFile(f.settings.RepositoryConfig)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Ref{}, err
	}
	for _, e := range configured.Repositories {
		if named && e.Name == name || !named && strings.TrimSuffix(e.URL, "/") == url {
			o.RepoURL, o.Username, o.Password, o.PassCredentialsAll = e.URL, e.Username, e.Password, e.PassCredentialsAll
			o.CaFile, o.CertFile, o.KeyFile, o.InsecureSkipTLSVerify = e.CAFile, e.CertFile, e.KeyFile, e.InsecureSkipTLSVerify
			return Ref{d.Name, o}, nil
		}
	}
	if named {
		return Ref{}, fmt.Errorf("no repository named %s; add it with: helm repo add %[1]s URL", name)
	}
	return Ref{d.Name, o}, nil
}

// pack writes the archive of the chart at path, a directory or an archive, into temp. It
// returns the version of the chart.
func (f *fetcher) pack(d *chart.Dependency, path string) (string, error) {
	c, err := LoadPath(path)
	if err != nil {
		return "", err
	}
	version := c.Metadata().Version
	if c.Name() != d.Name {
		return "", fmt.Errorf("the chart at %s is named %s; change the dependency's name or repository", path, c.Name())
	}
	if !chartutil.IsCompatibleRange(d.Version, version) {
		return "", fmt.Errorf("%s has version %s, but %q is required; change the dependency's version", d.Repository, version, d.Version)
	}
	const keepTimes = true // as Helm does
	data, err := pack(path, d.Name, keepTimes)
	if err != nil {
		return "", err
	}
	f.fetched = append(f.fetched, d.Name)
	return version, os.WriteFile(filepath.Join(f.temp, d.Name+"-"+version+".tgz"), data, 0o644)
}

// moveToCharts deletes old archives of the fetched charts from charts/, and then moves the new ones
// there.
func (f *fetcher) moveToCharts() error {
	charts := filepath.Join(f.dir, "charts")
	if err := os.MkdirAll(charts, 0o755); err != nil {
		return err
	}
	old, err := os.ReadDir(charts)
	if err != nil {
		return err
	}
	for _, e := range old {
		path := filepath.Join(charts, e.Name())
		if e.IsDir() || filepath.Ext(path) != ".tgz" {
			continue
		}
		c, err := LoadPath(path)
		if err == nil && slices.Contains(f.fetched, c.Name()) {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	fetched, err := os.ReadDir(f.temp)
	if err != nil {
		return err
	}
	for _, e := range fetched {
		if err := os.Rename(filepath.Join(f.temp, e.Name()), filepath.Join(charts, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// writeLock writes Chart.lock, or requirements.lock for a chart with apiVersion v1, with the digest
// by which Helm checks that it matches Chart.yaml. It keeps an existing file with that digest.
func writeLock(dir string, meta *chart.Metadata, lock *chart.Lock) error {
	data, err := json.Marshal([2][]*chart.Dependency{meta.Dependencies, lock.Dependencies})
	if err != nil {
		return err
	}
	digest, err := provenance.Digest(bytes.NewReader(data))
	if err != nil {
		return err
	}
	lock.Digest = "sha256:" + digest
	name := filepath.Join(dir, "Chart.lock")
	if meta.APIVersion == chart.APIVersionV1 {
		name = filepath.Join(dir, "requirements.lock")
	}
	var old chart.Lock
	if text, err := os.ReadFile(name); err == nil && yaml.Unmarshal(text, &old) == nil && old.Digest == lock.Digest {
		return nil
	}
	text, err := yaml.Marshal(lock)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
