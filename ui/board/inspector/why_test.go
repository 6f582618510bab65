package inspector

import (
	"strings"
	"testing"
)

// TestShortWhy omits what the heading says already, and leaves other sentences alone.
func TestShortWhy(t *testing.T) {
	for why, want := range map[string]string{
		"Deployment/web waits for Service/db: env DATABASE_HOST names Service/db": "Deployment/web: env DATABASE_HOST names Service/db",
		"because": "because",
		"a: b":    "a: b",
	} {
		if got := shortWhy(why); got != want {
			t.Errorf("%q becomes %q, want %q", why, got, want)
		}
	}
}

// TestLogHasItsHeading: the lines of a log that fit are below their heading, or are named as the log.
func TestLogHasItsHeading(t *testing.T) {
	lines := []string{"condition Ready is False", "last lines of pod a, container b:", "  one", "  two", "  three"}
	for from, want := range map[int]string{
		0: "condition Ready is False|last lines of pod a, container b:|  one|  two|  three", 1: "last lines of pod a, container b:|  one|  two|  three",
		2: "last lines of pod a, container b:|  two|  three", 3: "last lines of pod a, container b:|  three", 4: "log: three", 5: "",
	} {
		if got := strings.Join(withHeading(lines, from), "|"); got != want {
			t.Errorf("from %d: %q, want %q", from, got, want)
		}
	}
}
