package release

import (
	"reflect"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
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
			if err := sign(rel, true, locked, test.created, test.undo, nil, nil, nil, nil, nil); err != nil {
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

// TestRecordOfAnother: Helm stores the files of a chart with a release. A record among them, because the chart was made from a
// release, is none of this one, and makes nobody take Helm's revision for one of lockstep. Of one that Helm's rollback has copied, the order
// counts.
func TestRecordOfAnother(t *testing.T) {
	deployed := time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC)
	stored := &rel1.Release{Name: "shop", Version: 2, Info: &rel1.Info{Status: rcommon.StatusDeployed, LastDeployed: deployed}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}}
	if err := NewRecord(true, &plan.Chart{Path: "c"}).write(stored); err != nil {
		t.Fatal(err)
	}
	if err := sign(stored, true, true, "", false, []Taken{{}}, []Pruned{{}}, []Passed{{}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		info         rel1.Info
		signed, tree bool
		author       string
		taken        int
	}{
		{"the same", rel1.Info{LastDeployed: deployed.Local()}, true, true, AuthorOf(stored).Name, 1},
		{"of the chart", rel1.Info{LastDeployed: deployed.Add(time.Second)}, false, false, "helm", 0},
		{"copied", rel1.Info{LastDeployed: deployed.Add(time.Second), RollbackRevision: 2}, false, true, "helm", 0},
		{"copied by Helm 3", rel1.Info{LastDeployed: deployed.Add(time.Second), Description: "Rollback to 2"}, false, true, "helm", 0},
	} {
		rel := &rel1.Release{Name: "shop", Version: 2, Info: &c.info, Chart: stored.Chart}
		revs := &Revisions{All: []*rel1.Release{rel}}
		rel.Info.Status = rcommon.StatusFailed
		if signed(rel) != c.signed || (TreeOf(rel) != nil) != c.tree || AuthorOf(rel).Name != c.author ||
			len(revs.Taken("", nil)) != c.taken || len(revs.prunedIn(rel)) != c.taken {
			t.Errorf("%s: signed %t, tree %v, author %s, %d taken, %d pruned", c.name, signed(rel), TreeOf(rel), AuthorOf(rel).Name,
				len(revs.Taken("", nil)), len(revs.prunedIn(rel)))
		}
	}
}

// TestUnreadOrder: a record of another format, or a damaged one, is not the same as none (R28). One that a chart brings along is none.
func TestUnreadOrder(t *testing.T) {
	deployed := time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC)
	for name, test := range map[string]struct {
		content any
		data    []byte
		info    rel1.Info
		want    string
	}{
		"none":                      {},
		"this format":               {content: NewRecord(true, &plan.Chart{Path: "c"})},
		"another format":            {content: map[string]any{"version": 2, "tree": []int{}}, want: "another version of lockstep has recorded it, in format 2; this one reads format 1"},
		"another format, copied":    {content: Record{Version: 2, Stored: deployed}, info: rel1.Info{RollbackRevision: 1}, want: "another version of lockstep has recorded it, in format 2; this one reads format 1"},
		"another format of a chart": {content: Record{Version: 2, Stored: deployed}},
		"a field is invalid":        {content: map[string]any{"version": 1, "tree": []int{}}, want: "its record is damaged"},
		"no gzip":                   {data: []byte("garbage"), want: "its record is damaged"},
	} {
		rel := &rel1.Release{Name: "shop", Version: 1, Info: &test.info, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}}
		if test.content != nil {
			if err := writeFile(rel, recordFile, test.content); err != nil {
				t.Fatal(err)
			}
		}
		if test.data != nil {
			rel.Chart.Files = []*common.File{{Name: recordFile, Data: test.data}}
		}
		if got := UnreadOrder(rel); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestRollbackTo: Helm 4 has the revision that a rollback restored, Helm 3 only a description.
func TestRollbackTo(t *testing.T) {
	for want, info := range []*rel1.Info{{Description: "Upgrade complete"}, {RollbackRevision: 1, Description: "by ann"}, {Description: "Rollback to 2"}, {RollbackRevision: 3, Description: "Rollback to 3"}} {
		if got := RollbackTo(&rel1.Release{Info: info}); got != want {
			t.Errorf("%+v: %d, want %d", info, got, want)
		}
	}
}

// TestChartsOf: the charts of a revision are known whether or not they ordered it, and of one by Helm the root chart (R42a).
func TestChartsOf(t *testing.T) {
	asks := map[string]string{plan.AnnotationApprove: "drops tables", plan.AnnotationNoReturn: "they are gone"}
	tree := plan.NewChart("shop", asks)
	tree.Subcharts = []plan.Subchart{{Name: "db", Chart: plan.NewChart("shop/db", asks)}}
	for name, test := range map[string]struct {
		record *Record
		want   *plan.Chart
	}{
		"in order":         {NewRecord(true, tree), tree},
		"without an order": {NewRecord(false, tree), tree},
		"signed only":      {NewRecord(false, nil), plan.NewChart("shop", asks)},
		"by Helm":          {nil, plan.NewChart("shop", asks)},
	} {
		rel := &rel1.Release{Name: "shop", Info: &rel1.Info{}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "shop", Annotations: asks}}}
		if test.record != nil {
			if err := test.record.write(rel); err != nil {
				t.Fatal(err)
			}
		}
		if got := ChartsOf(rel); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
