package charts

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

// lookAlikes are parts of an object with text that looks like an ordering annotation but is
// not one.
var lookAlikes = []string{
	"data:\n  doc: |\n    metadata:\n      annotations:\n        helm.sh/depends-on/resource-groups: [a]\n        helm.sh/weight: 1\n",
	"data:\n  doc: |+\n    ---\n    helm.sh/dependson/layer: x\n\n\n",
	"stringData:\n  doc: \"helm.sh/depends-on/resource-groups: [a]\"\n  more: 'helm.sh/dependson/chart'': x'\n",
	"stringData: {helm.sh/depends-on/subcharts: [a], x: \"helm.sh/weight: 1\"}\n",
	"spec:\n  template:\n    metadata:\n      annotations:\n        helm.sh/depends-on/resource-groups: [a]\n        \"helm.sh/dependson/layer\": '[\"x\"]'\n        helm.sh/weight: 3\n",
	"spec:\n  folded: >-\n    annotations:\n    helm.sh/depends-on/resource-groups: a\n\n    helm.sh/dependson/layer: b\n",
	"# helm.sh/depends-on/resource-groups: [a]\nspec: {} # helm.sh/dependson/layer: x\n",
	"annotations:\n  helm.sh/depends-on/resource-groups: [a]\n",
	"spec:\n  items:\n  - metadata:\n      annotations:\n        helm.sh/dependson/chart: [a]\n",
}

// ownAnnotations are annotations as written, after RewriteKeys and after normalise; "" means
// unchanged.
var ownAnnotations = [][3]string{
	{`helm.sh/depends-on/resource-groups: '["a"]'`, `helm.sh/depends-on-resource-groups: '["a"]'`, ``},
	{`helm.sh/depends-on/subcharts:   [a, 'b, ]', "c]"] # why`, `helm.sh/depends-on-subcharts:   [a, 'b, ]', "c]"] # why`, `helm.sh/depends-on/subcharts:   '["a","b, ]","c]"]' # why`},
	{"\"helm.sh/dependson/layer\": |\n      helm.sh/dependson/layer: x", "\"helm.sh/dependson-layer\": |\n      helm.sh/dependson/layer: x", ``},
	{"'helm.sh/dependson/chart':\n    # first\n    - x\n    - \"y\"", "'helm.sh/dependson-chart':\n    # first\n    - x\n    - \"y\"", `'helm.sh/dependson/chart': '["x","y"]'`},
	{`helm.sh/weight: 007 # helm.sh/depends-on/resource-groups: x`, ``, `helm.sh/weight: '007' # helm.sh/depends-on/resource-groups: x`},
	{`other/key: "helm.sh/depends-on/resource-groups: [a]"`, ``, ``},
	{"note: |\n      helm.sh/depends-on/resource-groups: [a]\n      helm.sh/weight: 1", ``, ``},
	{`helm.sh/hook-weight: 1`, ``, ``},
	{`empty:`, ``, ``},
	{`helm.sh/resource-group:`, ``, `helm.sh/resource-group: ''`},
}

// randomDocument returns the text of an object, and the expected results of RewriteKeys and
// normalise.
func randomDocument(r *rand.Rand) (text, rewritten, normalised string) {
	var parts [3]strings.Builder
	put := func(texts ...string) {
		for i := range parts {
			parts[i].WriteString(texts[min(i, len(texts)-1)])
		}
	}
	keys := map[string]bool{}
	like := func() {
		part := lookAlikes[r.IntN(len(lookAlikes))]
		if key, _, _ := strings.Cut(strings.TrimPrefix(part, "# helm.sh/depends-on/resource-groups: [a]\n"), ":"); !keys[key] {
			keys[key] = true
			put(part)
		}
	}
	put("apiVersion: v1\nkind: X\n")
	like()
	put("metadata:\n  name: \"ä → x\"\n")
	if r.IntN(2) == 0 {
		put("  labels:\n    helm.sh/depends-on/resource-groups: [a]\n")
	}
	put("  annotations:\n")
	for _, i := range r.Perm(len(ownAnnotations))[:1+r.IntN(len(ownAnnotations))] {
		a := ownAnnotations[i]
		for n := 1; n < 3; n++ {
			if a[n] == "" {
				a[n] = a[0]
			}
		}
		put("    "+a[0]+"\n", "    "+a[1]+"\n", "    "+a[2]+"\n")
	}
	like()
	like()
	return parts[0].String(), parts[1].String(), parts[2].String()
}

// TestOtherTextIsUnchanged: only keys and values of an object's own annotations change in a
// manifest that is stored, printed or passed to Helm (R1, R3). All other bytes stay the same,
// and a second call changes nothing.
func TestOtherTextIsUnchanged(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		var text, rewritten, normalised strings.Builder
		for n := range 1 + r.IntN(3) {
			a, b, c := randomDocument(r)
			head := fmt.Sprintf("---\n# Source: shop/templates/%d.yaml\n", n)
			text.WriteString(head + a)
			rewritten.WriteString(head + b)
			normalised.WriteString(head + c)
		}
		if got := RewriteKeys(text.String()); got != rewritten.String() || RewriteKeys(got) != got {
			t.Fatalf("seed %d: rewritten\n%s\nis\n%s\nwant\n%s", seed, text.String(), got, rewritten.String())
		}
		if got := normalise(text.String()); got != normalised.String() || normalise(got) != got {
			t.Fatalf("seed %d: normalised\n%s\nis\n%s\nwant\n%s", seed, text.String(), got, normalised.String())
		}
	}
}

// TestRewriteKeysOfSharedAnnotations: an anchored value used in two places changes only among the
// annotations of the object (R3).
func TestRewriteKeysOfSharedAnnotations(t *testing.T) {
	const alike = "helm.sh/dependson/layer"
	for _, s := range []string{
		"spec:\n  annotations: &a {helm.sh/dependson/layer: x, big: 12345678901234567}\nmetadata:\n  annotations: *a\n",
		"metadata:\n  annotations: &a\n    helm.sh/dependson/layer: x\n    big: 12345678901234567\nspec:\n  annotations: *a\n",
		"spec: {annotations: &a {helm.sh/dependson/layer: x}}\nmetadata:\n  annotations:\n    <<: *a\n    big: 12345678901234567\n",
	} {
		var was, is map[string]map[string]map[string]any
		if err := yaml.Unmarshal([]byte(s), &was); err != nil {
			t.Fatal(err)
		}
		got := RewriteKeys("kind: X\n" + s)
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(got, "kind: X\n")), &is); err != nil {
			t.Fatal(err)
		}
		own := is["metadata"]["annotations"]
		if _, left := own[alike]; left || own["helm.sh/dependson-layer"] != "x" {
			t.Errorf("%s became\n%s", s, got)
		}
		if !strings.Contains(got, "12345678901234567") {
			t.Errorf("a number changed:\n%s", got)
		}
		if !reflect.DeepEqual(is["spec"], was["spec"]) {
			t.Errorf("text outside the object's annotations changed:\n%s", got)
		}
	}
}

func TestEveryKeyHasAHint(t *testing.T) {
	hinted := func(key string, hints []string) bool {
		return slices.ContainsFunc(hints, func(h string) bool { return strings.HasPrefix(key, h) })
	}
	for _, key := range convertedKeys {
		if !hinted(key, orderingHints) {
			t.Errorf("%s has no hint", key)
		}
	}
	for _, key := range plan.TwoSlashKeys() {
		if !hinted(key, twoSlashHints) {
			t.Errorf("%s has no hint", key)
		}
	}
}
