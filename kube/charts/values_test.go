package charts

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"sigs.k8s.io/yaml"
)

// TestValues merges a values file and --set.
func TestValues(t *testing.T) {
	dir := write(t, tree{"v.yaml": "a: 1\nb: {c: x}\n"})
	v, err := Values(values.Options{ValueFiles: []string{filepath.Join(dir, "v.yaml")}, Values: []string{"b.c=y"}}, cli.New())
	if err != nil || v["b"].(map[string]any)["c"] != "y" {
		t.Errorf("values %v, error %v", v, err)
	}
	if _, err = Values(values.Options{ValueFiles: []string{"nowhere.yaml"}}, cli.New()); err == nil {
		t.Error("no error for a missing values file")
	}
}

// randomValue returns a value as Helm's flags can produce it: YAML and JSON numbers are
// floats, --set has integers, and --set-file any bytes.
func randomValue(r *rand.Rand, depth int) any {
	n := 9
	if depth == 0 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return r.Int64() - math.MaxInt64/2
	case 3:
		return r.Float64() * math.Pow10(r.IntN(40)-10)
	case 4, 5:
		b := make([]byte, r.IntN(8))
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		return string(b)
	case 6:
		return []any{[]any(nil), []any{}, map[string]any(nil), map[string]any{}}[r.IntN(4)]
	case 7:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = randomValue(r, depth-1)
		}
		return list
	}
	return randomValues(r, depth-1)
}

func randomValues(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(5) {
		m[fmt.Sprintf("k%d\x80", r.IntN(9))] = randomValue(r, depth)
	}
	return m
}

// overwrite replaces all values in v, in place.
func overwrite(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			overwrite(v[k])
			v[k] = "changed"
		}
	case []any:
		for i := range v {
			overwrite(v[i])
			v[i] = "changed"
		}
	}
}

// TestCopyValues: a copy of values is equal in every type and byte, and shares no memory (R2a).
func TestCopyValues(t *testing.T) {
	for seed := range uint64(2000) {
		values := randomValues(rand.New(rand.NewPCG(seed, 0)), 3)
		again := randomValues(rand.New(rand.NewPCG(seed, 0)), 3)
		copied := CopyValues(values)
		if !reflect.DeepEqual(copied, again) {
			t.Fatalf("seed %d: the copy of %#v is %#v", seed, again, copied)
		}
		overwrite(copied)
		if !reflect.DeepEqual(values, again) {
			t.Fatalf("seed %d: changing the copy changed the values", seed)
		}
	}
	if CopyValues(nil) == nil {
		t.Error("the copy of a nil map is nil, but Helm writes into it")
	}
}

// TestKeepTypes: of values that went through a user's editor, what was not edited has the type and the bytes that it had (R46).
func TestKeepTypes(t *testing.T) {
	before := map[string]any{
		"int": int64(1000000), "float": 1.5, "binary": "\xfe\xff", "text": "é", "null": nil,
		"map": map[string]any{"int": int64(2), "edited": int64(3)}, "list": []any{int64(1), "\xff", int64(2)}, "gone": int64(1),
	}
	text, err := YAML(before)
	if err != nil {
		t.Fatal(err)
	}
	var edited map[string]any
	if err := yaml.Unmarshal([]byte(text), &edited); err != nil {
		t.Fatal(err)
	}
	edited["map"].(map[string]any)["edited"] = 4.0
	edited["list"] = append(edited["list"].([]any), 1.0)
	edited["new"] = 5.0
	delete(edited, "gone")
	KeepTypes(before, edited)
	want := CopyValues(before)
	want["map"].(map[string]any)["edited"] = 4.0
	want["list"] = append(want["list"].([]any), 1.0)
	want["new"] = 5.0
	delete(want, "gone")
	if !reflect.DeepEqual(edited, want) {
		t.Errorf("edited values are %#v, want %#v", edited, want)
	}
}

// TestApplyChanges sets exactly the changed values.
func TestApplyChanges(t *testing.T) {
	read := func(text string) map[string]any {
		var out map[string]any
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return CopyValues(out)
	}
	const all = "{a: 1, b: {c: 2, d: [1, 2]}, e: x, f: {g: 1}, n: null}"
	for name, c := range map[string]struct{ overrides, after, want string }{
		"nothing":            {"{e: x}", all, "{e: x}"},
		"a value":            {"{e: x}", "{a: 5, b: {c: 2, d: [1, 2]}, e: x, f: {g: 1}, n: null}", "{a: 5, e: x}"},
		"a nested value":     {"{}", "{a: 1, b: {c: 2, d: [1]}, e: x, f: {g: 1}, n: null}", "{b: {d: [1]}}"},
		"beside an override": {"{b: {c: 2}}", "{a: 1, b: {c: 2, d: [1]}, e: x, f: {g: 1}, n: null}", "{b: {c: 2, d: [1]}}"},
		"deleted":            {"{e: x}", "{a: 1, b: {c: 2, d: [1, 2]}, f: {}, n: null}", "{e: null, f: {g: null}}"},
		"new":                {"{}", "{a: 1, b: {c: 2, d: [1, 2]}, e: x, f: {g: 1}, n: null, z: {y: 1}}", "{z: {y: 1}}"},
		"another kind":       {"{}", "{a: {x: 1}, b: 3, e: x, f: {g: 1}, n: null}", "{a: {x: 1}, b: 3}"},
	} {
		overrides := read(c.overrides)
		ApplyChanges(overrides, read(all), read(c.after))
		if want := read(c.want); !reflect.DeepEqual(overrides, want) {
			t.Errorf("%s: %v, want %v", name, overrides, want)
		}
	}
}

// TestIgnoredValues: the warning about a key that sets nothing shows a key that sets something.
func TestIgnoredValues(t *testing.T) {
	for argument, want := range map[string]string{
		"=x":         "--set =… sets nothing: its key is empty; write key=value",
		"b[=x":       "--set b[=… sets nothing: its key lacks a closing bracket; write b[0]=value",
		"a.b[12x=y":  "--set a.b[12x=… sets nothing: its key lacks a closing bracket; write a.b[12]=value",
		".a=x":       "--set .a=… sets nothing: a part of its key is empty; name each part, as in a.b=value or a[0]=value",
		"a.=":        "--set a.=… sets nothing: a part of its key is empty; name each part, as in a.b=value or a[0]=value",
		"[0]=x":      "--set [0]=… sets nothing: a part of its key is empty; name each part, as in a.b=value or a[0]=value",
		".a[=x":      "--set .a[=… sets nothing: a part of its key is empty; name each part, as in a.b=value or a[0]=value",
		"a=,b=null":  "",
		"c={},d[0]=": "",
	} {
		got := IgnoredValues(values.Options{Values: []string{"ok=1," + argument}})
		if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", argument, got, want)
		}
	}
}

// TestSavedValuesAreReadBack: what YAML writes, Helm reads from a values file with the same types, whatever the values look like,
// with one exception that Helm makes itself: a number of a values file is a float. FloatsInFile names the integers that a template
// then prints differently, and as --set arguments they are as they were.
func TestSavedValuesAreReadBack(t *testing.T) {
	texts := []string{"1e6", "1E+6", "on", "off", "yes", "y", "n", "No", "true", "null", "~", "", " ", "0123", "0o17", "0x1F", "0b1", "1_000", "12:30:45", "1.0", ".5", "-.inf", ".NaN",
		"2026-01-01", "2026-01-01T00:00:00Z", "=", "!!str", "!x", "&a", "*a", "- a", "-", "a: b", "a #b", "#", "[", "{", "|", ">", "%", "@", "`", "'", "\"", "a\nb", "\n", "\ttab", " a ",
		"é", "\u0085", "\u2028", "\ufeff", "\x00", "\x7f", "9007199254740993", "+1", "1,000", "---", "...", "? a"}
	r := rand.New(rand.NewPCG(1, 2))
	key := func() string { return cmp.Or(texts[r.IntN(len(texts))], "k") } // --set cannot have an empty key
	var random func(depth int) any
	random = func(depth int) any {
		switch n := r.IntN(9); {
		case n < 4:
			return texts[r.IntN(len(texts))]
		case n == 4:
			return []any{nil, true, false}[r.IntN(3)]
		case n == 5:
			return int64(r.Uint64()) >> r.IntN(64)
		case n == 6:
			return r.NormFloat64() * 1e6
		case depth == 0:
			return ""
		case n == 7:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, random(depth-1))
			}
			return list
		}
		m := map[string]any{}
		for range r.IntN(4) {
			m[key()] = random(depth - 1)
		}
		return m
	}
	// asRead returns a value as Helm reads it, and notes the integers that are printed differently.
	var asRead func(v any, lost *int) any
	asRead = func(v any, lost *int) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				out[k] = asRead(e, lost)
			}
			return out
		case []any:
			out := []any{}
			for _, e := range v {
				out = append(out, asRead(e, lost))
			}
			return out
		case int64:
			if fmt.Sprint(v) != fmt.Sprint(float64(v)) {
				*lost++
			}
			return float64(v)
		}
		return v
	}
	for n := range 300 {
		given := map[string]any{"a": random(3), key(): random(2)}
		text, err := YAML(given)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Values(values.Options{ValueFiles: []string{file}}, cli.New())
		lost := 0
		if want := asRead(given, &lost); err != nil || !reflect.DeepEqual(any(got), want) {
			t.Fatalf("%d: %#v was saved as\n%s\nand read as %#v, %v", n, given, text, got, err)
		}
		args := FloatsInFile(given)
		if len(args) != lost {
			t.Fatalf("%d: of %#v, %d integers are printed differently, but not %q", n, given, lost, args)
		}
		if got, err = Values(values.Options{ValueFiles: []string{file}, Values: args}, cli.New()); err != nil || len(FloatsInFile(got)) != lost {
			t.Fatalf("%d: with --set %q, %#v was read as %#v, %v", n, args, given, got, err)
		}
	}
}

// TestDefaultsAsComments: a file that the user edits ends with the chart's defaults, also if the chart comes from the record of a
// release, which lacks the text of values.yaml (R46).
func TestDefaultsAsComments(t *testing.T) {
	const head = "# The chart's defaults follow as comments.\n\n"
	file := &chart.Chart{Raw: []*common.File{{Name: "values.yaml", Data: []byte("\n# How many.\nreplicas: 2\n")}}, Values: map[string]any{"replicas": 2}}
	recorded := &chart.Chart{Values: map[string]any{"replicas": 2, "image": map[string]any{"tag": "1"}}}
	for c, want := range map[*chart.Chart]string{
		file:     head + "# # How many.\n# replicas: 2\n",
		recorded: head + "# image:\n#   tag: \"1\"\n# replicas: 2\n",
		{}:       "",
	} {
		if got := Defaults(c); got != want {
			t.Errorf("the defaults are %q, want %q", got, want)
		}
	}
}
