package stack

import (
	"testing"
	"time"

	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
)

// TestTimeoutsOfReleases expects the timeout that the helmfile gives a release to limit the wait for each of its objects,
// unless the operation has a readiness timeout, which then must not exceed it (R25).
func TestTimeoutsOfReleases(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct{ timeout, readiness, own, wantTimeout, wantReadiness time.Duration }{
		{0, 0, 0, 5 * m, m},
		{0, 0, 10 * m, 10 * m, 10 * m},
		{10 * m, 0, 0, 10 * m, 10 * m},
		{10 * m, 0, 3 * m, 3 * m, 3 * m},
		{0, 2 * m, 10 * m, 10 * m, 2 * m},
		{0, 2 * m, m, m, m},
	} {
		s := &Stack{opts: Options{Common: operation.Common{Timeout: c.timeout, ReadinessTimeout: c.readiness}}}
		got, err := s.common(&member{Release: helmfile.Release{Name: "r", Timeout: c.own}}).Complete("n")
		if err != nil || got.Timeout != c.wantTimeout || got.ReadinessTimeout != c.wantReadiness {
			t.Errorf("%s and %s with timeout: %s: %s and %s (%v), want %s and %s", c.timeout, c.readiness, c.own,
				got.Timeout, got.ReadinessTimeout, err, c.wantTimeout, c.wantReadiness)
		}
	}
}
