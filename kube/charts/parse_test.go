package charts

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/plan"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

func TestParse(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "
	tests := []struct {
		name, manifest string
		want           []string // chart kind/name
		warning        string
	}{
		{"R6: chart paths", "---\n# Source: shop/templates/a.yaml\n" + object + "a\n---\n# Source: shop/charts/db/templates/sub/b.yaml\n" + object +
			"b\n---\n# Source: shop/charts/charts/charts/templates/templates/x.yaml\n" + object + "c\n",
			[]string{"shop ConfigMap/a", "shop/db ConfigMap/b", "shop/charts/templates ConfigMap/c"}, ""},
		{"R6: no source", "---\n# Source: generated-by-postrender-0.yaml\n" + object + "a\n---\n" + object + "b\n---\n# Source: other/templates/x.yaml\n" + object + "c\n",
			[]string{"shop ConfigMap/a", "shop ConfigMap/b", "shop ConfigMap/c"}, "no comment names the chart of 3 objects (ConfigMap/a, ConfigMap/b, ConfigMap/c), so lockstep assumes shop"},
		{"lists", "# Source: shop/charts/db/templates/x.yaml\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - metadata: {name: m}\n",
			[]string{"shop/db Secret/s", "shop/db ConfigMap/m"}, ""},
		{"an empty list", "# Source: shop/templates/x.yaml\napiVersion: v1\nkind: List\nitems: []\n", nil, ""},
		{"only comments", "---\n# Source: shop/templates/x.yaml\n# nothing\n---\n# Source: shop/templates/y.yaml\n{}\n", nil, ""},
		{"line ends", strings.ReplaceAll("---\n# Source: shop/charts/db/templates/x.yaml\n"+object+"a\n", "\n", "\r\n"), []string{"shop/db ConfigMap/a"}, ""},
		{"the same object twice", "---\n# Source: shop/templates/x.yaml\n" + object + "a\n---\n# Source: shop/templates/x.yaml\n" + object + "a\n",
			[]string{"shop ConfigMap/a", "shop ConfigMap/a"}, ""},
		{"more than ten", strings.Repeat("---\n# Source: shop/templates/x.yaml\n"+object+"a\n", 11) + "---\n# Source: shop/templates/x.yaml\n" + object + "z\n",
			append(slices.Repeat([]string{"shop ConfigMap/a"}, 11), "shop ConfigMap/z"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, warnings, err := ParseManifest(tt.manifest, "shop")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range docs {
				got = append(got, d.Chart+" "+d.Object.GetKind()+"/"+d.Object.GetName())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.warning == "" && len(warnings) > 0 || tt.warning != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Message, tt.warning) || warnings[0].Rule != "R6") {
				t.Errorf("warnings %v, want %q", warnings, tt.warning)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a: b: c":                               "shop/templates/x.yaml: invalid YAML",
		"kind: ConfigMap":                       "shop/templates/x.yaml: the document that starts with \"kind: ConfigMap\" has no apiVersion",
		"apiVersion: v1\nmetadata: {name: app}": "shop/templates/x.yaml: the document named app has no kind; add it",
		"data: {}":                              "starts with \"data: {}\" has no apiVersion and no kind; add both",
		"just text":                             "shop/templates/x.yaml: not a Kubernetes object",
		"apiVersion: v1\nkind: L\nitems: [x]":   "shop/templates/x.yaml: item 0 of the L is not an object",
	} {
		_, _, err := ParseManifest("---\n# Source: shop/templates/x.yaml\n"+text+"\n", "shop")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// TestReadableByHelm: a new manifest is refused if Helm could not read it again, such as a list as an item of another, even an empty one
// (R2a). A stored one is read: see TestParse.
func TestReadableByHelm(t *testing.T) {
	const object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {items: 'items: [x]'}}"
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: a}, data: {items: x}}": "",
		"apiVersion: v1\nkind: ConfigMapList\nitems: [{}]":                                       "ConfigMap has no name",
		"apiVersion: v1\nkind: List\nitems:\n- " + object:                                        "",
		"apiVersion: v1\nkind: List\nitems: []":                                                  "",
		object:                                                                                   "",
		"null":                                                                                   "",
		"~ # nothing":                                                                            "",
		"# {}":                                                                                   "",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: }\ndata: {}": "",
		"{}":                       "an empty object ({})",
		"# kind: nothing\n{ } # x": "an empty object ({})",
		"apiVersion: v1\nkind: List\nitems:\n- {}":  "item 0 of the List is an empty object ({})",
		"apiVersion: v1\nkind: List\nitems: [null]": "item 0 of the List is not an object",
		"[]": "not a Kubernetes object",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1}":                                                                   "ConfigMap: metadata.name must be a string",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: 1}}":                                                   "ConfigMap/a: metadata.labels must contain strings",
		"apiVersion: 1\nkind: ConfigMap\nmetadata: {name: a}":                                                                    "the document named a has no apiVersion",
		"apiVersion: v1\nkind: List\nitems:\n- " + object + "\n- {apiVersion: v1, kind: ConfigMapList, items: [" + object + "]}": "item 1 of the List is a list itself (ConfigMapList)",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]":                                           "item 0 of the List is a list itself (List)",
		"apiVersion: v1\nkind: ConfigMapList\nitems: [{apiVersion: v1, kind: List, items: [" + object + "]}]":                    "item 0 of the ConfigMapList is a list itself (List)",
	} {
		manifest := "---\n# Source: shop/templates/x.yaml\n" + text + "\n---\n# Source: shop/templates/y.yaml\n" + object + "\n"
		errs := CheckReadable(nil, manifest)
		docs, _, err := ParseManifest(manifest, "shop")
		if err != nil {
			errs = append(errs, err)
		}
		for _, d := range docs {
			if err := d.Check(); err != nil {
				errs = append(errs, err)
			}
		}
		if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "shop/templates/x.yaml: "+want)) {
			t.Errorf("%q: errors %v, want %q", text, errs, want)
		}
		_, err = resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten().Stream(strings.NewReader(manifest), "").Do().Infos()
		if err != nil && len(errs) == 0 || err == nil && len(errs) > 0 && !strings.Contains(want, "has no name") {
			t.Errorf("%q: errors %v, and those of Helm's reader: %v", text, errs, err)
		}
	}
}

func TestResources(t *testing.T) {
	manifest := `---
# Source: shop/templates/x.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.x.io, namespace: oops}
spec: {group: x.io, scope: Cluster, names: {kind: Gauge, plural: gauges}}
---
# Source: shop/templates/x.yaml
apiVersion: x.io/v1
kind: Gauge
metadata: {name: g, annotations: {helm.sh/resource-group: a, empty: , "number": 5}}
---
# Source: shop/templates/x.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: other}
---
# Source: shop/templates/x.yaml
apiVersion: batch/v1
kind: Job
metadata: {generateName: j-}
---
# Source: shop/templates/x.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: c}
`
	docs, _, err := ParseManifest(manifest, "shop")
	if err != nil {
		t.Fatal(err)
	}
	got := Resources(docs, "ns", OfflineScope(docs...))
	want := []plan.Object{
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "gauges.x.io"},
		{Group: "x.io", Kind: "Gauge", Name: "g"},
		{Group: "apps", Kind: "Deployment", Namespace: "other", Name: "d"},
		{Group: "batch", Kind: "Job", Namespace: "ns", Name: "j-"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "c"},
	}
	for i, r := range got {
		if r.Object != want[i] {
			t.Errorf("object %+v, want %+v", r.Object, want[i])
		}
	}
	if d := got[0].Defines; d != (plan.GroupKind{Group: "x.io", Kind: "Gauge"}) {
		t.Errorf("R17: the definition defines %v", d)
	}
	if a := got[1].Annotations; a["helm.sh/resource-group"] != "a" || a["number"] != "5" {
		t.Errorf("annotations %v", a)
	}
	if OfflineScope()(schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Gauge"}) == false {
		t.Error("an unknown kind is not namespaced")
	}
}

// TestMaskKeepsNames: the mask hides the values of Secrets, but not the names of objects, groups and layers.
func TestMaskKeepsNames(t *testing.T) {
	r := render(t, tree{
		"Chart.yaml":       chartYAML("shop"),
		"templates/a.yaml": configMap("object-name", "helm.sh/resource-group: group-name") + "---\n" + configMap("b", "helm.sh/layer: layer-name"),
		"templates/s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: object-name, b: group-name, c: layer-name, d: secret-word}\n",
	}, nil)
	if got := r.Mask().Text("object-name group-name layer-name secret-word"); !strings.HasPrefix(got, "object-name group-name layer-name ") || strings.Contains(got, "secret-word") {
		t.Errorf("masked: %s", got)
	}
}

type postRenderer func(string) string

func (f postRenderer) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	return bytes.NewBufferString(f(in.String())), nil
}

// TestPostRendererWithoutEnd (R54): a post-renderer is waited for as long as templates may take.
func TestPostRendererWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		p := PostRenderOnce(postRenderer(func(s string) string { <-stop; return s }), Limits{Time: time.Minute})
		start := time.Now()
		if _, err := p.Run(bytes.NewBufferString("a")); err == nil || err.Error() != "the post-renderer did not finish within 1m0s" || time.Since(start) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// TestPostRenderer has a post-renderer that keeps Helm's Source comments, and one that drops
// them (R6).
func TestPostRenderer(t *testing.T) {
	c := load(t, plus(
		tree{"Chart.yaml": chartYAML("shop"), "templates/a.yaml": configMap("a", listOfDB)},
		in("charts/db", tree{"Chart.yaml": chartYAML("db"), "templates/b.yaml": configMap("b")})))
	o := testOptions
	o.PostRenderer = postRenderer(func(s string) string { return s })
	r, err := Render(t.Context(), c, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) > 0 || r.Resources[0].Chart != "shop/db" || r.Resources[1].Annotations[plan.AnnotationGroupDependsOn] != `["db"]` {
		t.Errorf("resources %+v, warnings %v", r.Resources, r.Warnings)
	}
	o.PostRenderer = postRenderer(func(string) string { return configMap("x") + "---\n" + configMap("y") })
	if r, err = Render(t.Context(), c, nil, o); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rules(r.Warnings), []string{"R6"}) || r.Resources[1].Chart != "shop" {
		t.Errorf("resources %+v, warnings %v", r.Resources, r.Warnings)
	}
}
