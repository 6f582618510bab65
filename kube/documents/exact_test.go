package documents

import (
	"math"
	"reflect"
	"testing"
)

// TestExactValues: values that were encoded for another process have the types and bytes that they had (R46, S13).
func TestExactValues(t *testing.T) {
	values := map[string]any{
		"int": int64(1000000), "min": int64(math.MinInt64), "max": int64(math.MaxInt64),
		"float": float64(1000000), "half": 0.5, "huge": 1e300, "zero": math.Copysign(0, -1),
		"null": nil, "true": true, "text": "é <&> \u2028", "digits": "1000000", "empty": "",
		"binary": "\xfe\xed\x00\x01", "nul": "\x00", "like encoded": encodedBytes + "AA==", "a.b\xff": "key",
		"list": []any{int64(1), nil, 1.0, "\xff", map[string]any{"n": int64(3)}, []any{}}, "map": map[string]any{},
	}
	text, err := EncodeExact(values)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeExact(text); err != nil || !reflect.DeepEqual(got, values) {
		t.Errorf("%s became %#v, %v", text, got, err)
	}
	for text, want := range map[string]map[string]any{"a: 1\n": {"a": 1.0}, "{a: x}": {"a": "x"}, "{}": {}} {
		if got, err := DecodeExact(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %#v, %v", text, got, err)
		}
	}
	if got, err := DecodeExact("- no\n"); err == nil {
		t.Errorf("a list became %#v", got)
	}
}
