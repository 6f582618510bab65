package charts

import (
	"slices"
	"strings"
	"testing"
)

func dep(name string, more ...string) string {
	return "- name: " + name + "\n  version: \">=0\"\n  repository: \"\"\n  " + strings.Join(more, "\n  ") + "\n"
}

func TestTree(t *testing.T) {
	sub := func(name string, more ...string) tree {
		return tree{"Chart.yaml": chartYAML(name, more...), "templates/x.yaml": configMap("{{ .Chart.Name }}")}
	}
	deps := "dependencies:\n"
	tests := []struct {
		name    string
		files   tree
		values  map[string]any
		want    string
		rules   []string // of the warnings
		warning string   // the only one
		faults  []string
	}{
		{
			name: "R1: annotation as flow list",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on/subcharts: [\"db\", web]\n  other: x\n")}),
			want: "shop db,web\n  shop/db db  \n",
		},
		{
			name: "R1: annotation as block list",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on/subcharts:\n  - db\n")}),
			want: "shop db\n  shop/db db  \n",
		},
		{
			name: "R1, R3: annotation as JSON, one slash",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on-subcharts: '[\"db\"]'\n")}),
			want: "shop db\n  shop/db db  \n",
		},
		{
			name: "R2b: misspelt annotation",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on/subchart: '[\"db\"]'\n  example.com/a/b: x\n")}),
			want: "shop \n  shop/db db  \n", rules: []string{"R2b"},
		},
		{
			name: "R2b: misspelt depends-on",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml": chartYAML("shop", deps, dep("db", "condition: db.enabled"), dep("web", "dependsOn: [db]"))}),
			want: "shop \n  shop/db db  \n  shop/web web  \n", rules: []string{"R2b"},
		},
		{
			name: "R2: malformed lists are faults",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on/subcharts: '[\"db\"'\n", deps, dep("db", "depends-on: {a: b}"))}),
			want: "shop \n  shop/db db  \n",
			faults: []string{`R2 annotation helm.sh/depends-on/subcharts in Chart.yaml must be a list of names, but is '["db"'`,
				`R2 depends-on of dependency db in Chart.yaml must be a list of names, but is {"a":"b"}`},
		},
		{
			name: "R2: white space and null are no annotation",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", "annotations:\n  helm.sh/depends-on/subcharts: ' '\n  helm.sh/depends-on-subcharts:\n", deps, dep("db", "depends-on:"))}),
			want: "shop \n  shop/db db  \n",
		},
		{
			name: "R4: depends-on of dependencies, by name and alias",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml": chartYAML("shop", deps, dep("db", "alias: primary"), dep("web", "depends-on: [primary]"))}),
			want: "shop \n  shop/primary db primary \n  shop/web web  primary\n",
		},
		{
			name: "R12: one chart under two aliases",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", deps, dep("db", "alias: one"), dep("db", "alias: two", "depends-on: [one]"))}),
			want: "shop \n  shop/one db one \n  shop/two db two one\n",
		},
		{
			name: "R4: charts in an aliased chart, packed charts in a packed chart",
			files: tree{
				"Chart.yaml": chartYAML("shop", deps, dep("db", "alias: main")),
				"charts/db-1.0.0.tgz": packed(t, "db", plus(
					sub("db", deps, dep("log"), dep("net", "depends-on: [log]")),
					tree{"charts/log-1.0.0.tgz": packed(t, "log", sub("log"))},
					in("charts/net", sub("net", "annotations: {helm.sh/depends-on/subcharts: [x]}\n")))),
			},
			want: "shop \n  shop/main db main \nshop/main \n  shop/main/log log  \n  shop/main/net net  log\nshop/main/net x\n",
		},
		{
			name: "R4: a chart that is not declared, whose aliases and conditions Helm ignores",
			files: plus(in("charts/mid", plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml":  chartYAML("mid", deps, dep("db", "alias: primary", "condition: no"), dep("web", "depends-on: [primary]")),
				"values.yaml": "no: false\n"})),
				tree{"Chart.yaml": chartYAML("shop")}),
			want: "shop \n  shop/mid mid  \nshop/mid \n  shop/mid/db db primary \n  shop/mid/web web  primary\n",
		},
		{
			name: "R4: merge keys in Chart.yaml",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{"Chart.yaml": chartYAML("shop",
				"x: &x {helm.sh/depends-on/subcharts: '[\"db\"]'}\nannotations:\n  <<: *x\n", "y: &y {version: 1.x.x, depends-on: [db]}\nz: &z {name: web}\n",
				"dependencies:\n- {name: db, version: 1.x.x}\n- <<: [*y, *z]\n")}),
			want: "shop db\n  shop/db db  \n  shop/web web  db\n",
		},
		{
			name: "R4: of two annotations keys, the last counts",
			files: plus(in("charts/db", sub("db")), tree{"Chart.yaml": chartYAML("shop",
				"annotations: {x: z}\nannotations:\n  helm.sh/depends-on/subcharts: [db]\n", deps, dep("db"))}),
			want: "shop db\n  shop/db db  \n",
		},
		{
			name: "R12: disabled by condition",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml":  chartYAML("shop", deps, dep("db", "condition: db.enabled"), dep("web", "condition: web.enabled")),
				"values.yaml": "db: {enabled: true}\nweb: {enabled: true}\n"}),
			values: map[string]any{"db": map[string]any{"enabled": false}},
			want:   "shop \n  - db  \n  shop/web web  \n",
		},
		{
			name: "R12: disabled by tag, enabled by condition",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml":  chartYAML("shop", deps, dep("db", "tags: [back]"), dep("web", "tags: [back]", "condition: web.enabled")),
				"values.yaml": "tags: {back: false}\nweb: {enabled: true}\n"}),
			want: "shop \n  - db  \n  shop/web web  \n",
		},
		{
			name: "R12: one of two aliases disabled",
			files: plus(in("charts/db", sub("db")), tree{
				"Chart.yaml": chartYAML("shop", deps, dep("db", "alias: one", "condition: one.enabled"), dep("db", "alias: two"))}),
			values: map[string]any{"one": map[string]any{"enabled": false}},
			want:   "shop \n  - db one \n  shop/two db two \n",
		},
		{
			name: "charts that are not declared, unpacked and packed",
			files: plus(in("charts/b", sub("b")), in("charts/_hidden", sub("x")), tree{
				"Chart.yaml": chartYAML("shop"), "charts/a.tgz": packed(t, "a", sub("a"))}),
			want: "shop \n  shop/a a  \n  shop/b b  \n",
		},
		{
			name: "another version than declared, without and with an alias",
			files: plus(in("charts/a", sub("a")), in("charts/b", sub("b")), tree{"Chart.yaml": chartYAML("shop", deps,
				"- {name: a, version: 2.x.x, repository: \"\"}\n- {name: b, version: 2.x.x, alias: c, repository: \"\"}\n")}),
			want:  "shop \n  shop/a a  \n  - b c \n  shop/b b  \n",
			rules: []string{"R12"},
		},
		{
			name: "two versions of one chart",
			files: plus(in("charts/a", sub("a")), tree{
				"charts/a2/Chart.yaml": "apiVersion: v2\nname: a\nversion: 2.0.0\nannotations: {helm.sh/depends-on/subcharts: [two]}\n",
				"Chart.yaml":           chartYAML("shop", deps, "- {name: a, version: 1.x.x, alias: x, repository: \"\"}\n- {name: a, version: 2.x.x, alias: z, repository: \"\"}\n")}),
			want: "shop \n  shop/x a x \n  shop/z a z \nshop/z two\n",
		},
		{
			name: "R34a: apiVersion v3, at the top and below",
			files: tree{"Chart.yaml": strings.Replace(chartYAML("shop"), "v2", "v3", 1),
				"charts/a/Chart.yaml": strings.Replace(chartYAML("a"), "v2", "v3", 1)},
			want:  "shop \n  shop/a a  \n",
			rules: []string{"R34a", "R34a"},
		},
		{
			name: "apiVersion v1 with requirements.yaml",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml":        "name: shop\nversion: 1.0.0\n",
				"requirements.yaml": deps + dep("db") + dep("web", "depends-on: '[\"db\"]'")}),
			want: "shop \n  shop/db db  \n  shop/web web  db\n",
		},
		{
			name: "R2, R2b: mistakes in requirements.yaml",
			files: plus(in("charts/db", sub("db")), in("charts/web", sub("web")), tree{
				"Chart.yaml":        "name: shop\nversion: 1.0.0\n",
				"requirements.yaml": deps + dep("db", "depends-on: {a: b}") + dep("web", "dependsOn: [db]")}),
			want:    "shop \n  shop/db db  \n  shop/web web  \n",
			faults:  []string{`R2 depends-on of dependency db in requirements.yaml must be a list of names, but is {"a":"b"}`},
			rules:   []string{"R2b"},
			warning: "shop: requirements.yaml: dependsOn of dependency web is unknown and has no effect; did you mean depends-on?",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := load(t, tt.files)
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
			node, warnings, err := c.Tree(tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if got := outline(node); got != tt.want {
				t.Errorf("tree:\n%swant:\n%s", got, tt.want)
			}
			var faults []string
			for _, f := range node.Faults {
				faults = append(faults, f.Rule+" "+f.Message)
			}
			if !slices.Equal(faults, tt.faults) {
				t.Errorf("faults %q, want %q", faults, tt.faults)
			}
			if got := rules(warnings); !slices.Equal(got, tt.rules) {
				t.Errorf("warnings %v, want rules %v", warnings, tt.rules)
			}
			if tt.warning != "" && warnings[0].Message != tt.warning {
				t.Errorf("warning %q, want %q", warnings[0].Message, tt.warning)
			}
		})
	}
}

// TestTreePaths compares the paths of the tree with those that Helm writes into the manifest
// (R6, R12).
func TestTreePaths(t *testing.T) {
	leaf := tree{"Chart.yaml": chartYAML("leaf"), "templates/x.yaml": configMap(`{{ .Values.global.x }}-{{ .Template.BasePath | replace "/" "-" }}`)}
	mid := plus(tree{
		"Chart.yaml":       chartYAML("mid", "dependencies:\n", dep("leaf", "alias: left"), dep("leaf", "alias: right")),
		"templates/x.yaml": configMap("mid-{{ .Chart.Name }}"),
	}, in("charts/leaf", leaf))
	r := render(t, plus(tree{
		"Chart.yaml":  chartYAML("shop", "dependencies:\n", dep("mid", "alias: a"), dep("mid", "alias: b")),
		"values.yaml": "global: {x: y}\n",
	}, in("charts/mid", mid)), nil)
	var got []string
	for _, res := range r.Resources {
		got = append(got, res.Chart)
	}
	want := []string{"shop/a", "shop/a/left", "shop/a/right", "shop/b", "shop/b/left", "shop/b/right"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("chart paths %v, want %v", got, want)
	}
	if o := outline(r.Tree); !strings.Contains(o, "shop/b/right leaf right") {
		t.Errorf("tree:\n%s", o)
	}
}

func TestImportValues(t *testing.T) {
	r := render(t, tree{
		"Chart.yaml":            chartYAML("shop", "dependencies:\n", dep("db", "depends-on: []", "import-values: [data]")),
		"templates/x.yaml":      configMap("{{ .Values.port }}"),
		"charts/db/Chart.yaml":  chartYAML("db"),
		"charts/db/values.yaml": "exports: {data: {port: from-db}}\n",
	}, nil)
	if got := r.Docs[0].Object.GetName(); got != "from-db" {
		t.Errorf("imported value %q", got)
	}
}
