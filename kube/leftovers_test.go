package kube

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube/charts"
)

// fails is a Job that fails at once, and something that waits for it.
func fails() string {
	text := job("fails", map[string]string{"helm.sh/layer": "fails"}, "10ms", "  backoffLimit: 0")
	return strings.Replace(text, "{sandbox/run-duration: 10ms}", `{sandbox/run-duration: 10ms, sandbox/exit-code: "1"}`, 1) +
		"\n---\n" + configMap("never", map[string]string{"helm.sh/layer": "never", "helm.sh/dependson/layer": "fails"})
}

// failing is a chart that comes as far as bringing ConfigMaps, and then fails: the
// second waits for the first one.
func failing(t *testing.T, first, second string) *charts.Chart {
	return makeChart(t, files{
		"Chart.yaml":                 "apiVersion: v2\nname: edge\nversion: 1.0.0\nannotations: {helm.sh/depends-on/subcharts: '[\"sub\"]'}\ndependencies: [{name: sub, version: 1.0.0}]\n",
		"templates/all.yaml":         fails(),
		"charts/sub/Chart.yaml":      "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/a.yml": configMap("a", nil) + "\n---\n" + configMap(first, group("first")) + "\n---\n" + configMap(second, group("second", "first")),
	})
}

// TestWhatFailedRevisionsLeave fails twice, each time with objects of its own:
// they go with the next operation, whatever that is, as the plan says before, in
// reverse of the order in which they came, and only as far as they are the
// release's (R32a).
func TestWhatFailedRevisionsLeave(t *testing.T) {
	good := one(t, configMap("a", nil), configMap("before", nil))
	tests := map[string]struct {
		do    func(*rig) (*Operation, error)
		goes  []string // "phase group: object …", in order
		stays []string
	}{
		"upgrade": {func(r *rig) (*Operation, error) { return r.upgrade("plain", useUp(one(t, configMap("a", nil)), nil)) },
			[]string{"remove-3 edge:fails: fails", "remove-3 edge/sub:second: d", "remove-3 edge/sub:first: c", "remove-2 edge/sub:second: b", "remove edge:(unsequenced): before"},
			[]string{"a", "taken"}},
		"rollback": {func(r *rig) (*Operation, error) { return r.rollback(1) },
			[]string{"remove edge:fails: fails", "remove edge/sub:second: d", "remove edge/sub:first: c", "remove-2 edge/sub:second: b"},
			[]string{"a", "before", "taken"}},
		"uninstall": {(*rig).uninstall,
			[]string{"remove edge:fails: fails", "remove edge/sub:(unsequenced): a", "remove edge/sub:second: d", "remove edge/sub:first: c", "remove-2 edge/sub:second: b", "remove-1 edge:(unsequenced): before"},
			[]string{"taken"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(good, nil))
			for _, c := range []*charts.Chart{failing(t, "taken", "b"), failing(t, "c", "d")} {
				op, err := r.upgrade("plain", useUp(c, nil))
				r.mustFail(op, err)
			}
			r.patchConfigMap("taken", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
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
			out := r.mustRun(op, nil)
			var ran []string
			for _, e := range out.events {
				if e.Kind == event.KindGroup && e.Status == event.Running && strings.HasPrefix(e.Phase, "remove") && e.Group != "edge:never" {
					ran = append(ran, e.Phase+" "+e.Group)
				}
			}
			for i, text := range tt.goes {
				if id, _, _ := strings.Cut(text, ": "); i >= len(ran) || ran[i] != id {
					t.Fatalf("ran %v", ran)
				}
			}
			if got := r.configMaps(r.namespace); !slices.Equal(got, tt.stays) || len(r.jobs()) > 0 {
				t.Errorf("there are %v and %v, want %v", got, r.jobs(), tt.stays)
			}
		})
	}
}
