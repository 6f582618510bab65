package charts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// What Helm's ways of giving values make: YAML and JSON numbers are floats, those
// of --set integers, and --set-file takes any bytes.
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

// blank sets all that is in values to something else, in place.
func blank(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			blank(v[k])
			v[k] = "changed"
		}
	case []any:
		for i := range v {
			blank(v[i])
			v[i] = "changed"
		}
	}
}

// R2a: a copy of values is equal to the last type and byte, and shares nothing.
func TestCopyValues(t *testing.T) {
	for seed := range uint64(2000) {
		values := randomValues(rand.New(rand.NewPCG(seed, 0)), 3)
		again := randomValues(rand.New(rand.NewPCG(seed, 0)), 3)
		copied := CopyValues(values)
		if !reflect.DeepEqual(copied, again) {
			t.Fatalf("seed %d: the copy of %#v is %#v", seed, again, copied)
		}
		blank(copied)
		if !reflect.DeepEqual(values, again) {
			t.Fatalf("seed %d: a change of the copy changed the values", seed)
		}
	}
	if CopyValues(nil) == nil {
		t.Error("a nil map stays one; Helm writes into it")
	}
}

// TestGive gives what has been changed in all values, and nothing else.
func TestGive(t *testing.T) {
	read := func(text string) map[string]any {
		var out map[string]any
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return CopyValues(out)
	}
	const all = "{a: 1, b: {c: 2, d: [1, 2]}, e: x, f: {g: 1}, n: null}"
	for name, c := range map[string]struct{ given, is, want string }{
		"nothing":              {"{e: x}", all, "{e: x}"},
		"a value":              {"{e: x}", "{a: 5, b: {c: 2, d: [1, 2]}, e: x, f: {g: 1}, n: null}", "{a: 5, e: x}"},
		"within":               {"{}", "{a: 1, b: {c: 2, d: [1]}, e: x, f: {g: 1}, n: null}", "{b: {d: [1]}}"},
		"beside what is given": {"{b: {c: 2}}", "{a: 1, b: {c: 2, d: [1]}, e: x, f: {g: 1}, n: null}", "{b: {c: 2, d: [1]}}"},
		"taken away":           {"{e: x}", "{a: 1, b: {c: 2, d: [1, 2]}, f: {}, n: null}", "{e: null, f: {g: null}}"},
		"new":                  {"{}", "{a: 1, b: {c: 2, d: [1, 2]}, e: x, f: {g: 1}, n: null, z: {y: 1}}", "{z: {y: 1}}"},
		"another kind":         {"{}", "{a: {x: 1}, b: 3, e: x, f: {g: 1}, n: null}", "{a: {x: 1}, b: 3}"},
	} {
		given := read(c.given)
		Give(given, read(all), read(c.is))
		if want := read(c.want); !reflect.DeepEqual(given, want) {
			t.Errorf("%s: %v, want %v", name, given, want)
		}
	}
}
