package order

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/e2e/rig"
)

// TestTwoMethods: two charts of a release may use different methods of ordering (R20).
func TestTwoMethods(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	weight := func(w string) map[string]string { return map[string]string{plan.AnnotationWeight: w} }
	sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	chart := rig.MakeChart(t, rig.Files{
		"Chart.yaml":                "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: layers, version: 1.0.0}\n- {name: weights, version: 1.0.0, depends-on: [layers]}\n",
		"charts/layers/Chart.yaml":  sub("layers"),
		"charts/weights/Chart.yaml": sub("weights"),
		"charts/layers/templates/all.yaml": rig.Job("work", map[string]string{plan.AnnotationLayer: "a"}, "500ms") + "\n---\n" +
			rig.ConfigMap("after", map[string]string{plan.AnnotationLayer: "b", plan.AnnotationLayerDependsOn: "a"}),
		"charts/weights/templates/all.yaml": rig.ConfigMap("heavy", weight("1")) + "\n---\n" + rig.ConfigMap("light", weight("-1")),
		"templates/all.yaml":                rig.ConfigMap("root", rig.Group("x")),
	})
	out := r.Deploy("plain", rig.UseChart(chart, nil))
	order := []string{"edge/layers:a", "edge/layers:b", "edge/weights:-1", "edge/weights:1"}
	for i, id := range order[1:] {
		if at, before := out.StatusTime(id, event.Running), out.StatusTime(order[i], event.Running); !at.After(before) {
			t.Errorf("%s started at %s, %s at %s", id, rig.Clock(at), order[i], rig.Clock(before))
		}
	}
	r.MustRun(r.Uninstall())
}
