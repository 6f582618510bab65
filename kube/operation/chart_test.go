package operation

import (
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// TestChartWarnings: an upgrade to a chart of another name warns, one to another version does not (R46b).
func TestChartWarnings(t *testing.T) {
	of := func(name, version string) *rel1.Release {
		return &rel1.Release{Chart: &chart.Chart{Metadata: &chart.Metadata{Name: name, Version: version}}}
	}
	if got := chartWarnings(of("shop", "1.0.0"), of("shop", "2.0.0")); got != nil {
		t.Errorf("another version: %v", got)
	}
	if got := chartWarnings(&rel1.Release{}, of("shop", "2.0.0")); got != nil {
		t.Errorf("an unknown chart: %v", got)
	}
	got := chartWarnings(of("shop", "1.0.0"), of("worker", "2.0.0"))
	if len(got) != 1 || got[0].Rule != "R46b" || got[0].Message != "another chart: the release has shop-1.0.0, and the upgrade deploys worker-2.0.0" {
		t.Errorf("another chart: %v", got)
	}
}
