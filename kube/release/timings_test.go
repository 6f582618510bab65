package release

import (
	"testing"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
)

// TestUsual: the usual duration is that of the latest deployed revision in which the group
// changed.
func TestUsual(t *testing.T) {
	of := func(group string, seconds int, status event.Status) Timing {
		return Timing{Phase: "apply", Group: group, Status: status, Took: time.Duration(seconds) * time.Second}
	}
	unchanged := func(t Timing) Timing { t.Unchanged = true; return t }
	revs := &Revisions{}
	for n, r := range []struct {
		status rcommon.Status
		groups []Timing
	}{
		{rcommon.StatusSuperseded, []Timing{of("a", 1, event.Ready), of("b", 2, event.Ready), of("gone", 3, event.Applied)}},
		{rcommon.StatusDeployed, []Timing{of("a", 10, event.Ready), unchanged(of("b", 0, event.Ready)), of("c", 4, event.Failed)}},
		{rcommon.StatusFailed, []Timing{of("a", 60, event.Ready), of("c", 60, event.Failed)}},
	} {
		rel := &rel1.Release{Name: "t", Version: n + 1, Info: &rel1.Info{Status: r.status}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}}
		if err := writeFile(rel, courseFile, course{rel.Version, Course{Groups: r.groups}}); err != nil {
			t.Fatal(err)
		}
		revs.All = append(revs.All, rel)
	}
	usual := revs.Usual()
	for group, want := range map[string]time.Duration{"a": 10 * time.Second, "b": 2 * time.Second, "gone": 3 * time.Second} {
		if got := usual[event.Unit{Phase: "apply", Group: group}]; got != want {
			t.Errorf("%s usually takes %s, want %s", group, got, want)
		}
	}
	if len(usual) != 3 {
		t.Errorf("durations of %d units, want 3: %v", len(usual), usual)
	}
}
