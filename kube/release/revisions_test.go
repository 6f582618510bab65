package release

import (
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// TestWasDeployed: a superseded revision was deployed unless its description is one of those of failed revisions. A description of
// the user that looks alike decides nothing.
func TestWasDeployed(t *testing.T) {
	for description, want := range map[string]bool{
		"Upgrade complete":                                  true,
		`INC-42: Job "migrate" failed: raise memory`:        true,
		`Upgrade "other" failed: that was the reason`:       true,
		`again: Upgrade "shop" failed: timed out`:           true,
		`Upgrade "shop" failed: timed out`:                  false,
		`Release "shop" failed: an interrupted run left it`: false,
		`Rollback "shop" failed: timed out`:                 false,
		`Uninstall of "shop" failed: timed out`:             false,
	} {
		rel := &rel1.Release{Name: "shop", Info: &rel1.Info{Status: rcommon.StatusSuperseded, Description: description}}
		if got := WasDeployed(rel); got != want {
			t.Errorf("%s: %t", description, got)
		}
	}
}
