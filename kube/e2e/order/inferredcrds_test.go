package order

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestInferredOrderAfterCRDs: if crds/ make Helm render a chart again, and that changes the names of its objects, the order is
// inferred from what is deployed (R68), and recorded.
func TestInferredOrderAfterCRDs(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	gear := rig.LateKind{Kind: "Gear", Plural: "gears", Scope: "Namespaced", API: "again.example"}
	calling := func(doc string) string {
		return strings.Replace(doc, "image: example/app:1.0", "image: example/app:1.0, env: [{name: DATABASE_URL, value: 'postgres://db:5432/app'}]", 1)
	}
	chart := rig.MakeChart(t, rig.Files{"crds/gear.yaml": gear.CRD(nil), "templates/all.yaml": strings.Join([]string{
		service("db"), rig.Deployment("db", nil, "300ms"), calling(rig.Job("migrate-{{ randAlpha 8 | lower }}", nil, "0s")), calling(rig.Deployment("web", nil, "0s")),
		`{{ if lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "gears.again.example" }}` + rig.ConfigMap("seen", nil) + "{{ end }}",
	}, "\n---\n")})
	out := r.MustRun(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Order = kube.OrderInferred })))
	for _, e := range out.Events {
		if e.Kind == event.KindWarning {
			t.Errorf("warning %+v", e)
		}
	}
	jobs := r.Jobs()
	if len(jobs) != 1 || !slices.Contains(r.ConfigMaps(r.Namespace), "seen") {
		t.Fatalf("Jobs %v, ConfigMaps %v: the chart was not rendered again", jobs, r.ConfigMaps(r.Namespace))
	}
	job := plan.Object{Group: "batch", Kind: "Job", Namespace: r.Namespace, Name: jobs[0]}
	after := func(phases []event.Phase) (ids []string) {
		for g, o := range event.Objects(phases) {
			if o == job {
				ids = g.After
			}
		}
		return ids
	}
	var announced []string
	for _, e := range out.Events {
		if ids := after(e.Phases); ids != nil {
			announced = ids
		}
	}
	if !slices.Contains(announced, "edge:db") {
		t.Errorf("%s waits for %v", job, announced)
	}
	log := r.Timeline("lockstep")
	ready, _ := log.Ready(t, []string{"Deployment/db"})
	if created, _ := log.FirstWrite(t, []string{"Job/" + job.Name}); !ready.Before(created) {
		t.Errorf("%s was created at %s, but db was ready at %s", job, rig.Clock(created), rig.Clock(ready))
	}
	again := r.Must(r.Uninstall())
	for g, o := range event.Objects(again.Phases()) {
		if o.Name == "db" && o.Kind == "Deployment" && len(g.After) == 0 {
			t.Errorf("the uninstall removes %s at once", o)
		}
	}
	r.MustRun(again, nil)
}
