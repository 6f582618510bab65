package release

import (
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// TestDeployedBy: a revision counts as deployed by a Job only once it is deployed, and not if a rollback
// copied its chart from a revision of that Job.
func TestDeployedBy(t *testing.T) {
	const job = "shop/lockstep-shop-abcde"
	for _, test := range []struct {
		name    string
		created string // by which Job
		status  rcommon.Status
		version int
		want    bool
		undo    bool
	}{
		{"rolled back", job, rcommon.StatusDeployed, 2, false, true},
		{"deployed", job, rcommon.StatusDeployed, 2, true, false},
		{"pending", job, rcommon.StatusPendingUpgrade, 2, false, false},
		{"by another Job", "shop/other", rcommon.StatusDeployed, 2, false, false},
		{"on another machine", "", rcommon.StatusDeployed, 2, false, false},
		{"copied", job, rcommon.StatusDeployed, 3, false, false},
	} {
		rel := &rel1.Release{Name: "shop", Version: 2, Info: &rel1.Info{Status: test.status}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}}
		for _, locked := range []bool{true, false} { // without permissions for Leases, the revision still names its Job (S13)
			rel.Chart.Files = nil
			if err := sign(rel, true, locked, test.created, test.undo, nil, nil); err != nil {
				t.Fatal(err)
			}
			if got, want := CreatedBy(rel, job), test.created == job; got != want {
				t.Errorf("%s: locked %t: created by the Job: %t, want %t", test.name, locked, got, want)
			}
		}
		rel.Version = test.version
		if got := DeployedBy(rel, job); got != test.want {
			t.Errorf("%s: deployed by the Job: %v, want %v", test.name, got, test.want)
		}
		if got := RolledBackBy(rel, job); got != test.undo {
			t.Errorf("%s: rolled back by the Job: %v, want %v", test.name, got, test.undo)
		}
		if DeployedBy(rel, "") || CreatedBy(rel, "") || RolledBackBy(rel, "") {
			t.Errorf("%s: deployed by a Job without a name", test.name)
		}
	}
}
