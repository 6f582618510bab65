package annotate

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestChartYAML writes dependencies of subcharts (R4, R11) into files of many forms.
func TestChartYAML(t *testing.T) {
	const head = "apiVersion: v2\nname: c\nversion: 1.0.0\n"
	const deps = "dependencies:\n  # the database\n  - name: db\n    version: 1.0.0\n    alias: store\n  - version: 1.0.0\n    name: db\n    alias: web # it\n    tags: [a]\n  # behind\n"
	const field = head + "dependencies:\n  # the database\n  - name: db\n    version: 1.0.0\n    alias: store\n  - version: 1.0.0\n    name: db\n    alias: web # it\n    depends-on: [\"store\"]\n    tags: [a]\n  # behind\n"
	tests := []struct {
		name, chart  string
		own          []string
		siblings     []string // of web
		want, manual string
	}{
		{"the chart and a subchart", head + deps, []string{"web"}, []string{"store"},
			head + deps + "annotations:\n  helm.sh/depends-on/subcharts: '[\"web\"]'\n  lockstep/depends-on: '{\"web\": [\"store\"]}'\n", ""},
		{"annotations of both", head + "annotations:\n   a: b\n" + deps, []string{"web"}, []string{"store"},
			head + "annotations:\n   helm.sh/depends-on/subcharts: '[\"web\"]'\n   lockstep/depends-on: '{\"web\": [\"store\"]}'\n   a: b\n" + deps, ""},
		{"HIP", head + deps, nil, []string{"store"}, field, ""},
		{"annotations", head + "annotations:\n   # note\n   a: b\n" + deps, []string{"store", "web"}, nil,
			head + "annotations:\n   helm.sh/depends-on/subcharts: '[\"store\", \"web\"]'\n   # note\n   a: b\n" + deps, ""},
		{"empty annotations", head + "annotations:\n" + deps, []string{"web"}, nil,
			head + "annotations:\n  helm.sh/depends-on/subcharts: '[\"web\"]'\n" + deps, ""},
		{"no line end", head + strings.TrimSuffix(deps, "\n"), []string{"web"}, nil,
			head + strings.TrimSuffix(deps, "\n") + "\nannotations:\n  helm.sh/depends-on/subcharts: '[\"web\"]'", ""},
		{"annotations in braces", head + "annotations: {a: b}\n" + deps, []string{"web"}, nil, "", notBlockStyle},
		{"HIP: an entry in braces", head + "dependencies:\n  - {name: db, version: 1.0.0, alias: store}\n  - {name: db, version: 1.0.0, alias: web}\n", nil, []string{"store"}, "", "not in block style"},
		{"HIP: an existing list", head + strings.Replace(deps, "tags: [a]", "depends-on: []", 1), nil, []string{"store"}, "", "edit that by hand"},
		{"an existing mapping", head + "annotations:\n  lockstep/depends-on: '{}'\n" + deps, nil, []string{"store"}, "", "edit that by hand"},
		{"annotations with an existing list", head + "annotations:\n  helm.sh/depends-on/subcharts:\n" + deps, []string{"web"}, nil, "", "edit that by hand"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "Chart.yaml", test.chart)
			put(t, dir, "templates/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: own\n")
			put(t, dir, "charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n")
			put(t, dir, "charts/db/templates/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Chart.Name }}\n")
			r := render(t, dir)
			tree := *r.Tree
			tree.DependsOn, tree.Subcharts = test.own, nil
			for _, s := range r.Tree.Subcharts {
				if s.Alias == "web" {
					s.DependsOn = test.siblings
				}
				tree.Subcharts = append(tree.Subcharts, s)
			}
			src := source(dir, r)
			if strings.HasPrefix(test.name, "HIP") {
				src.Spelling = SpellingHIP
			}
			res, err := Prepare(t.Context(), src, Order{&tree, r.Resources})
			if err != nil {
				t.Fatal(err)
			}
			checkEdit(t, res, test.want, test.manual)
		})
	}
}

// TestWrite: Write keeps the modes of files and writes all files or none.
func TestWrite(t *testing.T) {
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n"
	prepared := func(t *testing.T) (string, *Result) {
		dir := t.TempDir()
		put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
		put(t, dir, "templates/a.yaml", text)
		put(t, dir, "templates/b.yaml", strings.Replace(text, "web", "web-2", 1))
		if err := os.Chmod(filepath.Join(dir, "templates/a.yaml"), 0o640); err != nil {
			t.Fatal(err)
		}
		r := render(t, dir)
		res, err := Prepare(t.Context(), source(dir, r), grouped(r, "web"))
		if err != nil || len(res.Files) != 2 {
			t.Fatal(res, err)
		}
		return dir, res
	}
	t.Run("all", func(t *testing.T) {
		dir, res := prepared(t)
		if err := res.Write(); err != nil {
			t.Fatal(err)
		}
		for _, f := range res.Files {
			data, err := os.ReadFile(filepath.Join(dir, f.Name))
			if err != nil || string(data) != string(f.rewrite.New) {
				t.Errorf("%s: %v\n%s", f.Name, err, data)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, "templates/a.yaml")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "templates/.*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	t.Run("none if one has changed", func(t *testing.T) {
		dir, res := prepared(t)
		put(t, dir, "templates/b.yaml", text+"# more\n")
		before := contents(t, dir)
		if err := res.Write(); err == nil || !strings.Contains(err.Error(), "changed since it was read") {
			t.Fatalf("error %v", err)
		}
		for name, data := range contents(t, dir) {
			if string(before[name]) != string(data) {
				t.Errorf("%s was written", name)
			}
		}
	})
	t.Run("undone if one cannot be renamed", func(t *testing.T) {
		dir, res := prepared(t)
		res.Files[1].rewrite.Path = filepath.Join(dir, "templates")
		old, err := os.ReadFile(filepath.Join(dir, "templates/a.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Write(); err == nil {
			t.Fatal("no error")
		}
		if data, err := os.ReadFile(filepath.Join(dir, "templates/a.yaml")); err != nil || string(data) != string(old) {
			t.Errorf("%v\n%s", err, data)
		}
	})
}

// TestLinks: symbolic links are not written, because other charts may use their targets.
func TestLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
	put(t, other, "x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")
	put(t, dir, "templates/NOTES.txt", "hello\n")
	if err := os.Symlink(filepath.Join(other, "x.yaml"), filepath.Join(dir, "templates/x.yaml")); err != nil {
		t.Fatal(err)
	}
	r := render(t, dir)
	res, err := Prepare(t.Context(), source(dir, r), grouped(r, "web"))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Files) > 0 || len(res.Manual) != 1 || !strings.Contains(res.Manual[0].Why, "is a symbolic link to") {
		t.Errorf("files %v, manual edits %v", res.Files, res.Manual)
	}
}

// TestChecksums: a file is written even if its checksum is in a pod template, which is
// reported as a restart.
func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
	put(t, dir, "templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")
	put(t, dir, "templates/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\ndata:\n  sum: {{ include (print $.Template.BasePath \"/a.yaml\") . | sha256sum }}\n")
	r := render(t, dir)
	res, err := Prepare(t.Context(), source(dir, r), grouped(r, "web"))
	if err != nil || len(res.Files) != 1 || len(res.Manual) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
	put(t, dir, "templates/c.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: pods\nspec:\n  template:\n    metadata:\n      annotations:\n        checksum/config: {{ include (print $.Template.BasePath \"/a.yaml\") . | sha256sum }}\n")
	r = render(t, dir)
	if res, err := Prepare(t.Context(), source(dir, r), grouped(r, "web")); err != nil || len(res.Restarts) != 1 || res.Restarts[0].Name != "pods" {
		t.Errorf("the checksum changes: %+v, %v", res, err)
	}
}

// TestPartlyAnnotated: missing annotations are added, and existing ones are not changed.
func TestPartlyAnnotated(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
	put(t, dir, "templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  annotations:\n    helm.sh/resource-group: web\n")
	put(t, dir, "templates/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: db\n  annotations:\n    helm.sh/resource-group: db\n    helm.sh/depends-on/resource-groups: [\"web\"]\n")
	r := render(t, dir)
	o := Order{Tree: r.Tree, Resources: []plan.Resource{}}
	for _, res := range r.Resources {
		needs := map[string]string{"web": `["late"]`, "db": `["web","late"]`}[res.Object.Name]
		res.Annotations = map[string]string{plan.AnnotationGroup: res.Object.Name, plan.AnnotationGroupDependsOn: needs}
		o.Resources = append(o.Resources, res)
	}
	whole := source(dir, r)
	if res, err := Prepare(t.Context(), whole, o); err != nil || len(res.Files) > 0 || len(res.Manual) != 1 {
		t.Errorf("not all of it can be written: %+v, %v", res, err)
	}
	whole.Partial = true
	res, err := Prepare(t.Context(), whole, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Files) != 1 || !strings.Contains(string(res.Files[0].rewrite.New), "annotations:\n    helm.sh/depends-on-resource-groups: '[\"late\"]'\n") {
		t.Errorf("files %+v", res.Files)
	}
	if len(res.Manual) != 1 || !strings.Contains(res.Manual[0].Why, "edit that by hand") {
		t.Errorf("manual edits %+v", res.Manual)
	}
}

// TestSpelling writes keys with one slash or two (R3), also for a group under a condition. The
// plan is the same.
func TestSpelling(t *testing.T) {
	for spelling, want := range map[Spelling]string{
		"":           "helm.sh/depends-on-resource-groups: '[{{ if .Values.extra }}\"db\"{{ end }}]'",
		SpellingHelm: "helm.sh/depends-on-resource-groups: '[{{ if .Values.extra }}\"db\"{{ end }}]'",
		SpellingHIP:  "helm.sh/depends-on/resource-groups: '[{{ if .Values.extra }}\"db\"{{ end }}]'",
	} {
		dir := t.TempDir()
		put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
		put(t, dir, "values.yaml", "extra: true\n")
		put(t, dir, "templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")
		put(t, dir, "templates/b.yaml", "{{ if .Values.extra }}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: db\n{{ end }}\n")
		r := render(t, dir)
		o := Order{Tree: r.Tree}
		for _, res := range r.Resources {
			res.Annotations = map[string]string{plan.AnnotationGroup: res.Object.Name}
			if res.Object.Name == "web" {
				res.Annotations[plan.AnnotationGroupDependsOn] = `["db"]`
			}
			o.Resources = append(o.Resources, res)
		}
		src := source(dir, r)
		src.Spelling = spelling
		res, err := Prepare(t.Context(), src, o)
		if err != nil || len(res.Manual) > 0 || len(res.Files) != 2 {
			t.Fatalf("%q: %v, %+v", spelling, err, res)
		}
		if got := string(res.Files[0].rewrite.New); !strings.Contains(got, strings.Replace(want, ".Values", "$.Values", 1)) {
			t.Errorf("%q: got\n%s\nwant\n%s", spelling, got, want)
		}
	}
}

// TestUndeclared: the dependencies of a subchart that is only in charts/ have no entry for the field of HIP-0025.
func TestUndeclared(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
	for _, name := range []string{"a", "b"} {
		put(t, dir, "charts/"+name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: 1.0.0\n")
		put(t, dir, "charts/"+name+"/templates/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Chart.Name }}\n")
	}
	r := render(t, dir)
	tree := *r.Tree
	tree.Subcharts = slices.Clone(tree.Subcharts)
	tree.Subcharts[0].DependsOn = []string{"b"}
	src := source(dir, r)
	res, err := Prepare(t.Context(), src, Order{&tree, r.Resources})
	if err != nil || len(res.Files) != 1 || len(res.Manual) > 0 {
		t.Fatalf("%v, files %+v, manual edits %+v", err, res.Files, res.Manual)
	}
	src.Spelling = SpellingHIP
	if res, err = Prepare(t.Context(), src, Order{&tree, r.Resources}); err != nil {
		t.Fatal(err)
	}
	if len(res.Files) > 0 || len(res.Manual) != 1 || !strings.Contains(res.Manual[0].Why, "is not listed in dependencies") {
		t.Errorf("files %+v, manual edits %+v", res.Files, res.Manual)
	}
}

// TestAnyTemplate parses damaged templates: insertions are between lines, and removing them restores the
// template.
func TestAnyTemplate(t *testing.T) {
	files, err := filepath.Glob(testCharts + "/*/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole := string(data)
		inserts(t, whole)
		for range 200 {
			cut := whole
			for range 1 + random.IntN(4) {
				from := random.IntN(len(cut) + 1)
				to := min(len(cut), from+random.IntN(20))
				cut = cut[:from] + []string{"", "\n", "{{", "}}", " ", "- ", "\r\n", "\"", "{{ end }}", "{{ else }}", "metadata:\n"}[random.IntN(11)] + cut[to:]
			}
			inserts(t, cut)
		}
	}
}

func inserts(t *testing.T, raw string) {
	text, ok := parse(raw)
	if !ok {
		return
	}
	for _, p := range text.places() {
		if p.refusal != "" {
			continue
		}
		in := p.insertions(text, []string{"lockstep/a: b"})
		got := string((&file{raw: raw}).with(in))
		for _, i := range in {
			if i.at > 0 && i.at < len(raw) && raw[i.at-1] != '\n' {
				t.Errorf("in the middle of a line: %d of %q", i.at, raw)
			}
			got = strings.Replace(got, i.text, "", 1)
		}
		if len(got) != len(raw) {
			t.Errorf("%q became %q", raw, got)
		}
	}
}

// checkEdit checks the only edit: what a file becomes or, if manual is set, that it is left to the user for that reason.
func checkEdit(t *testing.T, res *Result, want, manual string) {
	t.Helper()
	if manual != "" {
		if len(res.Files) > 0 || len(res.Manual) != 1 || !strings.Contains(res.Manual[0].Why, manual) {
			t.Errorf("files %v, manual edits %v; want a manual edit: %s", res.Files, res.Manual, manual)
		}
		return
	}
	if len(res.Manual) > 0 || len(res.Files) != 1 {
		t.Fatalf("files %v, manual edits %v", res.Files, res.Manual)
	}
	if got := string(res.Files[0].rewrite.New); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
