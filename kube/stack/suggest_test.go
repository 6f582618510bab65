package stack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/kube/charts"
	"lockstep/kube/helmfile"
)

const shop = "../../testdata/stacks/shop"

// shopReleases are the releases of the shop, without the needs that its file has.
func shopReleases(t *testing.T) (all []RenderedRelease) {
	t.Helper()
	f, err := helmfile.Read(t.Context(), helmfile.Options{Path: shop})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Releases {
		c, err := charts.LoadPath(r.Chart)
		if err != nil {
			t.Fatal(err)
		}
		values, _, err := r.Merge(t.Context(), nil, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		out, err := charts.Render(t.Context(), c, values, charts.RenderOptions{Release: r.Name, Namespace: r.Namespace})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, RenderedRelease{ID: r.ID(), Rendered: out})
	}
	return all
}

// TestSuggestNeeds suggests needs for a call of a Service in another namespace and for a kind that another release
// defines (R60), but none that the file already has or that form a cycle.
func TestSuggestNeeds(t *testing.T) {
	found := func(all []RenderedRelease) (out []string) {
		for _, n := range SuggestNeeds(all) {
			out = append(out, n.Release+" "+n.Needs)
		}
		return out
	}
	all := shopReleases(t)
	if got, want := found(all), []string{"data/database data/monitoring", "shop/identity data/database"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range all {
		switch all[i].ID {
		case "data/database":
			all[i].Needs = []string{"data/monitoring"}
		case "data/monitoring":
			all[i].Needs = []string{"shop/identity"} // against what the objects imply
		}
	}
	if got := found(all); len(got) != 0 {
		t.Errorf("suggested %v, although the file has them or they form a cycle", got)
	}
}

// TestOrder orders the releases of a helmfile without a cluster (S1).
func TestOrder(t *testing.T) {
	f, err := helmfile.Read(t.Context(), helmfile.Options{Path: shop, Environment: "small"})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := Order(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		got = append(got, g.ID+" after "+strings.Join(g.After, ","))
	}
	want := []string{"data/monitoring after ", "data/queue after ", "data/database after data/monitoring", "shop/shop after data/queue"}
	if !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	f.Releases[0].Needs = []string{"data/database"}
	if _, err := Order(f); err == nil || !strings.Contains(err.Error(), "data/database") {
		t.Errorf("releases that need each other: %v", err)
	}
}

// TestAddNeeds adds needs to a helmfile without changing its layout. It refuses a file that does not have one key per
// line.
func TestAddNeeds(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(shop, "helmfile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var without []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "needs:") && !strings.Contains(line, "values/") {
			without = append(without, line)
		}
	}
	path := filepath.Join(dir, "helmfile.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(without, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := helmfile.Read(t.Context(), helmfile.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddNeeds(map[string][]string{"shop/identity": {"data/database", "shop/shop"}}); err != nil {
		t.Fatal(err)
	}
	if f, err = helmfile.Read(t.Context(), helmfile.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Releases {
		if r.ID() == "shop/identity" && !slices.Equal(r.Needs, []string{"data/database", "shop/shop"}) {
			t.Errorf("needs %v", r.Needs)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(after), "  - name: identity\n    needs:\n      - data/database\n      - shop\n    namespace: shop\n") {
		t.Errorf("written:\n%s", after)
	}
	if err := os.WriteFile(path, []byte("releases: [{name: a, chart: ./a}, {name: b, chart: ./a}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = helmfile.Read(t.Context(), helmfile.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddNeeds(map[string][]string{"b": {"a"}}); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("a file without a line for each key: %v", err)
	}
}
