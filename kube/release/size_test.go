package release

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
)

// TestFitOmitsALargeTree fits a record whose chart tree is larger than the limit (R28).
func TestFitOmitsALargeTree(t *testing.T) {
	noise := func(n int) string {
		b := make([]byte, n/2)
		_, _ = rand.Read(b)
		return hex.EncodeToString(b)
	}
	rel := &rel1.Release{Name: "t", Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "edge"}}}
	tree := &plan.Chart{Path: "edge"}
	for range 100 {
		tree.Subcharts = append(tree.Subcharts, plan.Subchart{Name: noise(20_000)})
	}
	rec, warnings, err := Fit(rel, NewRecord(true, tree))
	if err != nil || len(warnings) != 1 || !rec.Sequenced || len(rec.Tree.Subcharts) != 0 {
		t.Errorf("record %+v, warnings %v, error %v; want a record without a tree, and one warning", rec, warnings, err)
	}
}
