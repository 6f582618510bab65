package text

import (
	"cmp"
	"strings"
)

// CompareNatural compares names as people sort them: numbers in them by their value, so that db-2 comes before db-10.
func CompareNatural(a, b string) int {
	return cmp.Or(compareParts(a, b), cmp.Compare(a, b))
}

func compareParts(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(x):], b[len(y):]
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns the digits at the start of a text.
func digits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}
