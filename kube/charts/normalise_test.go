package charts

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestNormalise(t *testing.T) {
	const head = "kind: X\nmetadata:\n  annotations:\n"
	tests := []struct{ name, in, want string }{
		{"flow list", "    helm.sh/depends-on/resource-groups: [\"a\", b]\n", "    helm.sh/depends-on/resource-groups: '[\"a\",\"b\"]'\n"},
		{"block list", "    helm.sh/readiness-success:\n      - \"{.x} == 1\"\n      - '{.y} < ''2'''\ndata: {}\n",
			"    helm.sh/readiness-success: '[\"{.x} == 1\",\"{.y} < ''2''\"]'\ndata: {}\n"},
		{"block list at the key's depth", "    helm.sh/dependson/layer:\n    - a\n    - b\n    x: y\n",
			"    helm.sh/dependson/layer: '[\"a\",\"b\"]'\n    x: y\n"},
		{"flow list over lines", "    helm.sh/dependson/chart: [a,\n      b]\n    x: y\n", "    helm.sh/dependson/chart: '[\"a\",\"b\"]'\n    x: y\n"},
		{"comments stay", "    # one\n    helm.sh/depends-on/resource-groups: [a] # two\n    # three\n\n    x: y # four\n",
			"    # one\n    helm.sh/depends-on/resource-groups: '[\"a\"]' # two\n    # three\n\n    x: y # four\n"},
		{"comment after a block list", "    helm.sh/depends-on/resource-groups:\n    - a\n    # after\n    x: y\n",
			"    helm.sh/depends-on/resource-groups: '[\"a\"]'\n    # after\n    x: y\n"},
		{"number", "    helm.sh/weight: -2 # low\n", "    helm.sh/weight: '-2' # low\n"},
		{"number as group", "    helm.sh/resource-group: 012\n", "    helm.sh/resource-group: '012'\n"},
		{"boolean of YAML 1.1", "    helm.sh/resource-group: on\n", "    helm.sh/resource-group: 'on'\n"},
		{"nothing", "    helm.sh/weight:\n    x: y\n", "    helm.sh/weight: ''\n    x: y\n"},
		{"mapping", "    helm.sh/depends-on/resource-groups: {a: [1]}\n", "    helm.sh/depends-on/resource-groups: '{\"a\":[1]}'\n"},
		{"list of anything", "    helm.sh/depends-on/resource-groups: [1, null, {a: b}]\n",
			"    helm.sh/depends-on/resource-groups: '[\"1\",null,{\"a\":\"b\"}]'\n"},
		{"one slash", "    helm.sh/depends-on-resource-groups: [a]\n", "    helm.sh/depends-on-resource-groups: '[\"a\"]'\n"},
		{"quoted key", "    \"helm.sh/weight\" : 1\n", "    \"helm.sh/weight\" : '1'\n"},
		{"several", "    helm.sh/resource-group: 1\n    ä: ö\n    helm.sh/depends-on/resource-groups: [a]\n",
			"    helm.sh/resource-group: '1'\n    ä: ö\n    helm.sh/depends-on/resource-groups: '[\"a\"]'\n"},
		{"an end of the document", "    helm.sh/weight: 1\n...\n# more\n", "    helm.sh/weight: '1'\n...\n# more\n"},
		{"the text around", "    helm.sh/weight: 1\ndata:\n  a:   |+\n    x  \n\n\n  b: \"\\u00e4\"\n", "    helm.sh/weight: '1'\ndata:\n  a:   |+\n    x  \n\n\n  b: \"\\u00e4\"\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n"} {
				in := strings.ReplaceAll(head+tt.in, "\n", end)
				want := strings.ReplaceAll(head+tt.want, "\n", end)
				if got := normalise(in); got != want {
					t.Errorf("got:\n%q\nwant:\n%q", got, want)
				}
				if got := normalise("a: b" + end + "---" + end + in + "---" + end + in); got != "a: b"+end+"---"+end+want+"---"+end+want {
					t.Errorf("in several documents:\n%s", got)
				}
			}
			if twice := normalise(normalise(head + tt.in)); twice != head+tt.want {
				t.Errorf("twice:\n%s", twice)
			}
		})
	}
}

// TestNormaliseOtherForms: lists are also converted in JSON, flow mappings, anchors and merge keys.
func TestNormaliseOtherForms(t *testing.T) {
	tests := []struct{ name, in string }{
		{"JSON", `{"kind": "X", "metadata": {"annotations": {"helm.sh/depends-on/resource-groups": ["a", "b"]}}}`},
		{"flow mapping", "kind: X\nmetadata:\n  annotations: {helm.sh/depends-on/resource-groups: [a, b], x: y}\n"},
		{"anchor", "kind: X\nmetadata:\n  labels: &l\n    helm.sh/depends-on/resource-groups: [a, b]\n  annotations: *l\n"},
		{"merge key", "kind: X\nx: &l\n  helm.sh/depends-on/resource-groups: [a, b]\n  yes: 012\nmetadata:\n  annotations: {<<: *l, x: y}\n"},
		{"list of merged mappings", "kind: X\nx: &l {a: b}\ny: &m\n  helm.sh/depends-on/resource-groups: [a, b]\nmetadata:\n  annotations: {<<: [*l, *m], x: y}\n"},
		{"merge key in metadata", "kind: X\nx: &l\n  annotations:\n    helm.sh/depends-on/resource-groups: [a, b]\nmetadata:\n  <<: *l\n  name: x\n"},
		{"two annotations keys", "kind: X\nmetadata:\n  annotations: {a: b}\n  annotations:\n    helm.sh/depends-on/resource-groups: [a, b]\n"},
		{"anchored item", "kind: List\nitems:\n- &i\n  kind: X\n- *i\nmetadata:\n  annotations: &l\n    helm.sh/depends-on/resource-groups: [a, b]\nx: *l\n"},
		{"line ends of YAML in a value", "kind: X\nmetadata:\n  annotations:\n    helm.sh/depends-on/resource-groups:\n    - a\n    - b # \u2028\u2028\u2028\n    x: y\n"},
		{"line ends of YAML in the list", "kind: X\nmetadata:\n  annotations:\n    helm.sh/depends-on/resource-groups: # \u2028\u2028\u2028\n    - a\n    - b\n    x: y\n"},
		{"block scalar in the list", "kind: X\nmetadata:\n  annotations:\n    helm.sh/depends-on/resource-groups:\n    - a\n    - |-\n      b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := normalise("# first\n---\n" + tt.in)
			if !strings.HasPrefix(got, "# first\n---\n") {
				t.Errorf("the text before changed:\n%s", got)
			}
			_, doc, _ := strings.Cut(got, "---\n")
			var object struct {
				Metadata struct {
					Annotations map[string]string
				}
			}
			if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
				t.Fatalf("%v:\n%s", err, got)
			}
			if v := object.Metadata.Annotations["helm.sh/depends-on/resource-groups"]; v != `["a","b"]` {
				t.Errorf("value %q in:\n%s", v, got)
			}
		})
	}
}

func TestNormaliseLists(t *testing.T) {
	in := "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  metadata:\n    annotations:\n      helm.sh/depends-on/resource-groups:\n      - x\n- kind: B\n  metadata: {name: b}\n- kind: C\n  metadata:\n    annotations:\n      helm.sh/weight: 3\n"
	want := "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  metadata:\n    annotations:\n      helm.sh/depends-on/resource-groups: '[\"x\"]'\n- kind: B\n  metadata: {name: b}\n- kind: C\n  metadata:\n    annotations:\n      helm.sh/weight: '3'\n"
	if got := normalise(in); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestNormaliseKeepsOtherText: strings and text outside of annotations do not change.
func TestNormaliseKeepsOtherText(t *testing.T) {
	for _, s := range []string{
		"",
		"# helm.sh/ only\n",
		"kind: X\nmetadata:\n  annotations:\n    helm.sh/weight: \"1\"\n    helm.sh/resource-group: a\n",
		"kind: X\nmetadata:\n  annotations:\n    helm.sh/hook-weight: 5\n    other/list: [a]\n",
		"kind: X\nspec:\n  metadata:\n    annotations:\n      helm.sh/weight: 1\n",
		"kind: X\nmetadata:\n  annotations:\n    helm.sh/weight: 1\n  oops\n",
		"kind: X\nmetadata:\n  annotations:\n    helm.sh/weight: |\n      1\n",
		"- helm.sh/weight: 1\n",
		"metadata: helm.sh/weight\n",
		"kind: X\nmetadata:\n  annotations:\n  - helm.sh/weight: 1\n",
	} {
		if got := normalise(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add("kind: X\nmetadata:\n  annotations:\n    helm.sh/depends-on/resource-groups: [a, b] # c\n    helm.sh/weight: 1\n---\nx: y\n")
	f.Add("kind: List\nitems:\n- metadata: {annotations: {helm.sh/weight: 1}}\n")
	f.Fuzz(func(t *testing.T, s string) {
		once := normalise(s)
		if twice := normalise(once); twice != once {
			t.Errorf("%q became %q, then %q", s, once, twice)
		}
	})
}
