package status

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// number is a number in a status or an expression. Integers are kept exact.
type number struct {
	whole bool
	i     int64
	f     float64
}

// readNumber reads a decimal number as JSON writes it. NaN, hexadecimal digits
// and quantities such as 1Gi are not numbers.
func readNumber(s string) (number, bool) {
	var n json.Number
	if len(s) == 0 || s[0] == '"' || json.Unmarshal([]byte(s), &n) != nil || n == "" {
		return number{}, false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number{whole: true, i: i, f: float64(i)}, true
	}
	f, err := n.Float64()
	return number{f: f}, err == nil
}

// toNumber converts a value of a status: a number, or a string that can be read
// as one; isNumber tells which.
func toNumber(v any) (n number, isNumber, ok bool) {
	switch v := v.(type) {
	case int64:
		return number{whole: true, i: v, f: float64(v)}, true, true
	case int32:
		return toNumber(int64(v))
	case int:
		return toNumber(int64(v))
	case float64:
		return number{f: v}, true, true
	case string:
		n, ok := readNumber(v)
		return n, false, ok
	}
	return number{}, false, false
}

func (n number) compare(m number) int {
	if n.whole && m.whole {
		return cmp.Compare(n.i, m.i)
	}
	return cmp.Compare(n.f, m.f)
}

// order compares v with want as numbers; ok is false if either is not one.
func order(v any, want literal) (c int, ok bool) {
	n, _, ok := toNumber(v)
	m, isNumber := readNumber(want.text)
	if !ok || !isNumber {
		return 0, false
	}
	return n.compare(m), true
}

// equal compares as described at Expression.
func equal(v any, want literal) bool {
	n, isNumber, ok := toNumber(v)
	m, wantOK := readNumber(want.text)
	if ok && wantOK && (isNumber || !want.quoted) {
		return n.compare(m) == 0
	}
	return scalarText(v) == want.text
}
