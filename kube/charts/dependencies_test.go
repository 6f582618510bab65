package charts

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/downloader"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/repo/v1"

	"lockstep/engine/plan"
)

// repository serves the chart of packedByHelm, and returns the repository's URL.
func repository(t *testing.T) string {
	t.Helper()
	path := packedByHelm(t)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	index, err := repo.IndexDirectory(filepath.Dir(path), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	indexFile := filepath.Join(t.TempDir(), "index.yaml")
	if err := index.WriteFile(indexFile, 0o600); err != nil {
		t.Fatal(err)
	}
	mux.Handle("/index.yaml", serveFile(indexFile))
	mux.Handle("/"+filepath.Base(path), serveFile(path))
	return server.URL
}

// listed returns the files below a directory.
func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestFetchDependencies fetches from a repository and from a directory. Helm's loader refuses
// the chart in the directory (R1), and Helm's packer drops its depends-on (R4).
func TestFetchDependencies(t *testing.T) {
	top := t.TempDir()
	writeTo(t, filepath.Join(top, "local"), tree{
		"Chart.yaml":          chartYAML("local", "annotations: {helm.sh/depends-on/subcharts: [a]}\ndependencies:\n- {name: a, version: 1.0.0}\n- {name: b, version: 1.0.0, depends-on: [a]}\n"),
		"charts/a/Chart.yaml": chartYAML("a"), "charts/b/Chart.yaml": chartYAML("b"), "templates/x.yaml": configMap("x"),
		".helmignore": "notes.txt\n", "notes.txt": "not for the archive",
	})
	dir := filepath.Join(top, "whole[1]") // not a pattern
	writeTo(t, dir, tree{
		"Chart.yaml": chartYAML("whole", "annotations: {helm.sh/depends-on/subcharts: [local]}\ndependencies:\n- {name: local, version: '>=1.0.0', repository: 'file://../local'}\n"+
			"- {name: stored-keys, version: ^0.1.0, repository: '"+repository(t)+"', depends-on: [local]}\n- {name: here, version: 1.0.0}\n"),
		"charts/here/Chart.yaml": chartYAML("here"),
	})
	old, err := os.ReadFile(packedByHelm(t))
	if err != nil {
		t.Fatal(err)
	}
	writeTo(t, dir, tree{"charts/stored-keys-0.0.9.tgz": string(old)})
	if err := FetchDependencies(dir, action.ChartPathOptions{}, remoteSettings(t), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"Chart.lock", "Chart.yaml", "charts/here/Chart.yaml", "charts/local-1.0.0.tgz", "charts/stored-keys-0.1.0.tgz"}
	if got := listed(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	c, err := LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	r, _, err := c.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Subcharts, func(s plan.Subchart) bool { return s.Name == "local" })
	if i < 0 || r.Subcharts[i].Chart == nil || !slices.ContainsFunc(r.Subcharts[i].Chart.Subcharts, func(s plan.Subchart) bool { return s.Name == "b" && slices.Equal(s.DependsOn, []string{"a"}) }) {
		t.Errorf("the order of the local chart is lost: %+v", r.Subcharts)
	}
	if local, err := LoadPath(filepath.Join(dir, "charts/local-1.0.0.tgz")); err != nil || slices.ContainsFunc(local.root.files, func(f *archive.BufferedFile) bool { return f.Name == "notes.txt" }) {
		t.Errorf("the archive has a file listed in .helmignore: %v", err)
	}
}

// TestFetchMatchesHelm fetches the dependencies of a chart that Helm can read, and compares
// all files, including the lock, with Helm's.
func TestFetchMatchesHelm(t *testing.T) {
	settings := remoteSettings(t)
	url := repository(t)
	dirs := []string{filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "plain")}
	for _, dir := range dirs {
		writeTo(t, dir, tree{"Chart.yaml": chartYAML("plain", "dependencies:\n- {name: stored-keys, version: 0.1.0, repository: '"+url+"', alias: keys, condition: keys.enabled}\n")})
	}
	m := downloader.Manager{Out: io.Discard, ChartPath: dirs[0], Getters: getter.All(settings), RepositoryConfig: settings.RepositoryConfig,
		RepositoryCache: settings.RepositoryCache, ContentCache: settings.ContentCache}
	if err := m.Update(); err != nil {
		t.Fatal(err)
	}
	if err := FetchDependencies(dirs[1], action.ChartPathOptions{}, settings, nil); err != nil {
		t.Fatal(err)
	}
	if a, b := listed(t, dirs[0]), listed(t, dirs[1]); !slices.Equal(a, b) {
		t.Fatalf("Helm: %v, lockstep: %v", a, b)
	}
	generated := regexp.MustCompile(`generated: .*`)
	for _, name := range listed(t, dirs[0]) {
		var texts []string
		for _, dir := range dirs {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, generated.ReplaceAllString(string(data), ""))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: Helm:\n%.400q\nlockstep:\n%.400q", name, texts[0], texts[1])
		}
	}
}

// TestFetchWritesAllOrNothing: an error names the dependency and the chart, and no file
// changes.
func TestFetchWritesAllOrNothing(t *testing.T) {
	url := repository(t)
	tests := map[string]struct{ dependency, want string }{
		"version":    {"{name: stored-keys, alias: second, version: ^2.0.0, repository: '" + url + "'}", "^2.0.0"},
		"name":       {"{name: nosuch, version: 0.1.0, repository: '" + url + "'}", "nosuch"},
		"alias":      {"{name: nosuch, version: 0.1.0, repository: '@somewhere'}", "helm repo add"},
		"not there":  {"{name: here, version: 1.0.0}", `dependency here: no repository in Chart.yaml, and charts/ has no version that matches "1.0.0"; add a repository`},
		"directory":  {"{name: local, version: 0.1.0, repository: 'file://../nosuch'}", "no such file"},
		"other name": {"{name: local, version: 1.0.0, repository: 'file://../other'}", "is named other"},
		"its range":  {"{name: other, version: ^3.0.0, repository: 'file://../other'}", `but "^3.0.0" is required`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "whole")
			writeTo(t, filepath.Join(top, "other"), tree{"Chart.yaml": chartYAML("other")})
			writeTo(t, dir, tree{"Chart.yaml": chartYAML("whole", "dependencies:\n- {name: stored-keys, version: 0.1.0, repository: '"+url+"'}\n- "+tt.dependency+"\n")})
			err := FetchDependencies(dir, action.ChartPathOptions{}, remoteSettings(t), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if got := listed(t, dir); !slices.Equal(got, []string{"Chart.yaml"}) {
				t.Errorf("files after the error: %v", got)
			}
		})
	}
}

// TestFetchNamesRequirements: the error names requirements.yaml if the dependencies are in it.
func TestFetchNamesRequirements(t *testing.T) {
	dir := t.TempDir()
	writeTo(t, dir, tree{"Chart.yaml": "name: shop\nversion: 1.0.0\n", "requirements.yaml": "dependencies:\n- {name: db, version: 1.x.x}\n"})
	const want = `dependency db: no repository in requirements.yaml, and charts/ has no version that matches "1.x.x"; add a repository, or put the chart into charts/`
	if err := FetchDependencies(dir, action.ChartPathOptions{}, remoteSettings(t), nil); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
