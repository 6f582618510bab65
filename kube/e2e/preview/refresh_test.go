package preview

import (
	"testing"

	"lockstep/kube/e2e/rig"
)

// TestViewFollowsSecrets: a screen that was attached before a revision hides the secret values of that revision, too (S14).
func TestViewFollowsSecrets(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	secret := func(value string) string {
		return rig.Object("v1/Secret/s", nil, "stringData: {password: "+value+"}")
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, secret("Fir5t-value-1")), nil))
	view, err := r.Client.PrepareView(t.Context(), "t", r.Namespace, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, secret("S3cond-value-2")), nil)))
	if err := view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := view.Mask().Output("Fir5t-value-1 S3cond-value-2"); got != "(hidden) (hidden)" {
		t.Errorf("shown: %s", got)
	}
}
