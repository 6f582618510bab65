package release

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
)

func noise(n int) string {
	b := make([]byte, n/2)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// TestFitOmitsALargeTree fits a record whose chart tree is larger than the limit (R28).
func TestFitOmitsALargeTree(t *testing.T) {
	rel := &rel1.Release{Name: "t", Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "edge"}}}
	tree := &plan.Chart{Path: "edge"}
	for range 100 {
		tree.Subcharts = append(tree.Subcharts, plan.Subchart{Name: noise(20_000)})
	}
	asks := plan.NewChart("edge/db", map[string]string{plan.AnnotationApprove: "drops tables"})
	tree.Subcharts[1] = plan.Subchart{Name: "db", DependsOn: []string{noise(20_000)}, Chart: asks}
	rec, warnings, err := Fit(rel, NewRecord(true, tree))
	if err != nil || len(warnings) != 1 || !rec.Sequenced || len(rec.Tree.Subcharts) != 1 {
		t.Fatalf("record %+v, warnings %v, error %v; want a record without a tree, and one warning", rec, warnings, err)
	}
	if db := rec.Tree.Subcharts[0]; len(db.DependsOn) > 0 || db.Chart.Approval == nil || *db.Chart.Approval != *asks.Approval {
		t.Errorf("subchart %+v: a later rollback would not ask for its approval (R42a)", db)
	}
}

// TestFitReservesThePointOfNoReturn: a release that fits only without lockstep's part is refused if its chart has a point of no return:
// the run could not record it, nor that it has failed (R33a, R34).
func TestFitReservesThePointOfNoReturn(t *testing.T) {
	of := func(size int, metadata string) *rel1.Release {
		return &rel1.Release{Name: "t", Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "edge"}},
			Manifest: "metadata: " + metadata, Config: map[string]any{"noise": noise(size)}}
	}
	const noReturn = "{annotations: {lockstep/no-return: it is gone}}"
	size := 1_000_000
	for { // up to the last few hundred bytes
		n, err := storedSize(of(size, noReturn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if gap := maxStored - n; gap > 0 && gap < storedSlack {
			break
		} else if gap > 0 {
			size += gap - storedSlack/2
		} else {
			size += gap - storedSlack
		}
	}
	tree := &plan.Chart{Path: "edge"}
	if rec, warnings, err := Fit(of(size, "{}"), NewRecord(true, tree)); err != nil || rec != nil || len(warnings) != 1 {
		t.Errorf("without a point of no return: record %v, warnings %v, error %v", rec, warnings, err)
	}
	if _, _, err := Fit(of(size, noReturn), NewRecord(true, tree)); err == nil {
		t.Error("not refused: an object has the annotation")
	}
	sub := &plan.Chart{Path: "edge", Subcharts: []plan.Subchart{{Name: "db", Chart: &plan.Chart{Path: "edge/db", NoReturn: "it is gone"}}}}
	if _, _, err := Fit(of(size, "{}"), NewRecord(true, sub)); err == nil {
		t.Error("not refused: a subchart has the annotation")
	}
}
