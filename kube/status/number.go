package status

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// number is a number in a status or an expression. Integers are exact.
type number struct {
	isInt bool
	i     int64
	f     float64
}

// parseNumber parses a decimal number in JSON syntax. NaN, hexadecimal numbers and quantities such as 1Gi are not numbers.
func parseNumber(s string) (number, bool) {
	var n json.Number
	if len(s) == 0 || s[0] == '"' || json.Unmarshal([]byte(s), &n) != nil || n == "" {
		return number{}, false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number{isInt: true, i: i, f: float64(i)}, true
	}
	f, err := n.Float64()
	return number{f: f}, err == nil
}

// toNumber converts a value of a status: a number, or a string that can be parsed as one. isNumber is false for a string.
func toNumber(v any) (n number, isNumber, ok bool) {
	switch v := v.(type) {
	case int64:
		return number{isInt: true, i: v, f: float64(v)}, true, true
	case int32:
		return toNumber(int64(v))
	case int:
		return toNumber(int64(v))
	case float64:
		return number{f: v}, true, true
	case string:
		n, ok := parseNumber(v)
		return n, false, ok
	}
	return number{}, false, false
}

func (n number) compare(m number) int {
	if n.isInt && m.isInt {
		return cmp.Compare(n.i, m.i)
	}
	return cmp.Compare(n.f, m.f)
}

// compareNumbers compares v with want as numbers; ok is false if either is not one.
func compareNumbers(v any, want literal) (c int, ok bool) {
	n, _, ok := toNumber(v)
	m, wantOK := parseNumber(want.text)
	if !ok || !wantOK {
		return 0, false
	}
	return n.compare(m), true
}
