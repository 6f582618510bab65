package charts

import (
	"helm.sh/helm/v4/pkg/action"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/cli"
)

// fileNames lists the files of a directory as they are loaded.
func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	files, err := readPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

func TestReadDir(t *testing.T) {
	dir := write(t, tree{
		".helmignore": "*.bak\n/secret\nsub/\n", "Chart.yaml": "\uFEFFx", "a.bak": "", "secret": "", "templates/secret": "",
		"templates/.hidden": "", "templates/sub/x": "", "z/y": "",
	})
	other := write(t, tree{"inner/f": "", "g": ""})
	for link, target := range map[string]string{"linked": filepath.Join(other, "inner"), "file": filepath.Join(other, "g")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{".helmignore", "Chart.yaml", "file", "linked/f", "templates/secret", "z/y"}
	if got := fileNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	files, _ := readPath(dir)
	if i := slices.Index(want, "Chart.yaml"); string(files[i].Data) != "x" {
		t.Errorf("the byte order mark was not removed: %q", files[i].Data)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "z", "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := readPath(dir); err == nil || !strings.Contains(err.Error(), "z/loop: symbolic link") {
		t.Errorf("a link to a parent directory: error %v", err)
	}
}

// TestDirectoryAndArchiveLoadTheSame loads one chart as a directory and as an archive.
func TestDirectoryAndArchiveLoadTheSame(t *testing.T) {
	files := plus(tree{"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on/subcharts: [db]\n")},
		in("charts/db", tree{"Chart.yaml": chartYAML("db")}))
	archive := filepath.Join(write(t, tree{"shop.tgz": packed(t, "shop", files)}), "shop.tgz")
	for _, path := range []string{write(t, files), archive} {
		c, err := Load(Ref{Chart: path}, cli.New(), nil)
		if err != nil {
			t.Fatal(err)
		}
		node, _, err := c.Tree(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := outline(node); got != "shop db\n  shop/db db  \n" {
			t.Errorf("%s:\n%s", path, got)
		}
	}
	c, err := LoadPath(archive)
	if err != nil || c.Name() != "shop" || c.Metadata().Version != "1.0.0" {
		t.Errorf("chart %+v, %v", c, err)
	}
}

func TestLoadErrors(t *testing.T) {
	for ref, want := range map[string]string{
		"./nowhere":         "chart ./nowhere: no such directory or archive; check the path",
		"oci://host/x":      "missing registry client",
		"unknown-repo/shop": "chart unknown-repo/shop: no such directory or archive, and no repository named unknown-repo; add it with: helm repo add unknown-repo URL",
		"nowhere":           "chart nowhere: no such directory or archive; for a chart in a repository, pass REPO/NAME, a URL",
	} {
		settings := cli.New()
		settings.RepositoryConfig = filepath.Join(t.TempDir(), "none.yaml")
		settings.RepositoryCache = t.TempDir()
		if _, err := Load(Ref{Chart: ref}, settings, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", ref, err, want)
		}
	}
	dir := write(t, plus(in("charts/shop", tree{"Chart.yaml": chartYAML("shop")}), tree{
		"empty/values.yaml": "", "unversioned/Chart.yaml": "apiVersion: v2\nname: shop\n", "v7/Chart.yaml": "apiVersion: v7\nname: shop\nversion: 1.0.0\n",
		"list/Chart.yaml": chartYAML("shop"), "list/values.yaml": "- a\n", "number/Chart.yaml": chartYAML("shop"), "number/values.yaml": "1\n",
		"name/Chart.yaml": "apiVersion: v2\nname: a/b\nversion: 1.0.0\n", "version/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.2.x\n",
		"excluded/Chart.yaml": chartYAML("shop"), "excluded/.helmignore": "!x\n",
	}))
	for path, want := range map[string]string{
		"charts/shpo": "no such directory or archive; did you mean " + filepath.Join(dir, "charts/shop") + "?",
		"charts/x":    "no such directory or archive; check the path",
		"empty":       "no Chart.yaml found; check the path",
		"excluded":    ".helmignore excludes Chart.yaml; correct its patterns: one that starts with ! excludes all other files",
		"list":        "values.yaml must be a mapping (key: value), but is a list",
		"number":      "values.yaml must be a mapping (key: value), but is a number",
		"name":        `Chart.yaml: name "a/b" is invalid; remove the slashes`,
		"version":     `Chart.yaml: version "1.2.x" is invalid; use three numbers, such as 1.2.3 (https://semver.org)`,
		"unversioned": "Chart.yaml: version is required; add one, such as 0.1.0",
		"v7":          `Chart.yaml: apiVersion "v7" is not supported; use v1, v2 or v3`,
	} {
		path = filepath.Join(dir, path)
		if _, err := Load(Ref{Chart: path}, cli.New(), nil); err == nil || err.Error() != "chart "+path+": "+want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	repo := func(url string) action.ChartPathOptions { return action.ChartPathOptions{RepoURL: url} }
	notFound := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(notFound.Close)
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(login.Close)
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secured.Close)
	for want, ref := range map[string]Ref{
		"chart shop: cannot reach http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; check the URL and the network":                     {"shop", repo("http://127.0.0.1:1")},
		"chart http://127.0.0.1:1/a.tgz: cannot reach http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; check the URL and the network": {Chart: "http://127.0.0.1:1/a.tgz"},
		notFound.URL + " is not a chart repository: failed to fetch":                                                                                        {"shop", repo(notFound.URL)},
		"; pass --username and --password":                                                             {"shop", repo(login.URL)},
		"; pass the CA that signed it with --ca-file":                                                  {"shop", repo(secured.URL)},
		"unpacked charts cannot be verified; package it first (helm package --sign), or omit --verify": {t.TempDir(), action.ChartPathOptions{Verify: true}},
	} {
		settings := cli.New()
		settings.RepositoryConfig = filepath.Join(t.TempDir(), "none.yaml")
		settings.RepositoryCache = t.TempDir()
		if _, err := Load(ref, settings, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", ref.Chart, err, want)
		}
	}
	for name, tt := range map[string]struct {
		files tree
		want  string
	}{
		"version": {tree{"Chart.yaml": "apiVersion: v7\nname: x\nversion: 1.0.0\n"}, `apiVersion "v7"`},
		"below":   {plus(tree{"Chart.yaml": chartYAML("x")}, tree{"charts/y/values.yaml": ""}), "error unpacking subchart y in x: Chart.yaml file is missing"},
		"archive": {tree{"Chart.yaml": chartYAML("x"), "charts/y.tgz": "no archive"}, "error unpacking subchart y.tgz in x"},
		"stray":   {tree{"Chart.yaml": chartYAML("x"), "charts/y.tgz/x": ""}, "y.tgz in x: it is a directory; rename it"},
	} {
		if _, err := LoadPath(write(t, tt.files)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}

// TestSavedChartLoadsInHelm saves a chart that Helm cannot load in a form that it can.
func TestSavedChartLoadsInHelm(t *testing.T) {
	c := load(t, tree{
		"Chart.yaml":       strings.Replace(chartYAML("shop", "annotations:\n  helm.sh/depends-on/subcharts: [db]\ndependencies:\n", dep("db", "depends-on: []")), "v2", "v3", 1),
		"charts/db-1.tgz":  packed(t, "db", tree{"Chart.yaml": chartYAML("db"), "templates/x.yaml": configMap("x")}),
		"templates/a.yaml": configMap("a"),
	})
	dir := filepath.Join(t.TempDir(), "copy")
	if err := c.Save(dir); err != nil {
		t.Fatal(err)
	}
	if got, want := fileNames(t, dir), []string{"Chart.yaml", "charts/db-1/Chart.yaml", "charts/db-1/templates/x.yaml", "templates/a.yaml"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	data, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"apiVersion: v2", `'["db"]'`} {
		if !strings.Contains(string(data), s) {
			t.Errorf("Chart.yaml lacks %q:\n%s", s, data)
		}
	}
	if strings.Contains(string(data), "depends-on:") {
		t.Errorf("Chart.yaml has a field that Helm's lint does not know:\n%s", data)
	}
}
