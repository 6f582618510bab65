package documents

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// splitByHelm returns the documents of a manifest as Helm splits it.
func splitByHelm(manifest string) []string {
	parts := releaseutil.SplitManifests(manifest)
	keys := slices.Collect(maps.Keys(parts))
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	var docs []string
	for _, k := range keys {
		docs = append(docs, parts[k])
	}
	return docs
}

var manifests = []string{
	"", "---", " \n\t---\n--- \t\n", "a: 1", "\u00a0\n a: 1\n---\nb: 2\n", "---\na: 1\n---b: 2\n---\t c: 3", "a: |\n  ---\n  x\n---\n",
	"----\n-----\n------\n--- ---\n", "\r\n---\r\na: 1\r\n--- # x\r\n", "a\n--\n---", "x---\n\n\n---\n\x85\n---\u2028x", "---\n\xff\n---\n",
}

// textsOf returns the contents of the test charts' files that match a pattern.
func textsOf(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/charts/" + pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal("no charts", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestSplitMatchesHelm compares Split with Helm's own function.
func TestSplitMatchesHelm(t *testing.T) {
	texts := append(slices.Clone(manifests), textsOf(t, "*/templates/*.yaml")...)
	for _, text := range texts {
		if got, want := Split(text), splitByHelm(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, m := range manifests {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := Split(text), splitByHelm(text); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestReaderReturnsCopies: callers may change their values, and cached values are the same as
// parsed ones, in order, also when read in parallel.
func TestReaderReturnsCopies(t *testing.T) {
	var docs []string
	for range 200 { // enough to be read in parallel
		docs = append(docs, "a: {b: 1}", "# nothing", "a: b: c", "[9007199254740993, 1.5, null]")
	}
	r := &Reader{}
	for range 2 {
		values := r.ParseAll(docs)
		for i := 0; i < len(values); i += 4 {
			object, _ := values[i].Value.(map[string]any)
			if !reflect.DeepEqual(object, map[string]any{"a": map[string]any{"b": int64(1)}}) {
				t.Fatalf("document %d holds %v, %v", i, values[i].Value, values[i].Err)
			}
			object["a"].(map[string]any)["b"] = "changed"
			if values[i+1] != (Value{}) {
				t.Errorf("comment holds %v, %v", values[i+1].Value, values[i+1].Err)
			}
			if err := values[i+2].Err; err == nil || !strings.HasPrefix(err.Error(), "invalid YAML: ") {
				t.Errorf("error %v", err)
			}
			if !reflect.DeepEqual(values[i+3].Value, []any{int64(9007199254740993), 1.5, nil}) {
				t.Errorf("a list holds %v, %v", values[i+3].Value, values[i+3].Err)
			}
		}
	}
	if value, err := (*Reader)(nil).Parse("a: 1"); err != nil || !reflect.DeepEqual(value, map[string]any{"a": int64(1)}) {
		t.Errorf("%v, %v", value, err)
	}
}

// TestWriteMatchesSigsYAML compares Write with sigs.k8s.io/yaml, for the objects of all charts
// and for special values.
func TestWriteMatchesSigsYAML(t *testing.T) {
	texts := []string{
		"[9007199254740993, -1, 1.5, 1e3, 1e100, 0.1, -0.5e-9, true, null, '', 'yes', 'null', '1', '1.5', '0x10', '0o7', '2026-01-01', '12:30', '~', '<a&b>', '- x', ' a ', 'a: b', '# c', '{', '*x', '!y', '@', '%', '`']",
		"a: |\n  one\n\n  two\nb: |-\n  one\n  two\nc: \"a\\tb\\u00e4\\u2028\\U0001F600\\e\"\n'd e': {'': [], x: {}, 1: [[1], [{y: z}]]}\n" + "long: " + strings.Repeat("words and words ", 40),
	}
	texts = append(texts, textsOf(t, "*/*.yaml")...)
	for _, text := range texts {
		value, err := (*Reader)(nil).Parse(text)
		if err != nil {
			continue // an invalid chart
		}
		want, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Write(value); err != nil || got != string(want) {
			t.Errorf("%v, %q, want %q", err, got, want)
		}
	}
}

// FuzzParse compares Parse with sigs.k8s.io/yaml, which converts all YAML to JSON.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "# x", "a: 1\nb: [1.0, 1.5, 1e3, 1e100, .nan, 9007199254740993, 18446744073709551615, 0x10, 0o7, 012, 1_000]", "{1: a, true: b, 1.5: c, null: d}",
		"a: !!binary /w==\n? !!binary /w==\n: b", "a: 2026-01-01\nb: 12:30\nc: !!float 1\nd: !!str 1\ne: yes", "a: &a {b: 1}\nc: {<<: *a, d: *a}", "[]", "{}", "a: b: c", "a: \"\\u2028<\\uFFFD\\0\"",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := (*Reader)(nil).Parse(text)
		var want any
		data, failed := yaml.YAMLToJSON([]byte(text))
		if failed == nil {
			failed = json.Unmarshal(data, &want)
		}
		if (err == nil) != (failed == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v, want %#v, %v", text, got, err, want, failed)
		}
	})
}

func TestCutSource(t *testing.T) {
	for doc, want := range map[string][2]string{
		"# Source: a/templates/x.yaml\nkind: A\n":   {"a/templates/x.yaml", "kind: A\n"},
		"# Source: a/templates/x.yaml\r\nkind: A\n": {"a/templates/x.yaml", "kind: A\n"},
		"# Source: a/templates/x.yaml":              {"a/templates/x.yaml", ""},
		"# Of: a\nkind: A\n":                        {"", "# Of: a\nkind: A\n"},
	} {
		if source, raw := CutSource(doc); source != want[0] || raw != want[1] {
			t.Errorf("%q: %q, %q", doc, source, raw)
		}
	}
}
