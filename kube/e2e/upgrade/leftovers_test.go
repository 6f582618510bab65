package upgrade

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestLeftoversOfFailedRevisions fails twice, each time with additional objects. The next
// operation of any kind removes them, as planned, in reverse order of their creation, if the
// release still owns them (R32a).
func TestLeftoversOfFailedRevisions(t *testing.T) {
	good := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.ConfigMap("before", nil))
	tests := map[string]struct {
		do    func(*rig.Rig) (*kube.Operation, error)
		goes  []string // "phase group: object …", in order
		stays []string
	}{
		"upgrade": {func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil))
		},
			[]string{"remove-3 edge:fails: fails", "remove-3 edge/sub:second: d", "remove-3 edge/sub:first: c", "remove-2 edge/sub:second: b", "remove edge:(unsequenced): before"},
			[]string{"a", "taken"}},
		"rollback": {func(r *rig.Rig) (*kube.Operation, error) { return r.Rollback(1) },
			[]string{"remove edge:fails: fails", "remove edge/sub:second: d", "remove edge/sub:first: c", "remove-2 edge/sub:second: b"},
			[]string{"a", "before", "taken"}},
		"uninstall": {(*rig.Rig).Uninstall,
			[]string{"remove edge:fails: fails", "remove edge/sub:(unsequenced): a", "remove edge/sub:second: d", "remove edge/sub:first: c", "remove-2 edge/sub:second: b", "remove-1 edge:(unsequenced): before"},
			[]string{"taken"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(good, nil))
			for _, c := range []*charts.Chart{rig.FailingChart(t, "taken", "b"), rig.FailingChart(t, "c", "d")} {
				op, err := r.Upgrade("plain", rig.UseChart(c, nil))
				r.MustFail(op, err)
			}
			r.PatchConfigMap("taken", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			op, err := tt.do(r)
			if err != nil {
				t.Fatal(err)
			}
			var planned []string
			for _, p := range op.Phases() {
				for _, g := range p.Groups {
					if p.Kind == event.PhaseRemove && g.ID != "edge:never" {
						text := p.Name + " " + g.ID + ":"
						for _, o := range g.Objects {
							text += " " + o.Name
						}
						planned = append(planned, text)
					}
				}
			}
			if !slices.Equal(planned, tt.goes) {
				t.Errorf("planned are\n%s\nwant\n%s", strings.Join(planned, "\n"), strings.Join(tt.goes, "\n"))
			}
			out := r.MustRun(op, nil)
			var ran []string
			for _, e := range out.Events {
				if e.Kind == event.KindGroup && e.Status == event.Running && strings.HasPrefix(e.Phase, "remove") && e.Group != "edge:never" {
					ran = append(ran, e.Phase+" "+e.Group)
				}
			}
			for i, text := range tt.goes {
				if id, _, _ := strings.Cut(text, ": "); i >= len(ran) || ran[i] != id {
					t.Fatalf("ran %v", ran)
				}
			}
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, tt.stays) || len(r.Jobs()) > 0 {
				t.Errorf("ConfigMaps %v, Jobs %v, want %v", got, r.Jobs(), tt.stays)
			}
		})
	}
}
