package inspector

import (
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
