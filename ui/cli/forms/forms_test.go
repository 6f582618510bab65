package forms

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/cli/command"
	"lockstep/ui/home/form"
	"lockstep/ui/report"
)

// newSource returns a source in a new folder with the given files, in which Helm's configuration is, too.
func newSource(t *testing.T, files map[string]string) source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HELM_REPOSITORY_CONFIG", filepath.Join(dir, ".helm/repositories.yaml"))
	t.Setenv("HELM_REPOSITORY_CACHE", filepath.Join(dir, ".helm"))
	t.Setenv("HELM_REGISTRY_CONFIG", filepath.Join(dir, ".helm/config.json"))
	return source{command.NewApp(command.NewSignals(t.Context()))}
}

// TestRefusalIsFirst: the reasons why lockstep would refuse a plan stand above everything else.
func TestRefusalIsFirst(t *testing.T) {
	p := &report.Plan{Warnings: []plan.Warning{{Message: "a layer is empty"}}}
	p.Errors = []plan.Warning{{Object: &plan.Object{Kind: "ConfigMap", Name: "x"}, Message: "ConfigMap/x is owned by release other"}}
	if lines := planLines(p); len(lines) < 2 || lines[0].Text != "error: ConfigMap/x is owned by release other" || !strings.HasPrefix(lines[1].Text, "warning: ") {
		t.Errorf("the lines are %v", lines)
	}
}

// TestSameRefusals: objects that are refused for the same reason have one line above the plan.
func TestSameRefusals(t *testing.T) {
	p := &report.Plan{}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.Errors = append(p.Errors, plan.Warning{Object: &plan.Object{Kind: "ConfigMap", Name: name}, Message: "ConfigMap/" + name + " is owned by release other", Shared: "are owned by release other", Foreign: true})
	}
	p.Changes = []inspect.Change{{Object: *p.Errors[0].Object, Action: inspect.Refuse, Message: "owned by release other: take it over with --take-ownership"}}
	p.Errors = append(p.Errors, plan.Warning{Message: "the chart is too new"})
	if lines := planLines(p); lines[0].Text != "error: 4 objects are owned by release other" || lines[1].Text != "error: the chart is too new" {
		t.Errorf("the lines are %v", lines)
	}
	if lines := planLines(p); slices.ContainsFunc(lines, func(l form.Line) bool { return strings.Contains(l.Text, "--take-ownership") }) || !slices.ContainsFunc(lines, func(l form.Line) bool { return l.Text == "! ConfigMap/a refused" }) {
		t.Errorf("the plan repeats the reason: %v", lines)
	}
	if got := planned(p).Foreign; len(got) != 4 {
		t.Errorf("objects of others: %q", got)
	}
}

// TestManyWarnings: the first warnings stand above the plan, with the number of the others, which follow it.
func TestManyWarnings(t *testing.T) {
	p := &report.Plan{}
	for range 5 {
		p.Warnings = append(p.Warnings, plan.Warning{Message: "a quota"})
	}
	var got []string
	for _, l := range planLines(p) {
		got = append(got, l.Text)
	}
	if want := "warning: a quota|warning: a quota|warning: a quota|2 more warnings below the plan|"; !strings.HasPrefix(strings.Join(got, "|"), want) || !strings.HasSuffix(strings.Join(got, "|"), "|more warnings|warning: a quota|warning: a quota") {
		t.Errorf("the lines are %q", got)
	}
}

// TestReplacedData: replacing an object that holds data asks for the release's name, as deleting any object does.
func TestReplacedData(t *testing.T) {
	change := func(kind string, action inspect.Action) inspect.Change {
		return inspect.Change{Object: plan.Object{Kind: kind, Name: "x"}, Action: action}
	}
	got := planned(&report.Plan{Changes: []inspect.Change{change("StatefulSet", inspect.Replace), change("Deployment", inspect.Replace), change("Job", inspect.Delete), change("StatefulSet", inspect.Modify)}}).Deletes
	if want := []string{"StatefulSet/x (and creates it again)", "Job/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestChangesFirst: a plan shows what it changes, then the names of the objects that stay as they are; a plan that changes nothing
// shows all of it.
func TestChangesFirst(t *testing.T) {
	object := func(name string) plan.Object { return plan.Object{Kind: "ConfigMap", Name: name} }
	p := &report.Plan{Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
		{ID: "a", Objects: []plan.Object{object("a")}}, {ID: "b", Objects: []plan.Object{object("b")}}, {ID: "c", Objects: []plan.Object{object("c")}, NoReturn: "drops a table"}}}}}
	for _, name := range []string{"a", "b", "c"} {
		p.Changes = append(p.Changes, inspect.Change{Phase: "apply", Group: name, Object: object(name), Action: inspect.Unchanged})
	}
	text := func() (all []string) {
		for _, l := range planLines(p) {
			all = append(all, l.Text)
		}
		return all
	}
	if got := text(); !slices.Contains(got, "= ConfigMap/a unchanged") || slices.Contains(got, "unchanged") {
		t.Errorf("without changes, the lines are %q", got)
	}
	p.Changes[1].Action = inspect.Modify
	got := strings.Join(text(), "\n")
	if !strings.HasSuffix(got, "~ ConfigMap/b change\nc\n= ConfigMap/c unchanged\n\n== no return after c: drops a table ==\n\nunchanged\nConfigMap/a") {
		t.Errorf("the lines are\n%s", got)
	}
}

var files = map[string]string{
	"shop/Chart.yaml":                "name: shop\nversion: 1.3.0\ndescription: A shop\n",
	"shop/values.yaml":               "# pods\nreplicas: 1\n",
	"shop/values-prod.yaml":          "replicas: 3\n",
	"shop/templates/deployment.yaml": "",
	"shop/charts/db/Chart.yaml":      "name: db\nversion: 0.1.0\n",
	"charts/queue/Chart.yaml":        "name: queue\nversion: 2.0.0\n",
	"charts/common/Chart.yaml":       "name: common\nversion: 2.0.0\ntype: library\n",
	"packed-1.0.0.tgz":               "",
	".hidden/Chart.yaml":             "name: hidden\nversion: 1.0.0\n",
	"env/prod.yaml":                  "replicas: 5\n",
	"helmfile.yaml":                  "",
	"a/b/c/d/deep/Chart.yaml":        "name: deep\nversion: 1.0.0\n",
	".helm/repositories.yaml":        "repositories:\n- name: example\n  url: https://charts.example.com\n- name: indexed\n  url: https://other.example.com\n- name: never-updated\n  url: https://x.example.com\n",
	".helm/example-charts.txt":       "nginx\npostgresql\n",
	".helm/example-index.yaml":       "apiVersion: v1\nentries:\n  nginx:\n  - {name: nginx, version: 1.2.0, appVersion: \"1.27\", created: \"2026-01-02T00:00:00Z\", urls: [x]}\n  - {name: nginx, version: 1.10.0, created: \"2026-03-04T00:00:00Z\", urls: [x]}\n",
	".helm/indexed-index.yaml":       "apiVersion: v1\nentries:\n  redis:\n  - {name: redis, version: 9.0.0, urls: [x]}\n",
	".helm/config.json":              `{"auths": {"registry.example.com": {}}}`,
}

// TestSuggestionsWithoutACluster: charts, versions and values files come from the folder and from Helm's configuration.
func TestSuggestionsWithoutACluster(t *testing.T) {
	s := newSource(t, files)
	for _, c := range []struct {
		name  string
		in    form.Input
		field form.Field
		want  string
	}{
		{"charts", form.Input{Operation: form.Install}, form.Chart, "./charts/queue, ./packed-1.0.0.tgz, ./shop, example/nginx, example/postgresql, indexed/redis, oci://registry.example.com/"},
		{"charts, one of which is called as the release", form.Input{Operation: form.Install, Name: "shop"}, form.Chart, "./shop, ./charts/queue, ./packed-1.0.0.tgz, example/nginx, example/postgresql, indexed/redis, oci://registry.example.com/"},
		{"charts in a typed folder", form.Input{Operation: form.Install, Chart: "a/b/c/"}, form.Chart, "./a/b/c/d/deep, example/nginx, example/postgresql, indexed/redis, oci://registry.example.com/"},
		{"charts of an upgrade, although the cluster does not answer", form.Input{Operation: form.Upgrade, Name: "x", Namespace: "x", Chart: "a/b/c/"}, form.Chart, "./a/b/c/d/deep, example/nginx, example/postgresql, indexed/redis, oci://registry.example.com/"},
		{"versions in a repository, the newest first", form.Input{Chart: "example/nginx"}, form.Version, "1.10.0, 1.2.0"},
		{"versions of another repository", form.Input{Chart: "indexed/redis"}, form.Version, "9.0.0"},
		{"the version of a folder", form.Input{Chart: "./shop"}, form.Version, "1.3.0"},
		{"no versions", form.Input{Chart: "unknown/chart"}, form.Version, ""},
		{"values", form.Input{}, form.Values, "shop/values-prod.yaml, env/prod.yaml, shop/values.yaml"},
		{"values after a first file", form.Input{Values: "x.yaml,env/"}, form.Values, "env/prod.yaml"},
		{"names of new releases", form.Input{Operation: form.Install}, form.Name, ""},
	} {
		list, err := s.Suggest(t.Context(), c.in, c.field)
		var got []string
		for _, l := range list {
			got = append(got, l.Value)
		}
		if err != nil || strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got %s, want %s (%v)", c.name, strings.Join(got, ", "), c.want, err)
		}
	}
	list, err := s.Suggest(t.Context(), form.Input{Operation: form.Install}, form.Chart)
	if i := slices.IndexFunc(list, func(c form.Suggestion) bool { return c.Value == "./shop" }); err != nil || list[i].About != "shop 1.3.0, A shop" {
		t.Errorf("got %v %v", list, err)
	}
	if _, err := s.Suggest(t.Context(), form.Input{Operation: form.Upgrade, Namespace: "x"}, form.Name); err == nil {
		t.Error("releases without a cluster are no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Suggest(ctx, form.Input{Operation: form.Install}, form.Chart); err == nil {
		t.Error("a cancelled question has an answer")
	}
}

// TestChartOfAnotherName: an upgrade to another chart replaces every object, so the suggestion says so.
func TestChartOfAnotherName(t *testing.T) {
	for name, want := range map[string]string{"shop": "x (the release has 1.2.0)", "worker": "another chart: x", "": "x"} {
		c := chart{form.Suggestion{About: "x"}, name}
		if c.compare("shop", "1.2.0"); c.About != want {
			t.Errorf("%q: %s", name, c.About)
		}
	}
}

// TestValuesToEdit: chosen files, or the chart's defaults as comments.
func TestValuesToEdit(t *testing.T) {
	s := newSource(t, files)
	for _, c := range []struct {
		name string
		in   form.Input
		want string
	}{
		{"defaults", form.Input{Operation: form.Install, Name: "web", Chart: "./shop"}, "# Values for release web.\n# The chart's defaults follow as comments.\n\n# # pods\n# replicas: 1\n"},
		{"a file", form.Input{Operation: form.Install, Chart: "./shop", Values: "env/prod.yaml"}, "replicas: 5\n"},
		{"two files", form.Input{Operation: form.Upgrade, Name: "web", Values: "env/prod.yaml,shop/values-prod.yaml"}, "replicas: 3\n"},
	} {
		if got, err := s.Values(t.Context(), c.in); err != nil || got != c.want {
			t.Errorf("%s: got %q, want %q (%v)", c.name, got, c.want, err)
		}
	}
	path, err := s.Save("web", "", "", "a: 1\n")
	if err != nil || path != "values-web.yaml" {
		t.Fatal(path, err)
	}
	if again, err := s.Save("web", path, "a: 1\n", "a: 2\n"); err != nil || again != path {
		t.Error(again, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a: 2\n" {
		t.Errorf("got %q %v", text, err)
	}
	if other, err := s.Save("web", "", "", "a: 3\n"); err != nil || other == path {
		t.Errorf("a new form writes over %s: %v", other, err)
	}
	if other, err := s.Save("web", path, "a: 1\n", "a: 4\n"); err != nil || other == path {
		t.Errorf("a file that was changed meanwhile is written over: %s %v", other, err)
	}
}

// TestInputOfACommand: arguments and flags that were given fill in the form; further flags stay, and secrets are not shown.
func TestInputOfACommand(t *testing.T) {
	s := newSource(t, files)
	for _, c := range []struct{ line, want, shown string }{
		{"install cart", "install cart -n default", ""},
		{"install ./shop", "install ./shop -n default", ""},
		{"upgrade shop --version 1.2 -f a.yaml -f b.yaml --reuse-values", "upgrade shop --version 1.2 -f a.yaml,b.yaml --reuse-values -n default", ""},
		{"upgrade shop -f a.yaml --values-from-revision 3", "upgrade shop --values-from-revision 3 -f a.yaml -n default", ""},
		{"upgrade --set a=1,b=2 --set password=hunter2 --no-hooks=false", "upgrade -n default --no-hooks=false --set a=1,b=2 --set password=hunter2", "upgrade -n default --no-hooks=false --set a=1,b=2 --set password=…"},
	} {
		var in form.Input
		words := strings.Fields(c.line)
		cmd := &cobra.Command{Use: words[0], RunE: func(cmd *cobra.Command, args []string) error {
			in = inputOf(s.App, cmd, args)
			return nil
		}}
		f := cmd.Flags()
		f.String("version", "", "")
		f.StringSliceP("values", "f", nil, "")
		f.Int("values-from-revision", 0, "")
		f.StringArray("set", nil, "")
		f.Bool("reuse-values", false, "")
		f.Bool("no-hooks", false, "")
		cmd.SetArgs(words[1:])
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(in.Args(), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.line, got, c.want)
		}
		if got := strings.Join(in.ShownArgs(), " "); c.shown != "" && got != c.shown {
			t.Errorf("%s: shows %s, want %s", c.line, got, c.shown)
		}
	}
}

// TestDamagedRecord: a record without a chart or a status is described, too.
func TestDamagedRecord(t *testing.T) {
	damaged := &rel1.Release{Name: "x", Version: 1}
	if name, version := chartOf(damaged); name != "" || version != "" || statusOf(damaged) != rcommon.StatusUnknown {
		t.Errorf("got %q %q %s", name, version, statusOf(damaged))
	}
}
