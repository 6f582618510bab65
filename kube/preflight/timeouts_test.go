package preflight

import (
	"testing"
	"time"

	"lockstep/kube/session"
)

// TestDefaultTimeouts expects --timeout to limit the wait for each object too, if it is given alone (R25).
func TestDefaultTimeouts(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct{ timeout, readiness, wantTimeout, wantReadiness time.Duration }{
		{0, 0, 5 * m, m},
		{10 * m, 0, 10 * m, 10 * m},
		{20 * time.Second, 0, 20 * time.Second, 20 * time.Second},
		{0, 2 * m, 5 * m, 2 * m},
		{10 * m, 2 * m, 10 * m, 2 * m},
	} {
		got, err := session.Common{Timeout: c.timeout, ReadinessTimeout: c.readiness}.Complete("n")
		if err != nil || got.Timeout != c.wantTimeout || got.ReadinessTimeout != c.wantReadiness {
			t.Errorf("%s and %s: %s and %s (%v), want %s and %s", c.timeout, c.readiness, got.Timeout, got.ReadinessTimeout, err, c.wantTimeout, c.wantReadiness)
		}
	}
	if _, err := (session.Common{ReadinessTimeout: 6 * m}).Complete("n"); err == nil {
		t.Error("a readiness timeout above the default timeout is accepted")
	}
}
